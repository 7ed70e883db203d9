"""Forced decoding: how likely a model finds translations that are given.

Letters in names of arrays: R rows, one for each pair that is not over, C candidates of a row.
"""

from collections.abc import Sequence

import numpy as np

from nmt_core.search.step import Stepper, pad_sources
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID


def forced_log_probabilities(
    stepper: Stepper, source_ids: Sequence[Sequence[int]], target_ids: Sequence[Sequence[int]]
) -> list[list[float]]:
    """Return the log-probability of every token of each target, given its source and the tokens before it.

    Args:
        stepper: the model. All of its vocabulary must be available: no shortlist.
        source_ids: token ids of each source, without an end mark.
        target_ids: token ids of each target, without an end mark.

    Returns:
        For each pair a list of nats, one for each target token and a last one for the end mark.
    """
    if not source_ids:
        return []
    targets = [[*ids, EOS_ID] for ids in target_ids]
    log_probs_of_pairs: list[list[float]] = [[] for _ in targets]
    decoding = stepper.start(pad_sources(source_ids), stepper.vocab_size)
    pair_R = np.arange(len(targets))
    token_R, parent_R = np.full(len(targets), BOS_ID), np.arange(len(targets))
    for position in range(max(map(len, targets))):
        log_prob_RC, id_RC = decoding.step(token_R, parent_R)
        token_R = np.array([targets[pair][position] for pair in pair_R.tolist()])
        log_prob_R = log_prob_RC[id_RC == token_R[:, None]]  # each row names each id once
        for pair, log_prob in zip(pair_R.tolist(), log_prob_R.tolist(), strict=True):
            log_probs_of_pairs[pair].append(log_prob)
        parent_R = np.flatnonzero(token_R != EOS_ID)
        if 0 < len(parent_R) < len(token_R):
            decoding.keep(parent_R)
        pair_R, token_R = pair_R[parent_R], token_R[parent_R]
    return log_probs_of_pairs
