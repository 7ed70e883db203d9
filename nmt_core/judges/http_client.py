"""Ask a translation service, and repeat requests that fail, within limits of time."""

import os
import time
from collections.abc import Iterator, Sequence

import httpx

from nmt_core.config import LanguagesConfig, System
from nmt_core.errors import TRANSIENT_HTTP_STATUS, counted, words_of
from nmt_core.judges.http_forms import Request, request_for, translations_in
from nmt_core.judges.lines import ProgramError

_SHOWN = 200  # characters of an answer in a message
_LONGEST_PAUSE = 30.0


class ServiceClient:
    """Client of one translation service.

    Args:
        system: service. The key is read from the environment now, and kept only in this object.
        languages: languages of the recipe.

    Raises:
        ProgramError: the environment has no key.
    """

    def __init__(self, system: System, languages: LanguagesConfig) -> None:
        self._system = system
        self._languages = languages
        self._key = os.environ.get(system.key, "") if system.key else ""
        if system.key and not self._key:
            raise ProgramError(
                f"{system.address}: the environment variable {system.key}, which `key` names, is not set: set it where "
                "the evaluation runs"
            )

    def translate(self, sources: Sequence[str]) -> Iterator[tuple[Sequence[str], list[str]]]:
        """Yield sentences with their translations, request by request.

        Raises:
            ProgramError: the service does not answer in time, refuses, or answers in another form.
        """
        size = 1 if self._system.form == "openai" else self._system.batch
        until = time.monotonic() + self._system.max_seconds
        with httpx.Client() as client:
            for start in range(0, len(sources), size):
                some = sources[start : start + size]
                request = request_for(self._system, some, self._languages, self._key)
                yield some, self._translations(client, request, len(some), until)

    def _translations(self, client: httpx.Client, request: Request, number: int, until: float) -> list[str]:
        answer = self._answer(client, request, until)
        try:
            translations = translations_in(self._system.form, answer.json())
        except ValueError as error:
            raise self._error(f"{error} ({answer.text[:_SHOWN]!r})", "correct `form` or `address`") from None
        if len(translations) != number:
            problem = f"answered with {counted(len(translations), 'translation')} for {counted(number, 'sentence')}"
            raise self._error(problem, "set `batch` to 1, or correct `form`")
        return translations

    def _answer(self, client: httpx.Client, request: Request, until: float) -> httpx.Response:
        """Send a request, again after failures that may pass, and return the answer."""
        url = self._system.address.rstrip("/") + request.path
        for attempt in range(self._system.retries + 1):
            left = until - time.monotonic()
            if left <= 0:
                raise self._error(
                    f"was not done within {self._system.max_seconds:g} seconds (`max_seconds`)",
                    "raise the limit; what was translated is kept",
                )
            pause = min(2.0**attempt, _LONGEST_PAUSE)
            try:
                limit = min(self._system.request_seconds, left)
                answer = client.post(url, json=request.body, headers=request.headers, timeout=limit)
            except httpx.TransportError as error:
                problem = f"does not answer ({words_of(error)})"
            else:
                if answer.is_success:
                    return answer
                problem = f"answered {answer.status_code} ({answer.text[:_SHOWN].strip()!r})"
                if answer.status_code not in TRANSIENT_HTTP_STATUS:
                    raise self._error(problem, "correct `address`, `form`, `key` or the languages")
                pause = _seconds_in(answer.headers.get("Retry-After"), pause)
            if attempt < self._system.retries:
                time.sleep(max(0.0, min(pause, until - time.monotonic())))
        times = counted(self._system.retries + 1, "time")
        raise self._error(f"{problem}, {times}", "check that it runs, or raise `retries`; what was translated is kept")

    def _error(self, problem: str, remedy: str) -> ProgramError:
        """Return an error without the key, which a service may repeat in its answer."""
        text = f"{self._system.address}: {problem}: {remedy}"
        return ProgramError(text.replace(self._key, "***") if self._key else text)


def _seconds_in(header: str | None, otherwise: float) -> float:
    """Return the seconds of a header Retry-After, at most 30. A date counts as the usual pause."""
    return min(float(header), _LONGEST_PAUSE) if header and header.isdigit() else otherwise
