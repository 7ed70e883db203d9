"""Beam search in plain numpy over any `Stepper`; greedy search is a beam of 1.

The rules are those of fairseq and CTranslate2. Each step ranks all successors of a sentence's K beams by the sum of
their log-probabilities. Those of the first K that end the sentence become finished hypotheses; the best K that do not
end it go on, and 2K candidates per beam are enough to find them. A sentence leaves the batch when it has K finished
hypotheses, when nothing that goes on can beat its best one any more, or at its greatest length.

Letters in names of arrays: B sentences, K beams, R = B * K rows, T target tokens so far, C candidates of a row, N = 2K
ranked candidates of a sentence (fewer only in a vocabulary of fewer).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nmt_core.config import SearchConfig
from nmt_core.search.step import Floats, Ints, Stepper, pad_sources
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID

Sums = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Hypothesis:
    """One translation, as ids."""

    ids: tuple[int, ...]
    """Target ids without <s> and </s>."""
    score: float
    """Sum of the log-probabilities in nats over `length_penalty`."""
    cut: bool = False
    """Whether it stopped at its greatest length without an end mark."""


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha (Wu et al. 2016, section 7, equation 14, without the coverage term).

    `length` counts the target tokens whose log-probabilities are in the sum: the end mark too, but not <s>.
    """
    return math.pow((5 + length) / 6, alpha)


def beam_search(stepper: Stepper, source_ids: Sequence[Sequence[int]], config: SearchConfig) -> list[Hypothesis]:
    """The best hypothesis for each source, in order; see `n_best`."""
    return [hypotheses[0] for hypotheses in n_best(stepper, source_ids, config)]


def n_best(stepper: Stepper, source_ids: Sequence[Sequence[int]], config: SearchConfig) -> list[list[Hypothesis]]:
    """Search all sources together, as one batch.

    Args:
        stepper: the model.
        source_ids: ids of each source without the end mark, which is added here.
        config: beam size, length penalty, and how many tokens a target may have more than its source (end marks not
            counted on either side).

    Returns:
        For each source, in order, one to `beam_size` hypotheses, best first. A cut one is returned only where no
        hypothesis ended by itself. Equal sums are ordered by token id, then by the rank of the beam they continue.
    """
    if not source_ids:
        return []
    beams = _Beams.before_the_first_step(source_ids, config)
    decoding = stepper.start(pad_sources(source_ids), min(2 * config.beam_size, stepper.vocab_size))
    tokens_R, parents_R = np.full(len(source_ids), BOS_ID), np.arange(len(source_ids))
    results: list[list[Hypothesis]] = [[] for _ in source_ids]
    while True:
        ranked = beams.rank(*decoding.step(tokens_R, parents_R))
        beams.finish(ranked)
        parents_BK = beams.advance(ranked)
        done_B = np.array([beams.is_done(place) for place in range(len(beams.sentence_B))])
        for place in np.flatnonzero(done_B).tolist():
            results[beams.sentence_B[place]] = beams.result(place)
        if done_B.all():
            return results
        if done_B.any():
            decoding.keep(np.flatnonzero(~done_B))
            beams.keep(~done_B)
        tokens_R, parents_R = beams.ids_BKT[:, :, -1].ravel(), parents_BK[~done_B].ravel()


@dataclass(frozen=True)
class _Ranked:
    """The best candidates of each sentence, best first."""

    sum_BN: Sums
    id_BN: Ints
    parent_BN: Ints
    """Beam of the sentence that the candidate continues."""


