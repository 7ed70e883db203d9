"""Requests to a scheduler that may be unreachable for a while, during which training continues."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from nmt_core.errors import StageError

Answer = TypeVar("Answer")


class NoAnswerError(Exception):
    """The scheduler does not answer at the moment."""


class OutOfReachError(StageError):
    """The scheduler has not answered for so long that the launcher gives up. The job may still be running."""


@dataclass
class Pace:
    """Times of requests: soon after a change, and at growing intervals while nothing changes."""

    seconds: float
    """Shortest interval between two requests. The longest is eight times that."""
    _wait: float = field(default=0.0, init=False)
    _next: float = field(default=0.0, init=False)

    def is_due(self) -> bool:
        """Return True if a request is due, and set the time of the next one."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._wait = min(8 * self.seconds, max(self.seconds, 1.5 * self._wait))
        self._next = now + self._wait
        return True

    def hurry(self) -> None:
        """Return to the shortest interval after a change."""
        self._wait = 0.0


@dataclass
class Reach:
    """Requests to a scheduler that tolerate missing answers for a while."""

    who: str
    """Name of the scheduler, for messages."""
    patience: float
    """Seconds without an answer before giving up."""
    tell: Callable[[str], None]
    """Callback that receives messages for the user."""
    _silent_since: float | None = field(default=None, init=False)

    def ask(self, question: Callable[[], Answer]) -> Answer | None:
        """Return the answer, or None if there is none at the moment.

        Raises:
            OutOfReachError: There has been no answer for `patience` seconds.
        """
        try:
            answer = question()
        except NoAnswerError as error:
            self._bear(error)
            return None
        if self._silent_since is not None:
            self.tell(f"{self.who} answers again")
            self._silent_since = None
        return answer

    def insist(self, question: Callable[[], Answer], pause: float) -> Answer:
        """Return the answer, and repeat the request until there is one. `pause` is the first interval in seconds.

        Raises:
            OutOfReachError: There has been no answer for `patience` seconds.
        """
        answers: list[Answer] = []
        pace = Pace(pause)
        while not answers:
            if pace.is_due():
                self.ask(lambda: answers.append(question()))
            else:
                time.sleep(pause / 4)
        return answers[0]

    def _bear(self, error: NoAnswerError) -> None:
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
            self.tell(f"{self.who} does not answer ({error}): retrying for {self.patience / 60:.0f} minutes")
        elif now - self._silent_since > self.patience:
            raise OutOfReachError(
                f"{self.who} has not answered for {self.patience / 60:.0f} minutes ({error}): a running job "
                "continues there, and the same command finds it again"
            )
