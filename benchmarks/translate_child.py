"""Answer questions over a pipe: the part that all contenders of `translate.py` share. Standard library only.

A question is one line of JSON on standard input, and an answer one line on what was standard output. The first question
loads the model, the second brings the text, and each question after that translates it once.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

sys.path.append(str(Path(__file__).parents[2]))  # interpreters of others import what of ours needs nothing else

Ids = list[int]
Question = dict[str, Any]


class Contender(Protocol):
    """A loaded model."""

    def prepare(self, sources: Sequence[Ids]) -> None:
        """Take the text, as ids without end marks. This is not timed."""

    def translate(self, question: Question) -> Any:
        """Translate the text. This is timed."""

    def targets(self, translated: Any) -> list[Ids]:
        """Return the ids of the translations, without end marks. This is not timed."""


def serve(load: Callable[[Question], Contender]) -> None:
    """Answer questions until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    rss_before = resident_megabytes()
    contender: Contender | None = None
    for line in sys.stdin:
        question = json.loads(line)
        answer: dict[str, Any] = {}
        if contender is None:
            began = time.perf_counter()
            contender = load(question)
            answer = {"seconds": time.perf_counter() - began, "rss_before": rss_before, "rss": resident_megabytes()}
        elif "sources" in question:
            contender.prepare(question["sources"])
        else:
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            translated = contender.translate(question)
            answer = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
            answer |= {"targets": contender.targets(translated), "rss": resident_megabytes()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def resident_megabytes() -> float:
    """Resident memory of this process, in units of a million bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
