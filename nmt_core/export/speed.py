"""How fast one model translates beside another, on this machine and on the same lines."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

from nmt_core.search.translation import Translation
from nmt_core.translator import Translator

_FEWEST_ROUNDS = 3
_SECONDS = 4.0
"""For which rounds go on: of a small model, one takes so little time that whatever else the machine does decides it."""
_MOST_SECONDS = 20.0
"""For which they go on if it is not clear by then on which side of a bound the ratio is."""
_ALPHA = 0.05


@dataclass(frozen=True)
class Ratio:
    """Target tokens per second of one model over those of another: the median of rounds, and how sure it is."""

    median: float
    low: float
    """Lower end of the 95% interval of the median, by the order of the rounds; of few rounds, the slowest of them."""
    high: float
    """Upper end of it."""
    rounds: int


def speed_ratio(lines: Sequence[str], one: Translator, other: Translator, bound: float = 0.0) -> Ratio:
    """Time two models in turns.

    Args:
        lines: source text, some hundred lines.
        one: a model, loaded with the search and the threads that are to be timed.
        other: likewise.
        bound: a ratio that matters: there are more rounds while the interval holds it, for 20 s at most.
    """
    both = (one, other)
    for translator in both:
        translator.translate(lines[:1])  # what is set up at the first call counts for neither
    rounds, started = list[float](), time.monotonic()
    while True:
        order = both if len(rounds) % 2 else both[::-1]  # whoever is second may find the caches warm, or the CPU hot
        rates = {translator: timed(translator, lines)[1] for translator in order}
        rounds.append(rates[one] / rates[other])
        found, passed = _ratio(rounds), time.monotonic() - started
        if len(rounds) < _FEWEST_ROUNDS or passed < _SECONDS:
            continue
        if not found.low <= bound <= found.high or passed >= _MOST_SECONDS:
            return found


def _ratio(rounds: Sequence[float]) -> Ratio:
    """The median, and the interval between two of the rounds that holds the true one in 95 of 100 cases (sign test)."""
    ordered, count = sorted(rounds), len(rounds)
    cut, beyond = 0, 2 * 0.5**count
    while (more := beyond + 2 * comb(count, cut + 1) * 0.5**count) <= _ALPHA:
        cut, beyond = cut + 1, more
    return Ratio(median(rounds), ordered[cut], ordered[count - 1 - cut], count)


def describe_search(translator: Translator) -> str:
    """How a model translates, as far as the speed depends on it: "beam 4 in int8", "greedy search in fp32"."""
    search = translator.search
    by = "sampling" if search.method == "sample" else f"beam {search.beam_size}"
    by = "greedy search" if by == "beam 1" else by
    further = [
        *(["with the shortlist"] if search.shortlist else []),
        *([f"with alignments of {search.alignments}"] if search.alignments != "none" else []),
    ]
    return " ".join([f"{by} in {translator.precision}", *further])


def timed(translator: Translator, lines: Sequence[str]) -> tuple[list[Translation], float]:
    """Translations, and target tokens per second: end marks count, for a model has to find them too."""
    started = time.monotonic()
    translations = translator.translate(lines)
    seconds = max(time.monotonic() - started, 1e-9)
    return translations, sum(translation.tokens + 1 for translation in translations) / seconds
