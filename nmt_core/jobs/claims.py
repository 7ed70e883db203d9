"""Claims: who works on what, for as long as he shows that he lives.

A claim is a small file with its owner and the time at which it ends; the owner puts that off while he works. When he
has died, the claim ends by itself, and on his own machine his death is seen at once. Clocks of machines differ: a claim
from elsewhere has ended when it has stayed as it is, while one looked on, for as long as claims hold, whatever time it
gives. No result depends on a claim: see `nmt_core.jobs`.
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
"""How long a claim holds without a sign of life."""


class Claim(BaseModel):
    """What the file of a claim says."""

    owner: str
    """The attempt at the job, on whichever of its machines."""
    host: str = ""
    pid: int = 0
    born: float = 0
    """When the process started: its number may come again."""
    expires: float = 0
    """Seconds since 1970, by the owner's clock."""

    @property
    def is_from_here(self) -> bool:
        """Whether the owner is on this machine."""
        return self.host == socket.gethostname()

    @property
    def holds(self) -> bool:
        """Whether the owner, on this machine, is still there."""
        return self._is_running() and time.time() < self.expires

    def _is_running(self) -> bool:
        try:
            return abs(psutil.Process(self.pid).create_time() - self.born) < 1
        except psutil.NoSuchProcess:
            return False


_NOBODY = Claim(owner="")
"""In place of a damaged claim."""

_met: dict[str, tuple[Claim, float]] = {}
"""Claims of others that this process waits for: what each said last, and when it was first seen to say so."""


@dataclass(frozen=True)
class Claims:
    """Claims of one attempt at a job."""

    folder: str
    seconds: float = SECONDS
    owner: str = field(default_factory=lambda: secrets.token_hex(8))
    clock: Callable[[], float] = time.monotonic
    """Seconds that have passed on this machine."""

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[bool]:
        """Hold the claim of that name during the block; False: somebody else does.

        What another process of the same attempt held is ours: its task was given to us, so it has died.
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
        found = self._read(url)
        if found is None:
            return create(self._content(), url)
        is_held = found.holds if found.is_from_here else not self._is_silent(url, found)
        if found.owner not in ("", self.owner) and is_held:
            return False
        self._write(url)
        return self._is_ours(url)

    def _is_silent(self, url: str, found: Claim) -> bool:
        """Whether a claim from another machine has not changed for as long as claims hold, by our own clock."""
        now = self.clock()
        said, since = _met.get(url, (None, now))
        if said != found:
            _met[url] = found, now
            return False
        if now - since < self.seconds:
            return False
        _met.pop(url, None)
        return True

    def _beat(self, url: str, over: threading.Event) -> None:
        """Put the end off until the work is over, then give the claim back: here, where no signal interrupts it."""
        while not over.wait(self.seconds / 3):
            with suppress(Exception):  # the store does not answer: the next beat may reach it
                if not self._is_ours(url):  # we were thought dead
                    return
                self._write(url)
        with suppress(Exception):  # it would end by itself
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
        found = self._read(url)
        return found is not None and found.owner == self.owner

    def _content(self) -> bytes:
        claim = Claim(
            owner=self.owner,
            host=socket.gethostname(),
            pid=os.getpid(),
            born=psutil.Process().create_time(),
            expires=time.time() + self.seconds,
        )
        return claim.model_dump_json().encode()
