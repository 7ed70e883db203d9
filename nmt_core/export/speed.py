"""How fast one model translates beside another, on this machine and on the same lines."""

import time
from collections.abc import Sequence
from statistics import median

from nmt_core.search.translation import Translation
from nmt_core.translator import Translator

_FEWEST_ROUNDS = 3
_SECONDS = 4.0
"""For which rounds go on: of a small model, one takes so little time that whatever else the machine does decides it."""


def speed_ratio(lines: Sequence[str], one: Translator, other: Translator) -> float:
    """Target tokens per second of one model over those of another: the median of rounds in which they take turns.

    Args:
        lines: source text, some hundred lines.
        one: a model, loaded with the search and the threads that are to be timed.
        other: likewise.
    """
    both = (one, other)
    for translator in both:
        translator.translate(lines[:1])  # what is set up at the first call counts for neither
    ratios, until = list[float](), time.monotonic() + _SECONDS
    while len(ratios) < _FEWEST_ROUNDS or time.monotonic() < until:
        order = both if len(ratios) % 2 else both[::-1]  # whoever is second may find the caches warm, or the CPU hot
        rates = {translator: timed(translator, lines)[1] for translator in order}
        ratios.append(rates[one] / rates[other])
    return median(ratios)


def way_of(translator: Translator) -> str:
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
