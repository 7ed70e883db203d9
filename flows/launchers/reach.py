"""A scheduler that may be away: a controller restarts, a network is mended, and training goes on meanwhile."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from nmt_core.errors import StageError

Answer = TypeVar("Answer")


class NoAnswerError(Exception):
    """The scheduler cannot be asked at the moment."""


class OutOfReachError(StageError):
    """The scheduler has not answered for so long that we give up watching; the job may run on."""


@dataclass
class Pace:
    """When to ask next: soon after something has happened, ever more seldom while nothing does."""

    seconds: float
    """Shortest time between two questions; the longest is eight times that."""
    _wait: float = field(default=0.0, init=False)
    _next: float = field(default=0.0, init=False)

    def is_due(self) -> bool:
        """Whether to ask now; if so, the next time is later."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._wait = min(8 * self.seconds, max(self.seconds, 1.5 * self._wait))
        self._next = now + self._wait
        return True

    def hurry(self) -> None:
        """Something has happened: more may follow."""
        self._wait = 0.0


@dataclass
class Reach:
    """Asks a scheduler, and bears with its silence."""

    who: str
    """The scheduler, for messages."""
    patience: float
    """Seconds of silence after which we give up."""
    tell: Callable[[str], None]
    """Takes what the user should know."""
    _silent_since: float | None = field(default=None, init=False)

    def ask(self, question: Callable[[], Answer]) -> Answer | None:
        """The answer, or None if there is none at the moment.

        Raises:
            OutOfReachError: there has been none for `patience` seconds.
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
        """The answer, however often we must ask; `pause` is the time between in seconds, at first.

        Raises:
            OutOfReachError: there has been none for `patience` seconds.
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
            self.tell(f"{self.who} does not answer ({error}): asking again for {self.patience / 60:.0f} minutes")
        elif now - self._silent_since > self.patience:
            raise OutOfReachError(
                f"{self.who} has not answered for {self.patience / 60:.0f} minutes ({error}): a job that runs there is "
                "left alone, and the same command finds it again"
            )
