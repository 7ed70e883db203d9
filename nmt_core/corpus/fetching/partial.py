"""A file that is being fetched: the bytes that have come, and how to ask for the rest.

The bytes and a note about them lie in a folder of the store that outlives the run, by address: the next run, after a
crash or a kill -9, goes on from there, whatever else its recipe has changed. Two processes never fetch into the same
file at the same time.
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
    """The bytes of one address that have come so far."""

    def __init__(self, folder: Path, address: str, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        key = hashlib.sha256(address.encode()).hexdigest()[:24]
        self.address = address
        # The name stays: its suffix tells a table from lines.
        self.path = folder / f"{key}.part" / (_NOT_IN_A_NAME.sub("_", name)[-80:].lstrip(".") or "file")
        self._note = folder / f"{key}.json"
        self._lock = folder / f"{key}.lock"
        self._validator = ""
        self.total = 0
        """Bytes that there should be; 0: not known."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other threads and processes from it."""
        with FileLock(self._lock):
            self._lock.touch()  # it is in use: not to be swept away
            self._recall()
            yield

    @property
    def size(self) -> int:
        """Bytes that have come."""
        return self.path.stat().st_size if self.path.exists() else 0

    def request_headers(self) -> dict[str, str]:
        """What to ask for: the rest, if it is certain that it will fit."""
        as_stored = {"Accept-Encoding": "identity"}  # a .gz is to arrive as the .gz that was hashed
        if not self.size or not self._validator:
            return as_stored
        return as_stored | {"Range": f"bytes={self.size}-", "If-Range": self._validator}

    def begin(self, answer: httpx.Response, total: int) -> None:
        """Throw away what there is, and note what the answer says of the file."""
        self.discard()
        self.open_anew().close()
        self._validator = _validator_of(answer) if is_as_stored(answer) else ""
        self.total = total
        note = {"address": self.address, "validator": self._validator, "total": total}
        self._note.write_text(json.dumps(note), encoding="utf-8")

    def is_continued_by(self, answer: httpx.Response) -> bool:
        """Whether the body of a 206 is the rest of this very file."""
        start, total = _content_range(answer)
        same = _validator_of(answer) in ("", self._validator)
        fits = start == self.size and (not self.total or total in (None, self.total))
        return fits and same and is_as_stored(answer)

    def is_said_to_be_whole(self, answer: httpx.Response) -> bool:
        """Whether a 416 says that there is no more than what has come."""
        _, total = _content_range(answer)
        return bool(self._validator) and total == self.size

    def open_anew(self) -> BinaryIO:
        """An empty file in its place."""
        self.path.parent.mkdir(exist_ok=True)
        return self.path.open("wb")

    def discard(self) -> None:
        """Forget it."""
        self.path.unlink(missing_ok=True)  # never emptied: an artifact may hold the file by a hard link
        if self.path.parent.exists():
            self.path.parent.rmdir()
        self._note.unlink(missing_ok=True)
        self._validator, self.total = "", 0

    def _recall(self) -> None:
        try:
            note: dict[str, Any] = json.loads(self._note.read_bytes())
            self._validator, self.total = str(note["validator"]), int(note["total"])
        except (OSError, ValueError, KeyError, TypeError):  # none, or one that a kill cut off
            self._validator, self.total = "", 0


def sweep(folder: Path) -> None:
    """Remove what nobody has gone on with for a month."""
    oldest = time.time() - _DAYS_KEPT * 86_400
    for file in [*folder.glob("*.part/*"), *folder.glob("*.json"), *folder.glob("*.lock")]:
        if file.stat().st_mtime < oldest:
            file.unlink(missing_ok=True)
    for part in folder.glob("*.part"):
        with suppress(OSError):  # it is not empty
            part.rmdir()


def is_as_stored(answer: httpx.Response) -> bool:
    """Whether the body is the file itself, not packed for the way in spite of the request.

    Some servers label a .gz that they store as packed for the way; it is the file itself all the same.
    """
    coding = answer.headers.get("Content-Encoding", "identity").lower()
    stored_packed = signatures.promised_packing(answer.url.path) == "gz" and coding in {"gzip", "x-gzip"}
    return coding in {"identity", ""} or stored_packed


def _validator_of(answer: httpx.Response) -> str:
    """What If-Range may hold: a strong ETag, else the date of the last change (RFC 9110, section 13.1.5)."""
    tag = str(answer.headers.get("ETag", ""))
    return tag if tag and not tag.startswith("W/") else str(answer.headers.get("Last-Modified", ""))


def _content_range(answer: httpx.Response) -> tuple[int | None, int | None]:
    """First byte and length of the whole, as far as the answer says; (-1, None) if it says nothing that is valid."""
    match = _CONTENT_RANGE.match(answer.headers.get("Content-Range", ""))
    if not match:
        return -1, None
    return int(match[1]) if match[1] else None, None if match[3] == "*" else int(match[3])
