"""Versions of the libraries that results depend on."""

import functools
import importlib.metadata
import platform
from contextlib import suppress

DATA_LIBRARIES = ("polars", "polars-hash", "pyarrow", "sentencepiece", "ftfy", "fasttext-predict", "py3langid")
"""Libraries that decide how text is processed."""
_LIBRARIES = (*DATA_LIBRARIES, "torch", "sacrebleu", "onnx", "onnxruntime-gpu", "onnxruntime")


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of the installed libraries that results depend on."""
    return dict(_versions())


@functools.cache  # looking them up takes longer than the rest of a fingerprint
def _versions() -> tuple[tuple[str, str], ...]:
    versions = [("python", platform.python_version())]
    for name in ("nmt-pipeline", *_LIBRARIES):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions.append((name, importlib.metadata.version(name)))
    return tuple(versions)
