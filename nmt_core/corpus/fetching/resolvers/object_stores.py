"""Resolve s3:// and gs:// addresses: files in an object store, through fsspec. A pattern with * means all that match.

The stores' own packages find the credentials, as they do for any other program. The tests fetch from an S3 server that
they start. Google's store was not available for tests.
"""

import threading
from collections.abc import Iterator
from typing import Any

from fsspec.core import has_magic, url_to_fs

from nmt_core.corpus.fetching.addresses import Resolution, in_pairs, scheme_of
from nmt_core.corpus.fetching.fetcher import OnBytes, StoppedError
from nmt_core.corpus.fetching.partial import PartialFile
from nmt_core.corpus.fetching.resolvers.question import Question
from nmt_core.errors import DataError, words_of

_CHUNK_BYTES = 1 << 20
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}


def resolve(question: Question) -> Resolution:
    """Return the files that match a pattern. Files that are named as two sides form pairs.

    Raises:
        DataError: no file matches, or the store does not answer.
    """
    if not question.ask:
        if not question.known:
            return Resolution(())
        names = list(question.known)
    else:
        store, pattern = _open(question.address)
        try:
            names = [str(store.unstrip_protocol(name)) for name in sorted(store.glob(pattern))]
        except Exception as error:  # each store has errors of its own
            raise _trouble(question.address, error) from error
    return Resolution(tuple(in_pairs(names, question.languages, question.address, only_data=False)))


def fetch(part: PartialFile, on_bytes: OnBytes, stop: threading.Event) -> None:
    """Copy a file from a store. The caller holds the part.

    Raises:
        DataError: the file cannot be fetched.
        StoppedError: `stop` was set.
    """
    part.discard()
    total, chunks = _read(part.address)
    with part.open_anew() as file:
        for chunk in chunks:
            file.write(chunk)
            on_bytes(part.address, file.tell(), total)
            if stop.is_set():
                raise StoppedError
        if total and file.tell() != total:
            raise DataError(f"{part.address}: only {file.tell():,} of {total:,} bytes came: run the same command again")


def infos(address: str) -> list[tuple[str, dict[str, Any]]]:
    """Return a store's information about a file, or about each file that matches a pattern, with its name.

    Raises:
        DataError: there is no such file, or the store does not answer.
    """
    store, pattern = _open(address)
    try:
        names = sorted(store.glob(pattern)) if has_magic(pattern) else [pattern]
        return [(str(name), dict(store.info(name))) for name in names]
    except Exception as error:  # each store has errors of its own
        raise _trouble(address, error) from error


def _read(address: str) -> tuple[int, Iterator[bytes]]:
    """Return the size of a file (0 if unknown) and its bytes."""
    store, name = _open(address)
    try:
        total = int(store.info(name).get("size") or 0)
    except Exception as error:  # each store has errors of its own
        raise _trouble(address, error) from error

    def chunks() -> Iterator[bytes]:
        try:
            with store.open(name, "rb") as source:
                while chunk := source.read(_CHUNK_BYTES):
                    yield chunk
        except Exception as error:
            raise _trouble(address, error) from error

    return total, chunks()


def _open(address: str) -> tuple[Any, str]:
    try:
        store, name = url_to_fs(address, use_listings_cache=False)  # a cached listing may be out of date
        return store, str(name)
    except ImportError:
        package = _PACKAGES.get(scheme_of(address), "its fsspec package")
        raise DataError(f"{address}: needs the package {package}: pip install {package}") from None
    except Exception as error:  # such as missing credentials
        raise _trouble(address, error) from error


def _trouble(address: str, error: Exception) -> DataError:
    return DataError(f"cannot fetch {address}: {words_of(error)}: check the address, the network and your credentials")
