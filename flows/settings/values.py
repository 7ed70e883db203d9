"""Parsing of settings: the text of a variable becomes a value, or a ConfigError that names it and the remedy."""

import re
from collections.abc import Mapping
from pathlib import Path

from nmt_core.errors import ConfigError

DEVICES = Path("/dev")
"""Folder in which the operating system shows NVIDIA GPUs, as nvidia0 and so on."""

LAUNCHERS = ("local", "slurm", "trainjob", "pytorchjob")
"""Kinds of launchers for training."""


def count(environment: Mapping[str, str], name: str) -> int:
    """Return a whole number of 1 or more, or 0 if the variable is not set."""
    text = environment.get(name, "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ConfigError(f"{name}={text!r}: must be a whole number of at least 1, or unset")
    return int(text)


def switch(environment: Mapping[str, str], name: str) -> bool:
    """Return True if the variable is set to 1."""
    text = environment.get(name, "")
    if text not in {"", "0", "1"}:
        raise ConfigError(f"{name}={text!r}: must be 0 or 1, or unset")
    return text == "1"


def price(environment: Mapping[str, str], name: str) -> float:
    """Return a price, or 0 if the variable is not set."""
    text = environment.get(name, "")
    if not re.fullmatch(r"([0-9]+(\.[0-9]*)?)?", text):
        raise ConfigError(f"{name}={text!r}: must be a number such as 2.50, or unset")
    return float(text or 0)


def pages(environment: Mapping[str, str], name: str) -> str:
    """Return a web address, or an empty text if the variable is not set."""
    text = environment.get(name, "").rstrip("/")
    if text and not re.match(r"https?://.", text):
        raise ConfigError(f"{name}={text!r}: must be a web address such as https://mlflow.example, or unset")
    return text


def workers(environment: Mapping[str, str]) -> str:
    """Return the kind or the address of the workers of the data stages."""
    text = environment.get("NMT_WORKERS", "") or "local"
    if not re.fullmatch(r"local|dask|ray|(dask|tcp|tls|ray)://[^/\s]+:\d+", text):
        raise ConfigError(
            f"NMT_WORKERS={text!r}: must be local, dask, ray, or the address of a cluster such as dask://host:8786 or "
            "ray://host:10001"
        )
    return text


def shared_store(environment: Mapping[str, str]) -> str:
    """Return the address of the shared store, or an empty text if there is none."""
    text = environment.get("NMT_STORE", "")
    if text and not re.match(r"[a-z0-9+]+://.", text):
        raise ConfigError(f"NMT_STORE={text!r}: must be an address such as s3://bucket/nmt, or unset")
    return text


def launcher(environment: Mapping[str, str]) -> str:
    """Return the kind of the launcher of training."""
    text = environment.get("NMT_LAUNCHER", "") or "local"
    if text not in LAUNCHERS:
        raise ConfigError(f"NMT_LAUNCHER={text!r}: must be {', '.join(LAUNCHERS[:-1])} or {LAUNCHERS[-1]}")
    return text


def nodes(environment: Mapping[str, str]) -> str:
    """Return the number of nodes to train on, as a number or MIN:MAX."""
    text = environment.get("NMT_NODES", "") or "1"
    counts = re.fullmatch(r"([1-9][0-9]*)(?::([1-9][0-9]*))?", text)
    if not counts or int(counts[1]) > int(counts[2] or counts[1]):
        raise ConfigError(
            f"NMT_NODES={text!r}: must be a number of nodes such as 4, or MIN:MAX such as 1:4 for training that "
            "continues with fewer"
        )
    if text != "1" and launcher(environment) == "local":
        raise ConfigError(
            f"NMT_NODES={text!r}: without a cluster there is only one node: unset it, or set NMT_LAUNCHER"
        )
    return text


def gpus(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the GPUs that this process may use, without importing torch."""
    devices = len([device for device in DEVICES.glob("nvidia*") if device.name[6:].isdigit()])
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not devices:  # CUDA_VISIBLE_DEVICES does not create GPUs
        return tuple(map(str, range(devices)))
    return tuple(name for one in visible.split(",") if (name := one.strip()) not in {"", "-1", "NoDevFiles"})
