"""Record by which code each chunk was translated: after an update in the middle of a job, two versions may differ."""

import functools
import hashlib
import importlib.metadata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import nmt_core
from nmt_core.jobs.folder import Parts
from nmt_core.store.storage import local_path, store_of

MADE_BY = "made_by"
"""Key of the metadata of a chunk's file."""
UNKNOWN = "an earlier version"
"""Maker of chunks without a record."""

_CODE = (
    "translator.py",
    "spelling.py",
    "text",
    "search",
    "terms",
    "tokenizer",
    "jobs/chunk.py",
    "jobs/checks.py",
    "corpus/cleaning",
)
_LIBRARIES = ("onnxruntime", "onnxruntime-gpu", "sentencepiece", "sentencex", "numpy", "ahocorasick-rs", "simplemma")


@functools.cache
def this_maker() -> str:
    """Return the version of the code that translates here, as text for users."""
    root, digest = Path(nmt_core.__file__).parent, hashlib.sha256()
    for name in _CODE:
        for file in sorted([root / name] if name.endswith(".py") else (root / name).rglob("*.py")):
            digest.update(file.read_bytes())
    parts = [f"code {digest.hexdigest()[:8]}"]
    for library in _LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            parts.append(f"{library} {importlib.metadata.version(library)}")
    return ", ".join(parts)


def chunks_by_maker(parts: Parts, numbers: Iterable[int]) -> dict[str, list[int]]:
    """Return the numbers of translated chunks, by the code that translated them."""
    by_maker: dict[str, list[int]] = {}
    for number in sorted(numbers):
        # Another worker has finished the job, or the file is damaged, which is reported when it is read.
        with suppress(FileNotFoundError, pa.ArrowInvalid):
            by_maker.setdefault(_maker_of(parts.output(number)), []).append(number)
    return by_maker


def _maker_of(url: str) -> str:
    return metadata_of(url).get(MADE_BY.encode(), UNKNOWN.encode()).decode()


def metadata_of(url: str) -> dict[bytes, bytes]:
    """Return the metadata of a chunk's file.

    Raises:
        FileNotFoundError: there is no such file.
        pa.ArrowInvalid: the file is damaged.
    """
    if path := local_path(url):
        return dict(pq.read_metadata(path).metadata or {})
    store, name = store_of(url)
    with store.open(name, "rb") as file:
        return dict(pq.read_metadata(file).metadata or {})


def ranges(numbers: Sequence[int]) -> str:
    """Return numbers from 0, in ascending order, as ranges from 1 for users, such as `1-3, 7`."""
    texts = []
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number + 1 for _, number in group]
        texts.append(f"{run[0]:,}-{run[-1]:,}" if len(run) > 1 else f"{run[0]:,}")
    return ", ".join(texts)


def described(makers: dict[str, list[int]]) -> str:
    """Return which chunks are of which code, as text for users."""
    return "; ".join(f"chunks {ranges(numbers)} by {maker}" for maker, numbers in makers.items())
