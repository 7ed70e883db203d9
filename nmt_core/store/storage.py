"""Files of the data plane: Parquet frames and raw bytes, at a local path or at any address that fsspec supports.

A file appears under its final name only when it is complete: it is written under a temporary name and then renamed. So
a worker that dies leaves nothing that could be mistaken for a result, and a task may be done twice. Local files are
opened, renamed and removed without fsspec.
"""

import contextlib
import io
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.core import split_protocol, url_to_fs

from nmt_core.errors import DataError

TEMPORARY = ".partial"
"""Suffix of a file that is being written."""

_DRAFT = re.compile(rf"(.+)\.[0-9a-f]{{8}}{re.escape(TEMPORARY)}", re.DOTALL)  # see `_temporary`

_OBJECT_STORES = frozenset({"s3", "gs", "abfs"})
"""Protocols of object stores. They have no folders, and an object appears only after its last byte is written."""


def store_of(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of an address, and the name of the file in it.

    The file system caches no listings. Other processes write into the same folders, and a new file that a cached
    listing lacks would be reported as missing.

    Raises:
        DataError: no installed package supports this kind of address.
    """
    try:
        store, name = url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise DataError(f"{url}: {error}: s3:// needs `pip install 'nmt-pipeline[s3]'`, gs:// [gs]") from None
    except ValueError as error:
        raise DataError(f"{url}: {error}: give a path, or an address such as s3://bucket/file") from None
    return store, str(name)


def write(frame: pl.DataFrame, url: str, *, level: int = 3, row_group_pairs: int = 100_000) -> None:
    """Write a frame as a Parquet file.

    Args:
        frame: the data.
        url: path or address of the file.
        level: zstd level, of which 1 to 3 are fast. 0 means no compression, for a file that is soon read and removed.
        row_group_pairs: number of rows in a row group, which a reader unpacks at a time.
    """

    def write_to(file: Path | io.BytesIO) -> None:
        frame.write_parquet(
            file,
            compression="zstd" if level else "uncompressed",
            compression_level=level or None,
            row_group_size=row_group_pairs,
        )

    if path := local_path(url):
        _publish(path, write_to)
        return
    buffer = io.BytesIO()
    write_to(buffer)
    _upload(buffer.getvalue(), url)


def read(url: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Read a Parquet file, or only some of its columns, in the order in which they are named.

    Raises:
        DataError: the file does not exist, is not Parquet, or cannot be read from its disk or store.
    """
    path = local_path(url)
    try:
        if path:
            # Not a pattern: a folder may be called "runs[1]".
            return pl.read_parquet(path, columns=list(columns) if columns else None, parallel="none", glob=False)
        file_system, name = store_of(url)
        with file_system.open(name, "rb") as file:  # fetches only the columns' byte ranges; polars would fetch all
            table = pl.from_arrow(pq.ParquetFile(file).read(columns=list(columns) if columns else None))
        assert isinstance(table, pl.DataFrame)
        return table.select(columns) if columns else table
    except FileNotFoundError:
        raise DataError(_missing(url)) from None
    except (pl.exceptions.ComputeError, pa.ArrowInvalid, OSError) as error:
        is_of_arrow = not isinstance(error, OSError) or (type(error) is OSError and not error.errno)
        remedy = "if it is damaged, remove it" if is_of_arrow else "check the permissions of its disk or store"
        raise DataError(f"{url}: cannot be read as Parquet ({error}): {remedy}; run again") from None


def write_bytes(parts: Iterable[bytes | memoryview], url: str) -> None:
    """Write a binary file from pieces, one after the other."""
    if path := local_path(url):
        _publish(path, lambda temporary: _write_parts(parts, temporary))
    else:
        _upload(b"".join(parts), url)


@contextlib.contextmanager
def published(url: str) -> Iterator[BinaryIO]:
    """Open a file for writing piece by piece.

    It appears, complete and on disk, only if the block ends without an error.
    """
    if path := local_path(url):
        draft = Path(_temporary(str(path)))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())  # otherwise the renamed file may be empty after a power failure
            draft.replace(path)
            _keep_names(path.parent)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        return
    file_system, name = store_of(url)
    temporary = _temporary(name)  # on an error, fsspec closes the file and so publishes what is half written
    try:
        _make_folder(file_system, name)
        with file_system.open(temporary, "wb") as file:
            yield file
        file_system.cp_file(temporary, name)  # `mv` would treat a bracket in the name as a pattern
        file_system.rm_file(temporary)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            file_system.rm_file(temporary)
        raise


