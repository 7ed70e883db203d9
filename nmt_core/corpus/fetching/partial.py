"""Store the bytes of a partly fetched file, and the information that is needed to request the rest.

The bytes and a note about them are in a folder of the store that outlives the run, under the address. After a crash or
a kill -9, the next run resumes from there, even if the recipe has changed otherwise. Two processes never fetch into the
same file at the same time.
"""

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import httpx
from filelock import FileLock

from nmt_core.formats import signatures

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)$")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_DAYS_KEPT = 30


class PartialFile:
    """Bytes of one address that have been received so far."""

    def __init__(self, folder: Path, address: str, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        key = hashlib.sha256(address.encode()).hexdigest()[:24]
        self.address = address
        # The name is kept because its suffix distinguishes a table from lines.
        self.path = folder / f"{key}.part" / (_NOT_IN_A_NAME.sub("_", name)[-80:].lstrip(".") or "file")
        self._note = folder / f"{key}.json"
        self._lock = folder / f"{key}.lock"
        self._validator = ""
        self.total = 0
        """Total number of bytes. 0 means unknown."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the file against other threads and processes."""
        with FileLock(self._lock):
            self._lock.touch()  # marks it as in use, so that `sweep` keeps it
            self._recall()
            yield

    @property
    def size(self) -> int:
        """Number of bytes received."""
        return self.path.stat().st_size if self.path.exists() else 0

    def request_headers(self) -> dict[str, str]:
        """Return the request headers, which ask for the rest if it is certain to match."""
        as_stored = {"Accept-Encoding": "identity"}  # a .gz must arrive as the .gz that was hashed
        if not self.size or not self._validator:
            return as_stored
        return as_stored | {"Range": f"bytes={self.size}-", "If-Range": self._validator}

    def begin(self, answer: httpx.Response, total: int) -> None:
        """Discard the bytes, and record the validator and the size from the answer."""
        self.discard()
        self.open_anew().close()
        self._validator = _validator_of(answer) if is_as_stored(answer) else ""
        self.total = total
        note = {"address": self.address, "validator": self._validator, "total": total}
        self._note.write_text(json.dumps(note), encoding="utf-8")

    def is_continued_by(self, answer: httpx.Response) -> bool:
        """Return True if the body of a 206 answer is the rest of this file."""
        start, total = _content_range(answer)
        same = _validator_of(answer) in ("", self._validator)
        fits = start == self.size and (not self.total or total in (None, self.total))
        return fits and same and is_as_stored(answer)

    def is_said_to_be_whole(self, answer: httpx.Response) -> bool:
        """Return True if a 416 answer shows that all bytes have been received."""
        _, total = _content_range(answer)
        return bool(self._validator) and total == self.size

    def open_anew(self) -> BinaryIO:
        """Open an empty file in place of the old one."""
        self.path.parent.mkdir(exist_ok=True)
        return self.path.open("wb")

    def discard(self) -> None:
        """Remove the bytes and the note."""
        self.path.unlink(missing_ok=True)  # not truncated: an artifact may have a hard link to the file
        if self.path.parent.exists():
            self.path.parent.rmdir()
        self._note.unlink(missing_ok=True)
        self._validator, self.total = "", 0

    def _recall(self) -> None:
        try:
            note: dict[str, Any] = json.loads(self._note.read_bytes())
            self._validator, self.total = str(note["validator"]), int(note["total"])
        except (OSError, ValueError, KeyError, TypeError):  # no note, or one that a kill truncated
            self._validator, self.total = "", 0


def sweep(folder: Path) -> None:
    """Remove parts that have not been resumed for a month."""
    oldest = time.time() - _DAYS_KEPT * 86_400
    for file in [*folder.glob("*.part/*"), *folder.glob("*.json"), *folder.glob("*.lock")]:
        if file.stat().st_mtime < oldest:
            file.unlink(missing_ok=True)
    for part in folder.glob("*.part"):
        with suppress(OSError):  # the folder is not empty
            part.rmdir()


def is_as_stored(answer: httpx.Response) -> bool:
    """Return True if the body is the stored file itself, without a transfer compression.

    Some servers label a stored .gz as compressed for the transfer. It is the file itself all the same.
    """
    coding = answer.headers.get("Content-Encoding", "identity").lower()
    stored_packed = signatures.promised_packing(answer.url.path) == "gz" and coding in {"gzip", "x-gzip"}
    return coding in {"identity", ""} or stored_packed


def _validator_of(answer: httpx.Response) -> str:
    """Return the value for If-Range: a strong ETag, or else the date of the last change (RFC 9110, section 13.1.5)."""
    tag = str(answer.headers.get("ETag", ""))
    return tag if tag and not tag.startswith("W/") else str(answer.headers.get("Last-Modified", ""))


def _content_range(answer: httpx.Response) -> tuple[int | None, int | None]:
    """Return the first byte and the total length, None where the answer omits them, or (-1, None) if it is invalid."""
    match = _CONTENT_RANGE.match(answer.headers.get("Content-Range", ""))
    if not match:
        return -1, None
    return int(match[1]) if match[1] else None, None if match[3] == "*" else int(match[3])
