"""Compare the speed of two models, on this machine and on the same lines."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

from nmt_core.search.translation import Translation
from nmt_core.translator import Translator

_FEWEST_ROUNDS = 3
_SECONDS = 4.0
"""Seconds for which rounds are repeated. One round of a small model is so short that other load would decide it."""
_MOST_SECONDS = 20.0
"""Seconds after which rounds end, even if it is unclear on which side of the bound the ratio is."""
_ALPHA = 0.05


@dataclass(frozen=True)
class Ratio:
    """Ratio of two models' speeds in target tokens per second: the median of rounds, with its interval."""

    median: float
    low: float
    """Lower end of the 95% interval of the median, by the order of the rounds. With few rounds, the smallest ratio."""
    high: float
    """Upper end of the interval."""
    rounds: int


def speed_ratio(lines: Sequence[str], one: Translator, other: Translator, bound: float = 0.0) -> Ratio:
    """Time two models in turns and return the ratio of their speeds.

    Args:
        lines: source text, a few hundred lines.
        one: a model, loaded with the search and the threads to be timed.
        other: the model to compare with, loaded in the same way.
        bound: a ratio that matters. While the interval contains it, there are more rounds, for 20 s at most.
    """
    both = (one, other)
    for translator in both:
        translator.translate(lines[:1])  # set-up at the first call is not timed
    rounds, started = list[float](), time.monotonic()
    while True:
        order = both if len(rounds) % 2 else both[::-1]  # caches may be warm for the second
        rates = {translator: timed(translator, lines)[1] for translator in order}
        rounds.append(rates[one] / rates[other])
        ratio, passed = _ratio(rounds), time.monotonic() - started
        if len(rounds) < _FEWEST_ROUNDS or passed < _SECONDS:
            continue
        if not ratio.low <= bound <= ratio.high or passed >= _MOST_SECONDS:
            return ratio


def _ratio(rounds: Sequence[float]) -> Ratio:
    """Return the median and the interval between two rounds that covers the true one in 95% of cases (sign test)."""
    ordered, count = sorted(rounds), len(rounds)
    cut, beyond = 0, 2 * 0.5**count
    while (more := beyond + 2 * comb(count, cut + 1) * 0.5**count) <= _ALPHA:
        cut, beyond = cut + 1, more
    return Ratio(median(rounds), ordered[cut], ordered[count - 1 - cut], count)


def describe_search(translator: Translator) -> str:
    """Return the settings that decide the speed as text: "beam 4 in int8", "greedy search in fp32"."""
    search = translator.search
    by = "sampling" if search.method == "sample" else f"beam {search.beam_size}"
    by = "greedy search" if by == "beam 1" else by
    further = [
        *(["with the shortlist"] if translator.uses_shortlist else []),
        *([f"with alignments of {search.alignments}"] if search.alignments != "none" else []),
    ]
    return " ".join([f"{by} in {translator.precision}", *further])


def timed(translator: Translator, lines: Sequence[str], to: Sequence[str] = ()) -> tuple[list[Translation], float]:
    """Return translations and target tokens per second. End marks count, since a model has to predict them too."""
    started = time.monotonic()
    translations = translator.translate(lines, to=to)
    seconds = max(time.monotonic() - started, 1e-9)
    return translations, sum(translation.tokens + 1 for translation in translations) / seconds
