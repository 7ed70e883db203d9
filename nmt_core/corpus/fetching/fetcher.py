"""Fetch files over HTTP, and recover from interruptions and temporary errors.

An interrupted download resumes if the server can prove that the rest belongs to the same file (If-Range; RFC 9110,
section 13.1.5). Otherwise it starts again. Temporary errors are retried with growing pauses. Permanent errors raise one
`DataError`. Each host gets at most two connections at a time from this process.
"""

import netrc
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from nmt_core import formats
from nmt_core.corpus.fetching.partial import PartialFile, is_as_stored
from nmt_core.errors import TRANSIENT_HTTP_STATUS, DataError
from nmt_core.formats import signatures

OnBytes = Callable[[str, int, int], None]
"""Callback with an address, the number of bytes received, and the total number (0 if unknown)."""
Result = TypeVar("Result")

_NOT_THERE = frozenset({404, 410})
_CONNECTIONS_PER_HOST = 2
_MOST_REDIRECTS = 10
_LEAST_BYTES_PER_SECOND = 1_000


class NotThereError(DataError):
    """Error for a file that the server does not have."""


class StoppedError(Exception):
    """Error that ends the fetching when the run stops. The bytes received so far are kept."""


@dataclass(frozen=True)
class Patience:
    """Limits on retries and waiting."""

    attempts: int = 6
    """Number of attempts in a row without new bytes."""
    pause: float = 0.5
    """Seconds before the second attempt. Each later pause is twice as long, times a random factor from 0.5 to 1."""
    longest_pause: float = 300.0
    """Largest number of seconds between two attempts, even if the server requests more."""
    timeout: float = 30.0
    """Seconds without an answer, or with almost no bytes, after which an attempt counts as failed."""


