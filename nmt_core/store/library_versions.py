"""Versions of the libraries that results depend on."""

import functools
import importlib.metadata
import platform
from contextlib import suppress

DATA_LIBRARIES = ("polars", "polars-hash", "pyarrow", "sentencepiece", "ftfy", "fasttext-predict", "py3langid")
"""Libraries that decide what becomes of text."""
_LIBRARIES = (*DATA_LIBRARIES, "torch", "sacrebleu", "onnx", "onnxruntime-gpu", "onnxruntime")


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of the libraries that results depend on, as far as installed."""
    return dict(_versions())


@functools.cache  # to look them up takes longer than all the rest of a fingerprint
def _versions() -> tuple[tuple[str, str], ...]:
    found = [("python", platform.python_version())]
    for name in ("nmt-pipeline", *_LIBRARIES):
        with suppress(importlib.metadata.PackageNotFoundError):
            found.append((name, importlib.metadata.version(name)))
    return tuple(found)
