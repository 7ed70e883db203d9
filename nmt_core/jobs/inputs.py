"""Find the files to translate: a path, a folder or a pattern, on a disk or in a store that fsspec supports."""

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fsspec.core import split_protocol
from pydantic import BaseModel, ConfigDict

from nmt_core.errors import DataError, NmtError, words_of
from nmt_core.formats.streams import ByteStream, open_file, unpacked
from nmt_core.store import storage
from nmt_core.store.storage import local_path, store_of

UNREADABLE = ".unreadable.jsonl"
"""Suffix of the file beside an output with the bytes of lines that are not UTF-8."""

ALIGNED = ".alignment"
"""Suffix of the file beside an output of lines with their alignments. The suffix of its packing may follow."""

REVIEW = ".review.csv"
"""Suffix of the file with the lines of an output that a human should correct."""
_BESIDE = (UNREADABLE, REVIEW, ALIGNED, *(f"{ALIGNED}.{packing}" for packing in ("gz", "bz2", "xz", "zst")))
_JOB_FOLDER = re.compile(r"\.job(?=/)")
_CHAINED = "::"
"""Mark in the address of a store within a store."""

_USUAL = {"s3a": "s3", "gcs": "gs", "az": "abfs"}
"""Usual name of a store, by its other names."""

_WILD = frozenset("*?[")
_IDENTITIES = ("ETag", "etag", "generation", "md5Hash", "checksum", "LastModified", "last_modified", "mtime", "created")


class InputFile(BaseModel):
    """File with its size and version at the time when the job began."""

    model_config = ConfigDict(frozen=True)
    url: str
    """Absolute path or address."""
    name: str
    """Path below the folder that the user named."""
    bytes: int
    version: str
    """Modification time in nanoseconds. In a store, the ETag or another value that identifies the version."""


class Inputs(NamedTuple):
    """Files that a source names."""

    files: tuple[InputFile, ...]
    is_one: bool
    """True if the source names a file, not a folder or a pattern."""


def find_inputs(source: str, apart_from: Sequence[str] = ()) -> Inputs:
    """Return the files that a path, a folder (with everything in it) or a pattern names, in the order of their names.

    Args:
        source: path or address. A pattern contains `*`, `?` or `[`.
        apart_from: absolute paths of outputs. These files and folders are never inputs.

    Raises:
        DataError: there is no such file, a store cannot be read, or the input is also an output.
    """
    if absolute(source) in apart_from:
        raise _both(source)
    path = local_path(source)
    try:
        candidates, is_one = _here(path.expanduser()) if path else _in_store(source)
    except NmtError:
        raise
    except Exception as error:  # each store has its own errors
        raise DataError(
            f"{source}: cannot be read ({words_of(error)}): check the address and your credentials"
        ) from None
    if is_one and any(file.url in apart_from for file in candidates):
        raise _both(source)
    urls = {file.url for file in candidates}
    files = [
        file for file in candidates if is_one or not (_is_written(file.url, apart_from) or _goes_with(file.url, urls))
    ]
    if not files:
        raise DataError(f"{source}: there is no such file, or nothing in it: give a text file, a folder or a pattern")
    return Inputs(tuple(files), is_one)


def absolute(place: str) -> str:
    """Return the absolute form of a path, or an address with the usual name of its store."""
    if path := local_path(place):
        return str(path.expanduser().absolute())
    protocol, rest = split_protocol(place)
    return place.rstrip("/") if _CHAINED in place else f"{_USUAL.get(protocol, protocol)}://{rest}".rstrip("/")


@contextlib.contextmanager
def open_input(file: InputFile) -> Iterator[ByteStream]:
    """Open a file as a stream of its bytes, unpacked if it is packed.

    Raises:
        DataError: the file is gone or has changed since the job began.
    """
    require_unchanged(file)
    if path := local_path(file.url):
        with open_file(path) as stream:
            yield stream
    else:
        store, name = store_of(file.url)
        with store.open(name, "rb") as opened:
            stream = ByteStream(file.url, opened)
            stream.file = opened
            yield unpacked(stream)
    require_unchanged(file)


