"""Compare two steppers of the same model, to find a device that computes something else. Imports no torch.

Letters: see `nmt_core.models`.
"""

import numpy as np

from nmt_core.search.step import Ints, Stepper, pad_sources
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID

_SOURCE_LENGTHS = (3, 11, 6)
_BEAMS = 2
_STEPS = 20
"""More positions than a stepper makes room for at once, so that it moves its past to a larger place in between."""
_REMOVED_AT = 9
"""Step before which a sentence leaves the batch."""
_CANDIDATES = 4
_ORDINARY = EOS_ID + 1
"""Smallest id of a piece of text."""


def largest_difference(stepper: Stepper, right: Stepper) -> float:
    """Return the largest difference of log-probabilities of two steppers, in nats.

    Both read the same made-up sentences and the same tokens, the likeliest by `right`. On the way rows change places,
    and a sentence leaves. The log-probability that counts is the one of the likeliest successor of each row.

    Args:
        stepper: stepper to look at. It returns log-probabilities.
        right: stepper of the same model that is known to be right.

    Returns:
        The difference. Infinite if `stepper` returns NaN, or if the likeliest successor is not among its best.
    """
    draw = np.random.default_rng(1)
    ordinary = draw.permutation(np.arange(_ORDINARY, right.vocab_size))
    sources = [np.resize(ordinary[start::7], length).tolist() for start, length in enumerate(_SOURCE_LENGTHS)]
    decodings = [one.start(pad_sources(sources), min(_CANDIDATES, one.vocab_size)) for one in (stepper, right)]
    sentences = len(sources)
    token_R, parent_R = np.full(sentences, BOS_ID), np.arange(sentences)
    largest = 0.0
    for position in range(_STEPS):
        (log_prob_RC, id_RC), (right_RC, right_id_RC) = (one.step(token_R, parent_R) for one in decodings)
        found_R = np.where(id_RC == right_id_RC[:, :1], log_prob_RC, -np.inf).max(axis=1)
        differences_R = np.abs(found_R - right_RC[:, 0])
        largest = max(largest, float(np.nan_to_num(differences_R, nan=np.inf, posinf=np.inf).max()))
        token_R, parent_R = _continued(right_id_RC, sentences, position)
        if position == _REMOVED_AT:
            kept_B = np.arange(1, sentences)
            for one in decodings:
                one.keep(kept_B)
            token_R, parent_R = token_R[_BEAMS:], parent_R[_BEAMS:]
            sentences -= 1
    return largest


def _continued(id_RC: Ints, sentences: int, position: int) -> tuple[Ints, Ints]:
    """Return the tokens of the next step, `_BEAMS` of each sentence, and the rows that they continue.

    The first beam continues the last row of its sentence, so rows change places at each step.
    """
    rows = len(id_RC) // sentences
    first_B = np.arange(sentences) * rows
    parent_BK = np.stack([first_B + (rows - 1) * (beam == 0) for beam in range(_BEAMS)], axis=1)
    place = position % 2  # the likeliest token, and the second at every other step: beams must not stay equal
    token_BK = np.stack([id_RC[parent_BK[:, beam], (beam + place) % 2] for beam in range(_BEAMS)], axis=1)
    token_BK = np.where(token_BK == EOS_ID, _ORDINARY, token_BK)
    return token_BK.ravel(), parent_BK.ravel()
