"""What each setting may say: the text of a variable becomes a value, or a ConfigError that names it and the remedy."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from nmt_core.errors import ConfigError

DEVICES = Path("/dev")
"""Where the operating system shows NVIDIA GPUs, as nvidia0 and so on."""

LAUNCHERS = ("local", "slurm", "trainjob", "pytorchjob")
"""Where training can run."""


def count(environment: Mapping[str, str], name: str) -> int:
    """Return a whole number of 1 or more; 0: it is not set."""
    text = environment.get(name, "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ConfigError(f"{name}={text!r}: must be a whole number of 1 or more, or not be set")
    return int(text)


def switch(environment: Mapping[str, str], name: str) -> bool:
    """Return whether it is set to 1."""
    text = environment.get(name, "")
    if text not in {"", "0", "1"}:
        raise ConfigError(f"{name}={text!r}: must be 0 or 1, or not be set")
    return text == "1"


def price(environment: Mapping[str, str], name: str) -> float:
    """Return a price; 0: it is not set."""
    text = environment.get(name, "")
    if not re.fullmatch(r"([0-9]+(\.[0-9]*)?)?", text):
        raise ConfigError(f"{name}={text!r}: must be a number such as 2.50, or not be set")
    return float(text or 0)


def pages(environment: Mapping[str, str], name: str) -> str:
    """Return a web address; empty: it is not set."""
    text = environment.get(name, "").rstrip("/")
    if text and not re.match(r"https?://.", text):
        raise ConfigError(f"{name}={text!r}: must be a web address such as https://mlflow.example, or not be set")
    return text


def workers(environment: Mapping[str, str]) -> str:
    """Return who does the shards of the data stages."""
    text = environment.get("NMT_WORKERS", "") or "local"
    if not re.fullmatch(r"local|dask|ray|(dask|tcp|tls|ray)://[^/\s]+:\d+", text):
        raise ConfigError(
            f"NMT_WORKERS={text!r}: must be local, dask, ray, or the address of a cluster such as dask://host:8786 or "
            "ray://host:10001"
        )
    return text


def shared_store(environment: Mapping[str, str]) -> str:
    """Return the address of the shared store; empty: there is none."""
    text = environment.get("NMT_STORE", "")
    if text and not re.match(r"[a-z0-9+]+://.", text):
        raise ConfigError(f"NMT_STORE={text!r}: must be an address such as s3://bucket/nmt, or not be set")
    return text


def launcher(environment: Mapping[str, str]) -> str:
    """Return where training runs."""
    text = environment.get("NMT_LAUNCHER", "") or "local"
    if text not in LAUNCHERS:
        raise ConfigError(f"NMT_LAUNCHER={text!r}: must be {', '.join(LAUNCHERS[:-1])} or {LAUNCHERS[-1]}")
    return text


def nodes(environment: Mapping[str, str]) -> str:
    """Return how many nodes to train on, as a number or MIN:MAX."""
    text = environment.get("NMT_NODES", "") or "1"
    counts = re.fullmatch(r"([1-9][0-9]*)(?::([1-9][0-9]*))?", text)
    if not counts or int(counts[1]) > int(counts[2] or counts[1]):
        raise ConfigError(
            f"NMT_NODES={text!r}: must be a number of nodes such as 4, or MIN:MAX such as 1:4 for training that goes "
            "on with fewer"
        )
    if text != "1" and launcher(environment) == "local":
        raise ConfigError(
            f"NMT_NODES={text!r}: without a cluster there is one node: unset it, or choose the cluster by NMT_LAUNCHER"
        )
    return text


def cpus() -> int:
    """Return how many CPUs this process may use; macOS does not tell, so there it is all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the GPUs that this process may use, without importing torch."""
    devices = len([device for device in DEVICES.glob("nvidia*") if device.name[6:].isdigit()])
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not devices:  # what says which ones may be seen makes none
        return tuple(map(str, range(devices)))
    return tuple(name for one in visible.split(",") if (name := one.strip()) not in {"", "-1", "NoDevFiles"})
