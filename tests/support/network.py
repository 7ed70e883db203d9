"""Hosts with a network between them: network namespaces, and a switch that delays, loses and counts packets.

The switch is a process that holds one end of a TUN device of each host. The kernel's own `netem` would do the same, but
many kernels lack it. It needs root, /dev/net/tun and `ip` (Debian: iproute2).
"""

import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INTERFACE = "net0"
_FILES = Path("/etc/netns")
_TUN = "/dev/net/tun"
_SET_INTERFACE = 0x400454CA  # TUNSETIFF
_TUN_WITHOUT_HEADER = 0x1001  # IFF_TUN | IFF_NO_PI
_OF_THE_NETWORK = 0x40000000  # CLONE_NEWNET
_LARGEST_PACKET = 65_536
_MTU = 9_000


@dataclass(frozen=True)
class Host:
    """A network namespace with an address of its own, and a host name that the others resolve."""

    namespace: str
    name: str
    address: str

    @property
    def within(self) -> list[str]:
        """Words to put before a command that runs on this host."""
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name]
        return ["ip", "netns", "exec", self.namespace, *named]

    def listening(self) -> set[str]:
        """Return the addresses and ports on which a process listens."""
        shown = subprocess.run(
            [*self.within, "ss", "--tcp", "--udp", "--listening", "--numeric", "--no-header"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return {line.split()[4] for line in shown.stdout.splitlines()}


class Network:
    """Hosts and the switch between them."""

    def __init__(self, hosts: list[Host], switch: "subprocess.Popen[str]") -> None:
        self.hosts = hosts
        self._switch = switch

    def set(self, delay: float = 0.0, loss: float = 0.0, cut: bool = False) -> None:
        """Change the link between every two hosts.

        Args:
            delay: seconds that a packet takes.
            loss: share of the packets that are lost.
            cut: True if no packet arrives.
        """
        self._ask({"delay": delay, "loss": 1.0 if cut else loss})

    def sent(self) -> int:
        """Bytes of all packets that hosts have sent so far."""
        return int(self._ask({})["sent"])

    def _ask(self, words: dict[str, float]) -> dict[str, Any]:
        assert self._switch.stdin and self._switch.stdout
        self._switch.stdin.write(json.dumps(words) + "\n")
        self._switch.stdin.flush()
        answer: dict[str, Any] = json.loads(self._switch.stdout.readline())
        return answer


def missing() -> str:
    """Return the reason why no network can be made here, or an empty string."""
    if not shutil.which("ip"):
        return "no command ip: apt-get install iproute2"
    if os.getuid() != 0:
        return "network namespaces need root"
    return "" if Path(_TUN).exists() else f"no {_TUN}: the kernel has no TUN devices, or the container hides them"


@contextlib.contextmanager
def network(hosts: int) -> Iterator[Network]:
    """Make a network of hosts for the time of the block."""
    _remove_what_was_left()
    prefix = f"nmt-{os.getpid()}-{uuid.uuid4().hex[:4]}"
    made = [Host(f"{prefix}-{i}", f"host{i}", f"10.213.0.{i + 1}") for i in range(hosts)]
    names = "".join(f"{host.address} {host.name}\n" for host in made)
    try:
        for host in made:
            files = _FILES / host.namespace  # `ip netns exec` mounts them over the files in /etc
            files.mkdir(parents=True)
            (files / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
            _ip("netns", "add", host.namespace)
            _ip("-n", host.namespace, "link", "set", "lo", "up")
        command = [sys.executable, __file__, *(host.namespace for host in made)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as switch:
            assert switch.stdout
            switch.stdout.readline()
            for host in made:
                _ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", INTERFACE)
                _ip("-n", host.namespace, "link", "set", INTERFACE, "mtu", str(_MTU), "up")
            try:
                yield Network(made, switch)
            finally:
                switch.terminate()
    finally:
        for host in made:
            _remove(host.namespace)


def _remove(namespace: str) -> None:
    subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)
    shutil.rmtree(_FILES / namespace, ignore_errors=True)


def _remove_what_was_left() -> None:
    """Remove the hosts of killed processes, because a namespace outlives its processes."""
    for files in _FILES.glob("nmt-*-*-*"):
        if not Path("/proc", files.name.split("-")[1]).exists():
            _remove(files.name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _device_in(namespace: str) -> int:
    """Return the switch's end of a TUN device in a namespace."""
    library = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if library.setns(there, _OF_THE_NETWORK):
        raise OSError(ctypes.get_errno(), f"cannot enter namespace {namespace}")
    device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _SET_INTERFACE, struct.pack("16sH22x", INTERFACE.encode(), _TUN_WITHOUT_HEADER))
    library.setns(own, _OF_THE_NETWORK)
    os.close(own)
    os.close(there)
    return device


class _Switch:
    """Packets that are being delayed."""

    def __init__(self, devices: list[int]) -> None:
        self._devices = devices
        self._delay = self._loss = 0.0
        self._chance = random.Random(1)
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        self._sent = 0

    def run(self) -> None:
        while True:
            timeout = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            ready, _, _ = select.select([*self._devices, sys.stdin], [], [], timeout)
            for device in ready:
                if device is sys.stdin:
                    if not (line := sys.stdin.readline()):
                        return
                    self._obey(json.loads(line))
                else:
                    self._take(device)
            now = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                _, _, to, packet = heapq.heappop(self._waiting)
                self._give(to, packet)

    def _obey(self, words: dict[str, float]) -> None:
        self._delay, self._loss = words.get("delay", self._delay), words.get("loss", self._loss)
        print(json.dumps({"sent": self._sent}), flush=True)

    def _take(self, device: int) -> None:
        packet = os.read(device, _LARGEST_PACKET)
        if packet[0] >> 4 != 4:  # IPv4 alone
            return
        self._sent += len(packet)
        to = packet[19] - 1  # the last byte of the address is the number of the host
        if not 0 <= to < len(self._devices) or self._chance.random() < self._loss:
            return
        if self._delay:
            self._count += 1
            heapq.heappush(self._waiting, (time.monotonic() + self._delay, self._count, to, packet))
        else:
            self._give(to, packet)

    def _give(self, to: int, packet: bytes) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # its queue is full, or the host is down: it gets lost
            os.write(self._devices[to], packet)


if __name__ == "__main__":
    devices = [_device_in(namespace) for namespace in sys.argv[1:]]
    print("ready", flush=True)
    _Switch(devices).run()