@dataclass
class _Beams:
    """The sentences still in the batch, and their partial hypotheses, best first."""

    config: SearchConfig
    sentence_B: Ints
    """Place of each sentence in the input."""
    limit_B: Ints
    """Most target tokens of each sentence, the end mark not counted."""
    ids_BKT: Ints
    sum_BK: Sums
    finished_B: list[list[Hypothesis]] = field(default_factory=list)
    """Hypotheses of each sentence that ended by themselves."""
    cut_B: list[Hypothesis | None] = field(default_factory=list)
    """The best partial hypothesis of each sentence that has reached its greatest length."""

    @classmethod
    def before_the_first_step(cls, source_ids: Sequence[Sequence[int]], config: SearchConfig) -> "_Beams":
        """One empty beam per sentence: K equal ones would be ranked as K different ones."""
        count = len(source_ids)
        return cls(
            config=config,
            sentence_B=np.arange(count),
            limit_B=np.array([len(ids) + config.max_length_offset for ids in source_ids]),
            ids_BKT=np.empty((count, 1, 0), dtype=np.int64),
            sum_BK=np.zeros((count, 1)),
            finished_B=[[] for _ in source_ids],
            cut_B=[None for _ in source_ids],
        )

    def rank(self, log_probs_RC: Floats, ids_RC: Ints) -> _Ranked:
        """Order the successors of all beams of a sentence; a sentence at its greatest length can only end."""
        count, beams = self.sum_BK.shape
        sum_BKC = self.sum_BK[:, :, None] + log_probs_RC.reshape(count, beams, -1)
        id_BKC = ids_RC.reshape(sum_BKC.shape)
        at_limit_B = self.ids_BKT.shape[2] == self.limit_B
        if at_limit_B.any():
            sum_BKC[at_limit_B[:, None, None] & (id_BKC != EOS_ID)] = -np.inf
        sum_BN, id_BN = sum_BKC.reshape(count, -1), id_BKC.reshape(count, -1)
        parent_BN = np.broadcast_to(np.arange(beams)[:, None], sum_BKC.shape).reshape(count, -1)
        order_BN = np.lexsort((parent_BN, id_BN, -sum_BN))[:, : 2 * self.config.beam_size]
        return _Ranked(
            np.take_along_axis(sum_BN, order_BN, axis=1),
            np.take_along_axis(id_BN, order_BN, axis=1),
            np.take_along_axis(parent_BN, order_BN, axis=1),
        )

    def finish(self, ranked: _Ranked) -> None:
        """Collect the hypotheses that end at this step, and those that should have."""
        length, beam_size, alpha = self.ids_BKT.shape[2], self.config.beam_size, self.config.length_penalty
        ends_BK = (ranked.id_BN == EOS_ID)[:, :beam_size] & np.isfinite(ranked.sum_BN[:, :beam_size])
        for place, rank in zip(*np.nonzero(ends_BK), strict=True):
            ids_T = self.ids_BKT[place, ranked.parent_BN[place, rank]]
            score = ranked.sum_BN[place, rank] / length_penalty(length + 1, alpha)
            self.finished_B[place].append(Hypothesis(tuple(ids_T.tolist()), float(score)))
        for place in np.flatnonzero(self.limit_B == length):
            score = self.sum_BK[place, 0] / length_penalty(length, alpha)
            self.cut_B[place] = Hypothesis(tuple(self.ids_BKT[place, 0].tolist()), float(score), cut=True)

    def advance(self, ranked: _Ranked) -> Ints:
        """Go on with the best K candidates that do not end; returns the row that each continues, [B, K]."""
        count, beams = self.sum_BK.shape
        # A stable sort by "ends" brings the others forward in their order. Each beam has at most one candidate that
        # ends, so K are left of 2K; fewer only while there are fewer candidates than that in a tiny vocabulary.
        others = min(self.config.beam_size, ranked.id_BN.shape[1] - beams)
        chosen_BK = np.argsort(ranked.id_BN == EOS_ID, axis=1, kind="stable")[:, :others]
        parent_BK = np.take_along_axis(ranked.parent_BN, chosen_BK, axis=1)
        id_BK = np.take_along_axis(ranked.id_BN, chosen_BK, axis=1)
        ids_BKT = np.take_along_axis(self.ids_BKT, parent_BK[:, :, None], axis=1)
        self.ids_BKT = np.concatenate([ids_BKT, id_BK[:, :, None]], axis=2)
        self.sum_BK = np.take_along_axis(ranked.sum_BN, chosen_BK, axis=1)
        rows_BK: Ints = np.arange(count)[:, None] * beams + parent_BK
        return rows_BK

    def is_done(self, place: int) -> bool:
        """Whether more steps cannot change the sentence's result, or its beam is full of finished hypotheses."""
        finished = self.finished_B[place]
        if self.cut_B[place] or len(finished) >= self.config.beam_size:
            return True
        # Sums only fall and the penalty only grows, so no continuation can score more than this.
        longest = length_penalty(self.limit_B[place] + 1, self.config.length_penalty)
        bound = self.sum_BK[place, 0] / longest
        return bool(finished) and max(hypothesis.score for hypothesis in finished) >= bound

    def result(self, place: int) -> list[Hypothesis]:
        """The hypotheses of a sentence, best first."""
        finished = sorted(self.finished_B[place], key=lambda hypothesis: -hypothesis.score)
        cut = self.cut_B[place]
        return finished[: self.config.beam_size] if finished or cut is None else [cut]

    def keep(self, keep_B: npt.NDArray[np.bool_]) -> None:
        """Let the other sentences leave."""
        self.sentence_B, self.limit_B = self.sentence_B[keep_B], self.limit_B[keep_B]
        self.ids_BKT, self.sum_BK = self.ids_BKT[keep_B], self.sum_BK[keep_B]
        self.finished_B = [finished for finished, kept in zip(self.finished_B, keep_B, strict=True) if kept]
        self.cut_B = [cut for cut, kept in zip(self.cut_B, keep_B, strict=True) if kept]
