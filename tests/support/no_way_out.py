"""Run a command that can reach only this machine, and record all that it requests outside.

    unshare --net --mount python tests/support/no_way_out.py LOG COMMAND...   (as root; others add --map-root-user)

The command has its own network, which ends at its loopback. A line of the log is a name that a process tried to
resolve, or an address outside to which it sent a packet, with the port. Nothing is answered. The kernel sees all
processes and libraries of the command, in any language.

If the kernel allows no such network, a hook in each Python process records the same. It does not see what libraries in
C do by themselves.
"""

import contextlib
import ctypes
import fcntl
import functools
import ipaddress
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_UP_FLAGS, _SET_FLAGS, _ADD_ROUTE = 0x1 | 0x40, 0x8914, 0x890B  # IFF_UP | IFF_RUNNING, SIOCSIFFLAGS, SIOCADDRT
_BIND = 0x1000
_ALL_PROTOCOLS, _IPV4 = 0x0003, 0x0800
_NAME_ERROR = 0x8183
_LABELS = 12  # bytes before them in a question to a name server
_OF_LOOPBACK = ("localhost", "127.", "::1", "0.0.0.0", "1.0.0.127.in-addr.arpa")
_HOOK = """
import sys
def note(event, arguments):
    target = arguments[0] if event == "socket.getaddrinfo" else arguments[1] if event == "socket.connect" else None
    target = target[0] if isinstance(target, tuple) else target
    if isinstance(target, str) and target and not target.startswith("/"):
        with open({log!r}, "a") as log:
            log.write(target + chr(10))
sys.addaudithook(note)
"""


@functools.cache
def has_networks() -> bool:
    """Return True if this process may make a network of its own."""
    return subprocess.run([*_unshare(), "true"], capture_output=True, check=False).returncode == 0


def _unshare() -> list[str]:
    return ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "--mount"]


def asked_outside(command: Sequence[str], log: Path, environment: Mapping[str, str], **options: Any) -> list[str]:
    """Run a command, which must succeed, and return the requests that it sent beyond this machine.

    Args:
        command: to run.
        log: file to make.
        environment: all variables of the command.
        options: of `subprocess.run`.
    """
    log.touch()
    if has_networks():
        command = [*_unshare(), sys.executable, __file__, str(log), *command]
    else:
        hook = log.with_name(f"{log.name}-hook")
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(_HOOK.format(log=str(log)))
        environment = dict(environment) | {"PYTHONPATH": str(hook)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    own = (*_OF_LOOPBACK, socket.gethostname())
    return sorted({line for line in log.read_text().splitlines() if line and not line.startswith(own)})


def main() -> int:
    """Run the command, and return its exit code."""
    log, *command = sys.argv[1:]
    notes = Path(log).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115  # until the process ends
    _lead_all_to_the_loopback()
    _ask_ourselves_for_names()
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("127.0.0.1", 53))
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_IPV4))
    for watch in (lambda: _note_names(names, notes.write), lambda: _note_packets(packets, notes.write)):
        threading.Thread(target=watch, daemon=True).start()
    return subprocess.run(command, check=False).returncode


def _lead_all_to_the_loopback() -> None:
    """Bring `lo` up, and lead every address to it, where packets are seen and then dropped."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP_FLAGS))
        device = ctypes.create_string_buffer(b"lo")
        nowhere = struct.pack("HH12x", socket.AF_INET, 0)
        route = struct.pack("L", 0) + 3 * nowhere  # destination, gateway, mask
        route += struct.pack("HhLBB6xh6xPLLH6x", 1, 0, 0, 0, 0, 0, ctypes.addressof(device), 0, 0, 0)
        fcntl.ioctl(any_socket, _ADD_ROUTE, route)


def _ask_ourselves_for_names() -> None:
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    Path(file.name).chmod(0o644)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(file.name.encode(), b"/etc/resolv.conf", None, _BIND, None):
        raise OSError(ctypes.get_errno(), "mount of /etc/resolv.conf")


def _note_names(server: socket.socket, note: Callable[[str], object]) -> None:
    while True:
        question, asker = server.recvfrom(4_096)
        labels, place = [], _LABELS
        while length := question[place]:
            labels.append(question[place + 1 : place + 1 + length].decode())
            place += 1 + length
        note(f"{'.'.join(labels)}\n")
        head = question[:2] + struct.pack(">HHHHH", _NAME_ERROR, 1, 0, 0, 0)
        with contextlib.suppress(OSError):
            server.sendto(head + question[_LABELS : place + 5], asker)


def _note_packets(packets: socket.socket, note: Callable[[str], object]) -> None:
    while True:
        packet = packets.recv(65_535)
        target = ipaddress.ip_address(packet[16:20])
        if not target.is_loopback:
            words = 4 * (packet[0] & 15)
            note(f"{target}:{struct.unpack('>H', packet[words + 2 : words + 4])[0]}\n")


if __name__ == "__main__":
    sys.exit(main())
