"""Greedy search: choose the most probable token at each step. It finds what a beam of 1 finds, without ranking.

Letters: see `nmt_core.models`. Here H counts hypotheses that are finished.
"""

from collections.abc import Sequence

import numpy as np

from nmt_core.config import SearchConfig
from nmt_core.search.constraints import Prefixes, allowed, candidates, limits
from nmt_core.search.hypothesis import Hypothesis, length_penalties
from nmt_core.search.step import Stepper, pad_sources
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID


def greedy_search(
    stepper: Stepper, source_ids: Sequence[Sequence[int]], config: SearchConfig, prefixes: Sequence[Sequence[int]] = ()
) -> list[Hypothesis]:
    """Return the hypothesis for each source, in order (see `beam.n_best` for the arguments)."""
    if not source_ids:
        return []
    hypotheses = [Hypothesis((), 0.0)] * len(source_ids)
    limit_B = limits(source_ids, config, prefixes)
    given = Prefixes(prefixes, limit_B)
    penalties = length_penalties(int(limit_B.max()) + 1, config.length_penalty)
    ids_BT = np.empty((len(source_ids), limit_B.max() + 1), dtype=np.int64)  # by place in the input
    place_B = row_B = np.arange(len(source_ids))
    sum_B, token_B = np.zeros(len(source_ids)), np.full(len(source_ids), BOS_ID)
    decoding = stepper.start(pad_sources(source_ids), candidates(1, stepper, config))
    for length in range(ids_BT.shape[1]):
        log_prob_B1, id_B1 = allowed(decoding.step(token_B, row_B), 1, length, config, ids_BT[place_B, :length])
        before_B, sum_B, token_B = sum_B, sum_B + log_prob_B1[:, 0], id_B1[:, 0].copy()
        forced_B = given.are_forced(place_B, length)
        if forced_B is not None:
            token_B[forced_B], sum_B[forced_B] = given.tokens(place_B[forced_B], length), 0.0
        ids_BT[place_B, length] = token_B
        ends_B = token_B == EOS_ID
        done_B = ends_B | (limit_B == length)
        if not done_B.any():
            row_B = np.arange(len(token_B))
            continue
        place_H, ends_H = place_B[done_B], ends_B[done_B]
        total_H = np.where(ends_H, sum_B[done_B], before_B[done_B])
        score_H = total_H / penalties[length + ends_H - given.length_B[place_H]]
        endings = zip(
            place_H.tolist(), ids_BT[place_H, :length].tolist(), score_H.tolist(), ends_H.tolist(), strict=True
        )
        for place, ids, score, ends in endings:
            hypotheses[place] = Hypothesis(tuple(ids), score, cut=not ends)
        row_B = np.flatnonzero(~done_B)
        if not row_B.size:
            break
        decoding.keep(row_B)
        token_B, sum_B, place_B, limit_B = token_B[row_B], sum_B[row_B], place_B[row_B], limit_B[row_B]
    return hypotheses
