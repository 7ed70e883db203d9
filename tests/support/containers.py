"""Containers for tests: an engine without a daemon, and images that are built from Debian's packages alone.

Podman and Buildah of Debian, as root, need no service and no registry. The base of all images is made by debootstrap:
nothing is pulled. Layers are cached by the engine: as long as requirements.lock stays, a build takes seconds.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROGRAMS = ("podman", "buildah", "runc", "netavark", "aardvark-dns", "debootstrap", "catatonit", "iptables")
BASE = "localhost/nmt-tests/base:bookworm"
VERSION = "0.1.0"
_STAND_INS = ROOT / "tests" / "containers" / "images"
_SUITE = "bookworm"
_PACKAGES = "python3,python3-venv,ca-certificates"
_UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/cache/apt", "var/lib/apt/lists")
_SECONDS_TO_BUILD = 3_000


def missing() -> list[str]:
    """Return the programs that are not installed."""
    return [name for name in PROGRAMS if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/lib/podman:/usr/sbin")]


@cache
def configuration() -> Path:
    """Return a configuration of the engine for machines that give root no right to raise limits, and no systemd."""
    file = Path(tempfile.mkdtemp(prefix="nmt-containers-")) / "containers.conf"
    file.write_text(
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
        f'init_path = "{shutil.which("catatonit")}"\n'
        f'[engine]\nruntime = "{shutil.which("runc")}"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        '[network]\nnetwork_backend = "netavark"\n',
        encoding="utf-8",
    )
    return file


def run(*command: str, timeout: float = 600, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of the engine."""
    # Without a service manager nothing runs checks of health by itself; a test runs them.
    environment = os.environ | {"CONTAINERS_CONF": str(configuration()), "DISABLE_HC_SYSTEMD": "true"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout, **options)


def podman(*arguments: str, timeout: float = 600, **options: Any) -> str:
    """Run podman, and return its output."""
    done = run("podman", *arguments, timeout=timeout, **options)
    assert done.returncode == 0, f"podman {' '.join(arguments)}\n{done.stdout[-4_000:]}{done.stderr[-8_000:]}"
    return done.stdout.strip()


def base() -> str:
    """Return the base image, a Debian with Python and nothing else, which is made if there is none yet."""
    if run("podman", "image", "exists", BASE).returncode:
        with tempfile.TemporaryDirectory(prefix="nmt-base-") as folder:
            system = Path(folder) / "system"
            made = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(system)]
            done = run(*made, timeout=_SECONDS_TO_BUILD)
            assert done.returncode == 0, done.stdout[-4_000:]
            for name in _UNUSED:
                shutil.rmtree(system / name, ignore_errors=True)
            packed = Path(folder) / "base.tar"
            subprocess.run(["tar", "-C", str(system), "-c", "-f", str(packed), "."], check=True)
            podman("import", "--quiet", str(packed), BASE)
    return BASE


@cache
def build(target: str) -> str:
    """Build a target of infra/Dockerfile from the base image, and return its name."""
    name = f"localhost/nmt-pipeline:{VERSION}-{target}"
    arguments = ["--build-arg", f"BASE={base()}", "--build-arg", "TORCH_INDEX="]
    _build(name, ROOT, ROOT / "infra" / "Dockerfile", ["--target", target, *arguments])
    return name


@cache
def build_stand_in(service: str) -> str:
    """Build the image that replaces a service's own in infra/compose.yaml, and return its name."""
    name = f"localhost/nmt-tests/{service}:bookworm"
    with tempfile.TemporaryDirectory(prefix="nmt-context-") as folder:
        context = Path(folder)
        shutil.copytree(_STAND_INS, context, dirs_exist_ok=True)
        shutil.copy(ROOT / "requirements.lock", context)
        _build(name, context, context / "Dockerfile", ["--target", service, "--build-arg", f"BASE={base()}"])
    return name


def _build(name: str, context: Path, file: Path, options: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="nmt-sources-") as folder:
        command = ["buildah", "bud", "--isolation", "chroot", "--layers", "--format", "docker", "--timestamp", "0"]
        command += [*_volumes(Path(folder)), *options, "--tag", name, "--file", str(file), str(context)]
        done = run(*command, timeout=_SECONDS_TO_BUILD)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-8_000:]


def _volumes(folder: Path) -> list[str]:
    """Return the options that give a build the package sources of this machine, for apt and pip, with authorities."""
    # Packages write into these folders when they are installed.
    written = {"/etc/apt/apt.conf.d": folder / "apt.conf.d", "/etc/ssl/certs": folder / "certs"}
    for place, copy in written.items():
        shutil.copytree(place, copy, symlinks=True)
    configured = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    lines = re.findall(r"^(global|:env:)\.([a-z-]+)='(.*)'$", configured.replace("\\n", " "), re.MULTILINE)
    options = {key: value for _, key, value in sorted(lines, reverse=True)}  # the environment comes last, and wins
    (folder / "pip.conf").write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in options.items()))
    shared = ["/etc/apt/sources.list.d", "/etc/apt/sources.list", "/usr/share/keyrings"]
    shared += ["/usr/share/ca-certificates", "/usr/local/share/ca-certificates"]
    for word in " ".join(options.values()).split():
        # The pages of an index in a folder name files beside it.
        shared.append(str(Path(word.removeprefix("file://")).parent) if word.startswith("file://") else word)
    mounts = [f"{copy}:{place}" for place, copy in written.items()] + [f"{folder}/pip.conf:/etc/pip.conf:ro"]
    there = [place for place in dict.fromkeys(shared) if place.startswith("/") and Path(place).exists()]
    there = [place for place in there if str(Path(place).parent) not in written]
    mounts += [f"{place}:{place}:ro" for place in there]
    return [word for mount in mounts for word in ("--volume", mount)]


if __name__ == "__main__":
    for word in sys.argv[1:]:
        print(build_stand_in(word) if word in ("postgres", "proxy", "s3") else build(word), flush=True)