def require_unchanged(file: InputFile) -> None:
    """Check that a file is the same as when the job began.

    Raises:
        DataError: the file is gone or has changed.
    """
    now = identity(file.url, file.name)
    if now and now.bytes > file.bytes:
        raise DataError(
            f"{file.url}: is still being written ({file.bytes:,} bytes when the job began, now {now.bytes:,}): wait "
            "until it is complete, then run the same command again"
        )
    if now != file:
        raise DataError(
            f"{file.url}: is gone or has changed since the job began: restore the file of {file.bytes:,} bytes, or "
            "translate what is there now in another folder for the job"
        )


def identity(url: str, name: str) -> InputFile | None:
    """Return a file with its current size and version, or None if it does not exist."""
    try:
        if path := local_path(url):
            state = path.stat()
            return InputFile(url=url, name=name, bytes=state.st_size, version=str(state.st_mtime_ns))
        store, key = store_of(url)
        return _described(store.info(key), url, name)
    except FileNotFoundError:
        return None


def _is_written(url: str, places: Sequence[str]) -> bool:
    """Return True if a file is an output: in or beside one of the places, or a temporary file."""
    outputs = {place + suffix for place in places for suffix in _BESIDE}
    beside = url in outputs or any(f"{url}/".startswith(f"{place}/") for place in places)
    return beside or url.endswith(storage.TEMPORARY)


def _goes_with(url: str, others: Collection[str]) -> bool:
    """Return True if a file was written beside one of the others by an earlier job, or is in the folder of that job."""
    ends = (match.start() for match in _JOB_FOLDER.finditer(url))
    owners = [url[:end] for end in ends] + [url.removesuffix(suffix) for suffix in _BESIDE if url.endswith(suffix)]
    return any(owner in others for owner in owners)


def _here(path: Path) -> tuple[list[InputFile], bool]:
    if path.exists() and not path.is_dir() and not path.is_file():
        raise DataError(
            f"{path}: is a pipe or a device, which can be read only once: leave out --input, and lead it to standard "
            f"input: < {path}"
        )
    is_pattern = bool(_WILD & set(str(path))) and not path.exists()
    if not path.is_dir() and not is_pattern:
        file = identity(str(path.absolute()), path.name)
        return [file] if file else [], True
    root = Path(_before_the_wild(str(path))) if is_pattern else path
    files = root.glob(str(path).removeprefix(f"{root}/")) if is_pattern else root.rglob("*")
    named = sorted((file, file.relative_to(root)) for file in files if file.is_file())
    identities = [
        identity(str(file.absolute()), name.as_posix()) for file, name in named if not _is_hidden(name.as_posix())
    ]
    return [file for file in identities if file], False


def _in_store(source: str) -> tuple[list[InputFile], bool]:
    store, name = store_of(source)
    is_one = False
    if store.isfile(name):
        root, keys, is_one = name.rpartition("/")[0], [name], True
    elif _WILD & set(name):
        root, keys = _before_the_wild(name), [key for key in store.glob(name) if store.isfile(key)]
    else:
        root, keys = name, store.find(name)
    named = [(key, key.removeprefix(root).lstrip("/")) for key in sorted(keys)]
    # A key that ends in a slash marks a folder. Some tools create such keys for display.
    seen = [(key, name) for key, name in named if is_one or not (key.endswith("/") or _is_hidden(name))]
    # One request for each file: a listing may describe a file differently from the store itself.
    return [_described(store.info(key), str(store.unstrip_protocol(key)), name) for key, name in seen], is_one


def _is_hidden(name: str) -> bool:
    """Return True if a part of the path below the named folder begins with a dot."""
    return any(part.startswith(".") for part in name.split("/"))


def _before_the_wild(pattern: str) -> str:
    """Return the folder in which a pattern starts."""
    fixed = pattern[: min(pattern.find(mark) for mark in _WILD & set(pattern))]
    return fixed.rpartition("/")[0] or ("/" if fixed.startswith("/") else "")


def _described(info: dict[str, Any], url: str, name: str) -> InputFile:
    version = next((str(info[key]) for key in _IDENTITIES if info.get(key)), "")
    return InputFile(url=url, name=name, bytes=int(info.get("size") or 0), version=version)


def _both(source: str) -> DataError:
    return DataError(f"{source}: is both input and output: write to another place")
