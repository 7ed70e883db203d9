"""Minimum Bayes risk: choose the candidate that is most like the others, in place of the most probable one.

Kumar and Byrne 2004, "Minimum Bayes-Risk Decoding for Statistical Machine Translation", choose from a list of the best
translations. Eikema and Aziz 2020, "Is MAP Decoding All You Need?", choose from samples.
"""

from collections.abc import Sequence

import numpy as np

from nmt_core.text import chrf


def ranked(texts: Sequence[str], log_probabilities: Sequence[float] | None = None) -> list[int]:
    """Return the indices of the different texts, the one with the highest expected chrF first.

    The expected chrF of a text is the mean of its chrF against every candidate, itself included. Of equal texts, the
    first one is returned.

    Args:
        texts: candidates, of which there is at least one.
        log_probabilities: log-probability of each candidate in nats, by which it weighs in the mean. None means that
            all weigh the same, as samples do, because a probable sample occurs more often.
    """
    first_of: dict[str, int] = {}
    for place, text in enumerate(texts):
        first_of.setdefault(text, place)
    different = list(first_of)
    number_of = {text: number for number, text in enumerate(different)}
    weights = np.zeros(len(different))
    np.add.at(weights, [number_of[text] for text in texts], _weights(len(texts), log_probabilities))
    expected = chrf.pairwise(different, different) @ weights
    # Sums of floating-point numbers that should be equal are ordered by the place of their texts.
    order = np.argsort(-expected.round(9), kind="stable")
    return [first_of[different[number]] for number in order]


def _weights(count: int, log_probabilities: Sequence[float] | None) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if log_probabilities is None or not np.isfinite(log_probabilities).all():
        return np.full(count, 1 / count)
    relative = np.exp(np.array(log_probabilities) - max(log_probabilities))
    return np.asarray(relative / relative.sum())
