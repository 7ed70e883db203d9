"""Record which worker does which task, for as long as the worker gives signs of life.

A claim is a small file with its owner and an expiry time, which the owner extends while it works. If the owner dies,
the claim expires by itself. A process on the same machine sees at once that the owner has died. Clocks of machines
differ, so the expiry time of a claim from another machine is ignored: such a claim has expired once it has been
observed without a change for as long as claims hold. No result depends on a claim: see `nmt_core.jobs`.
"""

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import psutil
from pydantic import BaseModel, ValidationError

from nmt_core.jobs.folder import create, read_bytes
from nmt_core.store import storage

SECONDS = 60.0
"""Time in seconds for which a claim holds without a sign of life."""


class Claim(BaseModel):
    """Content of a claim's file."""

    owner: str
    """Attempt that holds the claim. It may run on several machines."""
    host: str = ""
    pid: int = 0
    born: float = 0
    """Start time of the process. Another process may get the same number later."""
    expires: float = 0
    """Expiry time in seconds since 1970, by the owner's clock."""

    @property
    def is_from_here(self) -> bool:
        """True if the owner is on this machine."""
        return self.host == socket.gethostname()

    @property
    def holds(self) -> bool:
        """True if the owner, on this machine, still runs and the claim has not expired."""
        return self._is_running() and time.time() < self.expires

    def _is_running(self) -> bool:
        try:
            return abs(psutil.Process(self.pid).create_time() - self.born) < 1
        except psutil.NoSuchProcess:
            return False


_NOBODY = Claim(owner="")
"""Stand-in for a damaged claim."""

_met: dict[str, tuple[Claim, float]] = {}
"""Claims of others that this process waits for: their last content, and when it was first seen, by URL."""


@dataclass(frozen=True)
class Claims:
    """Claims of one attempt at a job, in one folder."""

    folder: str
    seconds: float = SECONDS
    owner: str = field(default_factory=lambda: secrets.token_hex(8))
    clock: Callable[[], float] = time.monotonic
    """Monotonic clock of this machine, in seconds."""

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[bool]:
        """Hold the claim of that name during the block. Yield False if another attempt holds it.

        A claim of another process of the same attempt is taken over: the pool gives a task to a second process only
        if the first has died.
        """
        url = f"{self.folder}/{name}.json"
        if not self._take(url):
            yield False
            return
        over = threading.Event()
        heart = threading.Thread(target=self._beat, args=(url, over), name="claim", daemon=True)
        heart.start()
        try:
            yield True
        finally:
            over.set()
            heart.join(self.seconds)

    def _take(self, url: str) -> bool:
        claim = self._read(url)
        if claim is None:
            return create(self._content(), url)
        is_held = claim.holds if claim.is_from_here else not self._is_silent(url, claim)
        if claim.owner not in ("", self.owner) and is_held:
            return False
        self._write(url)
        return self._is_ours(url)

    def _is_silent(self, url: str, claim: Claim) -> bool:
        """Return True if a claim from another machine has not changed for `seconds`, by the local clock."""
        now = self.clock()
        known, since = _met.get(url, (None, now))
        if known != claim:
            _met[url] = claim, now
            return False
        if now - since < self.seconds:
            return False
        _met.pop(url, None)
        return True

    def _beat(self, url: str, over: threading.Event) -> None:
        """Extend the claim until the work is over, then release it. No signal interrupts this thread."""
        while not over.wait(self.seconds / 3):
            with suppress(Exception):  # the store does not answer: the next beat may reach it
                if not self._is_ours(url):  # another attempt took this one for dead
                    return
                self._write(url)
        with suppress(Exception):  # the claim expires by itself
            if self._is_ours(url):
                storage.remove([url])

    def _write(self, url: str) -> None:
        storage.write_bytes([self._content()], url)

    def _read(self, url: str) -> Claim | None:
        content = read_bytes(url)
        try:
            return None if content is None else Claim.model_validate_json(content)
        except ValidationError:
            return _NOBODY

    def _is_ours(self, url: str) -> bool:
        claim = self._read(url)
        return claim is not None and claim.owner == self.owner

    def _content(self) -> bytes:
        claim = Claim(
            owner=self.owner,
            host=socket.gethostname(),
            pid=os.getpid(),
            born=psutil.Process().create_time(),
            expires=time.time() + self.seconds,
        )
        return claim.model_dump_json().encode()
