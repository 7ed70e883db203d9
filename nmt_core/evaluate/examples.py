"""Choose sentences of a test set to show side by side, as translated by several systems."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import polars as pl

Choice = Literal["longest", "random", "worst"]
"""Rule for the choice: the longest sources, random ones, or those with the lowest chrF of the first system."""

_SEED = 1


def choose(rows: "pl.DataFrame", choice: str, number: int) -> list[int]:
    """Return the indices of the sentences to show. The same rows always give the same sentences.

    Args:
        rows: columns `source`, `reference` and `hypothesis`, the translation by the first system.
        choice: see `Choice`.
        number: number of sentences. All are returned if there are no more.
    """
    places: Sequence[int] = range(rows.height)
    if choice == "random":
        return sorted(random.Random(_SEED).sample(places, min(number, rows.height)))
    if choice == "longest":
        lengths = rows["source"].str.len_chars().to_list()
        return sorted(places, key=lambda place: (-lengths[place], place))[:number]
    from sacrebleu.metrics import CHRF  # `nmt compare` needs the names of the rules alone

    chrf = CHRF()
    pairs = zip(rows["hypothesis"], rows["reference"], strict=True)
    scores = [chrf.sentence_score(hypothesis, [reference]).score for hypothesis, reference in pairs]
    return sorted(places, key=lambda place: (scores[place], place))[:number]