def read_bytes(url: str, start: int, stop: int) -> bytes:
    """Return the bytes from `start` to `stop` of a file, fewer if it ends sooner.

    Raises:
        DataError: there is no such file.
    """
    if stop <= start:
        return b""  # an object store would answer an empty range with the whole object, or with an error
    try:
        if path := local_path(url):
            with path.open("rb", buffering=0) as file:
                return os.pread(file.fileno(), stop - start, start)
        file_system, name = store_of(url)
        return bytes(file_system.cat_file(name, start=start, end=stop))  # by name: their order differs among stores
    except FileNotFoundError:
        raise DataError(_missing(url)) from None


def remove(urls: Iterable[str]) -> None:
    """Remove files. A file that is missing is not an error, because a task may be done twice."""
    for url in urls:
        with contextlib.suppress(FileNotFoundError):
            if path := local_path(url):
                path.unlink()
            else:
                file_system, name = store_of(url)
                file_system.rm_file(name)


def remove_folder(folder: str) -> None:
    """Remove a folder with everything in it. A folder that is missing is not an error."""
    with contextlib.suppress(FileNotFoundError):
        if path := local_path(folder):
            shutil.rmtree(path)
        else:
            file_system, name = store_of(folder)
            file_system.rm(name, recursive=True)


def link(file: Path, to: Path) -> None:
    """Hard-link a file of this machine, or copy it if the file system has no hard links."""
    to.unlink(missing_ok=True)  # left by a process that died
    try:
        os.link(file, to)
    except OSError:
        shutil.copyfile(file, to)


def bring(url: str, to: Path) -> None:
    """Move a file to a path on this machine."""
    if path := local_path(url):
        with contextlib.suppress(OSError):  # another file system
            path.replace(to)
            return
    file_system, name = store_of(url)
    part = to.with_name(f"{to.name}{TEMPORARY}")
    file_system.get_file(name, str(part))
    part.replace(to)
    remove([url])


def sweep(folder: str) -> None:
    """Remove the half-written files that killed workers left in a folder. No process may be writing there."""
    remove(f"{folder}/{name}" for name in names_in(folder) if name.endswith(TEMPORARY))


def sweep_drafts(urls: Iterable[str]) -> None:
    """Remove the drafts of these files that killed processes left.

    A process that is still writing one of them will fail.
    """
    folders: dict[str, set[str]] = {}
    for url in urls:
        name = url.rpartition("/")[2]
        folders.setdefault(url.removesuffix(name), set()).add(name)
    for folder, written in folders.items():  # each folder is listed once, because stores charge for listings
        drafts = map(_DRAFT.fullmatch, names_in(folder))
        remove(f"{folder}{draft[0]}" for draft in drafts if draft and draft[1] in written)


def names_in(folder: str) -> list[str]:
    """Return the names in a folder. The list is empty if the folder does not exist."""
    with contextlib.suppress(FileNotFoundError):
        if path := local_path(folder):  # fsspec would split a path with "::" into several addresses
            return [entry.name for entry in path.iterdir()]
        file_system, key = store_of(folder)
        return [str(name).rstrip("/").rpartition("/")[2] for name in file_system.ls(key, detail=False)]
    return []


@lru_cache(maxsize=4096)
def local_path(url: str) -> Path | None:
    """Return the path of a plain path or a `file://` address, or None for any other address."""
    protocol, _ = split_protocol(url)
    if protocol is None:
        return Path(url)
    if protocol in {"file", "local"}:
        return Path(fsspec.get_filesystem_class(protocol)._strip_protocol(url))
    return None


def _publish(path: Path, write_to: Callable[[Path], None]) -> None:
    temporary = Path(_temporary(str(path)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_to(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _upload(content: bytes, url: str) -> None:
    file_system, name = store_of(url)
    if _is_object_store(file_system):
        file_system.pipe_file(name, content)
        return
    temporary = _temporary(name)
    try:
        _make_folder(file_system, name)
        file_system.pipe_file(temporary, content)
        file_system.mv(temporary, name)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            file_system.rm_file(temporary)
        raise


def _is_object_store(file_system: Any) -> bool:
    protocols = file_system.protocol
    return not _OBJECT_STORES.isdisjoint((protocols,) if isinstance(protocols, str) else protocols)


def _make_folder(file_system: Any, name: str) -> None:
    """Create the folder of a file.

    In an object store there are no folders, and a mistyped one would become a bucket.
    """
    if not _is_object_store(file_system):
        file_system.makedirs(file_system._parent(name), exist_ok=True)


def _write_parts(parts: Iterable[bytes | memoryview], path: Path) -> None:
    with path.open("wb") as file:
        for part in parts:
            file.write(part)


def _keep_names(folder: Path) -> None:
    """Make a rename durable against a power failure, on systems that support it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _temporary(name: str) -> str:
    return f"{name}.{secrets.token_hex(4)}{TEMPORARY}"


def _missing(url: str) -> str:
    return f"{url}: there is no such file: it was removed while it was needed: run the command again"