@dataclass
class Fetcher:
    """HTTP client that fetches files into a folder that outlives the run."""

    folder: Path
    on_bytes: OnBytes = lambda address, done, total: None
    patience: Patience = Patience()
    stop: threading.Event = field(default_factory=threading.Event)
    """Event that ends all fetching when it is set."""
    clock: Callable[[], float] = time.monotonic
    """Clock in seconds, used to detect a server that is too slow."""

    def __post_init__(self) -> None:
        self._client = httpx.Client(timeout=self.patience.timeout, auth=logins())
        self._slots: dict[str, threading.Semaphore] = defaultdict(
            lambda: threading.BoundedSemaphore(_CONNECTIONS_PER_HOST)
        )
        self._slots_change = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def fetch(self, part: PartialFile) -> None:
        """Fetch all bytes of the address to `part.path`. The caller holds the part.

        Raises:
            DataError: the bytes cannot be fetched, or are not what the address promises.
            StoppedError: `stop` was set.
        """
        if part.total and part.size == part.total:
            self.on_bytes(part.address, part.size, part.total)
        self._persist(part.address, lambda: self._go_on(part), lambda: part.size)
        with part.path.open("rb") as file:
            head = file.read(4_096)
        problem = _what_is_wrong(part.address, head)
        if problem:
            part.discard()
            raise DataError(problem)

    def json(self, address: str) -> tuple[Any, str]:
        """Return a JSON document, and the address of its next page (empty for the last page).

        Raises:
            DataError: the document cannot be fetched, or is not JSON.
        """

        def read() -> tuple[Any, str]:
            with self._answer(address, {}) as answer:
                answer.raise_for_status()
                answer.read()
                return answer.json(), answer.links.get("next", {}).get("url", "")

        try:
            return self._persist(address, read, lambda: 0)
        except ValueError:
            raise DataError(f"{address} answered with something other than JSON: check the address") from None

    def _persist(self, address: str, attempt: Callable[[], Result], progress: Callable[[], int]) -> Result:
        """Repeat an attempt until it succeeds, or until several attempts in a row make no progress."""
        in_vain, furthest = 0, progress()
        while True:
            pause = random.uniform(0.5, 1) * self.patience.pause * 2**in_vain
            try:
                return attempt()
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                answer = error.response if isinstance(error, httpx.HTTPStatusError) else None
                if answer is not None and answer.status_code in _NOT_THERE:
                    raise NotThereError(_cannot(address, error)) from None
                lasting = answer is not None and answer.status_code not in TRANSIENT_HTTP_STATUS
                in_vain = 0 if progress() > furthest else in_vain + 1
                furthest = max(furthest, progress())
                if lasting or in_vain == self.patience.attempts or _is_never_to_work(error):
                    raise DataError(_cannot(address, error)) from None
                pause = max(pause, _asked_for(answer))
            if self.stop.wait(min(pause, self.patience.longest_pause)):
                raise StoppedError

    def _go_on(self, part: PartialFile) -> None:
        """Make one attempt to fetch the rest of a file."""
        with self._answer(part.address, part.request_headers()) as answer:
            if answer.status_code == 416 and part.is_said_to_be_whole(answer):
                return
            if answer.status_code in {206, 416} and not part.is_continued_by(answer):
                part.discard()
                raise httpx.RemoteProtocolError("the server resumed with another file or at another position")
            answer.raise_for_status()
            if answer.status_code not in {200, 206}:
                raise httpx.HTTPStatusError("no file", request=answer.request, response=answer)
            if "text/html" in answer.headers.get("Content-Type", ""):
                raise DataError(_page(part.address))
            if answer.status_code == 200:
                length = answer.headers.get("Content-Length", "0") if is_as_stored(answer) else "0"
                part.begin(answer, int(length))
            self._receive(answer, part)

    def _receive(self, answer: httpx.Response, part: PartialFile) -> None:
        # A fixed chunk size would delay a chunk until it is full, and the bytes of a slow server would be lost.
        chunks = answer.iter_raw() if is_as_stored(answer) else answer.iter_bytes()
        since, bytes_since = self.clock(), 0
        with part.path.open("ab", buffering=0) as file:
            size = part.size
            for chunk in chunks:
                file.write(chunk)
                size += len(chunk)
                self.on_bytes(part.address, size, part.total)
                if self.stop.is_set():
                    raise StoppedError
                bytes_since += len(chunk)
                elapsed = self.clock() - since
                if elapsed > self.patience.timeout:
                    if bytes_since < elapsed * _LEAST_BYTES_PER_SECOND:
                        raise httpx.ReadTimeout(f"only {bytes_since:,} bytes came in {elapsed:.0f} seconds")
                    since, bytes_since = self.clock(), 0
        if part.total and size != part.total:
            raise httpx.RemoteProtocolError(f"only {size:,} of {part.total:,} bytes came")

    @contextmanager
    def _answer(self, address: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """Request an address and follow redirections, within the connection limit of each host on the way."""
        url = httpx.URL(address)
        for _ in range(_MOST_REDIRECTS + 1):
            with self._slot(url.netloc.decode()), self._client.stream("GET", url, headers=headers) as answer:
                if not answer.next_request:
                    yield answer
                    return
                url = answer.next_request.url
        raise httpx.TooManyRedirects(f"more than {_MOST_REDIRECTS} redirections")

    def _slot(self, host: str) -> threading.Semaphore:
        with self._slots_change:
            return self._slots[host]


def logins() -> httpx.Auth | None:
    """Return user names and passwords by host, from the file that NETRC names or else ~/.netrc, or None without a file.

    Raises:
        DataError: the file cannot be read or parsed.
    """
    file = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    if not file.is_file():
        return None
    try:
        return httpx.NetRCAuth(str(file))
    except netrc.NetrcParseError as error:  # its message may contain a password
        raise DataError(f"{file}: not a netrc file at about line {error.lineno}: repair it, or set NETRC") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read ({type(error).__name__}): repair it, or set NETRC") from None


def _cannot(address: str, error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        problem = f"the server answered {error.response.status_code} {error.response.reason_phrase}"
    else:
        problem = str(error) or type(error).__name__
    return (
        f"cannot fetch {address}: {problem}: check the address and the network, or name a folder that holds the file "
        "with --set corpus.mirror=FOLDER"
    )


def _is_never_to_work(error: Exception) -> bool:
    return isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol | httpx.TooManyRedirects)


def _asked_for(answer: httpx.Response | None) -> float:
    """Return the seconds that the server asks to wait, given as a number or as a date."""
    value = answer.headers.get("Retry-After", "") if answer is not None else ""
    if value.isdecimal():
        return float(value)
    try:
        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0


def _what_is_wrong(address: str, head: bytes) -> str | None:
    """Return an error message if the first bytes show that this is not the promised file, or None."""
    if formats.is_html(head):
        return _page(address)
    if suffix := signatures.broken_promise(httpx.URL(address).path, head):
        return f"{address}: not a {suffix} file, because it begins with {head[:16]!r}: check the address"
    return None


def _page(address: str) -> str:
    return (
        f"{address} answered with an HTML page instead of the file: open the address in a browser, and use the address "
        "of the download itself"
    )
