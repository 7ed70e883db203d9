"""Beam search in plain numpy over any `Stepper`.

The rules are those of fairseq and CTranslate2. Each step ranks all successors of a sentence's K beams by the sum of
their log-probabilities. Those of the first K that end the sentence become finished hypotheses; the best K that do not
end it go on. A sentence leaves the batch when it has K finished hypotheses, when nothing that goes on can beat the
worst of those that are wanted, or at its greatest length.

A beam has one successor that ends, so its K + 1 likeliest are all that can be among the first K of either kind, and the
first 2K of all beams' hold both.

Threads of a process take turns at everything but the model: what a step does here is a few calls of numpy, whatever the
number of sentences.

Letters in names of arrays: B sentences, K beams, R = B * K rows, C candidates of a row, X = K * C candidates of a
sentence, N = 2K ranked ones of these (fewer only in a vocabulary of fewer).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nmt_core.config import SearchConfig
from nmt_core.search.constraints import Prefixes, allowed, candidates, limits
from nmt_core.search.hypothesis import Ending, Flags, History, Hypothesis, Sums, length_penalties
from nmt_core.search.step import Floats, Ints, Stepper, pad_sources
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID


@dataclass(frozen=True)
class BeamStep:
    """A step of a search, for who looks on: what there was to choose from, and what was chosen."""

    place_B: Ints
    """Place in the input of each sentence in the batch."""
    log_prob_RC: Floats
    """What may follow each partial hypothesis of the step before (at the first step, each sentence's empty one)."""
    id_RC: Ints
    token_BK: Ints
    """What was added to each partial hypothesis that goes on, best first..."""
    parent_BK: Ints
    """...the row of the step before that it continues..."""
    sum_BK: Sums
    """...and its sum of log-probabilities."""
    endings: Sequence[Sequence[Ending]]
    """The finished hypotheses so far, by place in the input. `Ending.row` is a row of the step that it ends at."""


Observer = Callable[[BeamStep], None]
"""Is told each step of a search when it is over. It may not change anything, and keeps copies of lists."""


def beam_search(stepper: Stepper, source_ids: Sequence[Sequence[int]], config: SearchConfig) -> list[Hypothesis]:
    """The best hypothesis for each source, in order; see `n_best`."""
    return [hypotheses[0] for hypotheses in n_best(stepper, source_ids, config)]


def n_best(
    stepper: Stepper,
    source_ids: Sequence[Sequence[int]],
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] = (),
    observe: Observer | None = None,
) -> list[list[Hypothesis]]:
    """Search all sources together, as one batch.

    Args:
        stepper: the model.
        source_ids: ids of each source without the end mark, which is added here.
        config: beam size, length penalty, how long a target may and must be, and how many are wanted.
        prefixes: ids with which each target has to begin; none at all: they are free.
        observe: is told each step; None: nobody looks on.

    Returns:
        For each source, in order, one to `config.n_best` hypotheses, best first. A cut one is returned only where no
        hypothesis ended by itself. Equal sums are ordered by token id, then by the rank of the beam they continue.
    """
    if not source_ids:
        return []
    beams, history, wanted = _Beams(source_ids, config, prefixes), History(), config.beam_size + 1
    decoding = stepper.start(pad_sources(source_ids), candidates(wanted, stepper, config))
    token_R, parent_R = np.full(len(source_ids), BOS_ID), np.arange(len(source_ids))
    while True:
        history.add(token_R, parent_R)
        step = decoding.step(token_R, parent_R)
        step = allowed(step, wanted, beams.length, config)
        token_R, parent_R = beams.advance(*step)
        if observe:
            observe(beams.seen(step, token_R, parent_R))
        done_B = beams.done()
        if done_B.any():
            if done_B.all():
                return beams.results(history)
            decoding.keep(np.flatnonzero(~done_B))
            beams.keep(~done_B)
            token_R, parent_R = (x_R.reshape(len(done_B), -1)[~done_B].ravel() for x_R in (token_R, parent_R))


class _Beams:
    """The sentences still in the batch, and their partial hypotheses, best first."""

    def __init__(
        self, source_ids: Sequence[Sequence[int]], config: SearchConfig, prefixes: Sequence[Sequence[int]]
    ) -> None:
        count = len(source_ids)
        self.size = config.beam_size
        self.wanted = config.n_best
        self.length = 0
        """Target tokens of every partial hypothesis."""
        self.place_B = np.arange(count)
        """Place of each sentence in the input."""
        self.limit_B = limits(source_ids, config, prefixes)
        self.prefixes = Prefixes(prefixes, self.limit_B)
        self.penalties = length_penalties(int(self.limit_B.max()) + 1, config.length_penalty)
        self.longest_B = self.penalties[self.limit_B + 1 - self.prefixes.length_B]
        """The greatest length penalty that a hypothesis of each sentence can have."""
        self.sum_BK = np.zeros((count, 1))
        """Of one empty beam: K equal ones would be ranked as K different ones."""
        self.endings: list[list[Ending]] = [[] for _ in source_ids]
        """Finished hypotheses of each sentence, or the one that was cut; by place in the input."""
        self.to_beat = np.full(count, np.nan)
        """The score above which a further hypothesis is wanted, by place in the input; NaN: any is."""

    def advance(self, log_prob_RC: Floats, id_RC: Ints) -> tuple[Ints, Ints]:
        """Finish what ends, and go on with the best K candidates that do not: their ids, and the rows they continue."""
        count, beams = self.sum_BK.shape
        width = log_prob_RC.shape[1]
        sum_BX = (self.sum_BK[:, :, None] + log_prob_RC.reshape(count, beams, width)).reshape(count, -1)
        # Fewer than K are left only while there are fewer candidates than that, in a tiny vocabulary.
        others = min(self.size, beams * (width - 1))
        ranked_BN = _ranked(sum_BX, id_RC.reshape(sum_BX.shape), 2 * self.size)
        is_end_BN = id_RC.take(ranked_BN) == EOS_ID
        forced_B = self.prefixes.are_forced(self.place_B, self.length)
        if forced_B is not None:
            is_end_BN[forced_B] = False
        if is_end_BN[:, : self.size].any():
            self._finish(ranked_BN[:, : self.size][is_end_BN[:, : self.size]], sum_BX, width)
        self._cut()
        goes_on_BN = ~is_end_BN
        goes_on_BN &= goes_on_BN.cumsum(axis=1) <= others
        chosen_R = ranked_BN[goes_on_BN]
        token_R, parent_R = id_RC.take(chosen_R), chosen_R // width
        self.sum_BK = sum_BX.take(chosen_R).reshape(count, others)
        if forced_B is not None:
            token_R, parent_R = self._force(forced_B, token_R, parent_R, beams)
        self.length += 1
        return token_R, parent_R

    def seen(self, step: tuple[Floats, Ints], token_R: Ints, parent_R: Ints) -> BeamStep:
        """The step that is over: what `advance` got, and what it gave."""
        shape = self.sum_BK.shape
        return BeamStep(self.place_B, *step, token_R.reshape(shape), parent_R.reshape(shape), self.sum_BK, self.endings)

    def _force(self, forced_B: Flags, token_R: Ints, parent_R: Ints, beams: int) -> tuple[Ints, Ints]:
        """Put the tokens that are given in place of the chosen ones. A sentence has one beam until its prefix ends."""
        token_BK, parent_BK = token_R.reshape(self.sum_BK.shape), parent_R.reshape(self.sum_BK.shape)
        token_BK[forced_B] = self.prefixes.tokens(self.place_B[forced_B], self.length)[:, None]
        parent_BK[forced_B] = (np.flatnonzero(forced_B) * beams)[:, None]
        self.sum_BK[forced_B] = -np.inf
        self.sum_BK[forced_B, 0] = 0.0
        if forced_B.all():
            self.sum_BK, token_BK, parent_BK = self.sum_BK[:, :1], token_BK[:, :1], parent_BK[:, :1]
        return token_BK.ravel(), parent_BK.ravel()

    def _finish(self, candidate_H: Ints, sum_BX: Sums, width: int) -> None:
        """Keep the hypotheses that end with these of the candidates."""
        place_H = self.place_B[candidate_H // sum_BX.shape[1]]
        score_H = sum_BX.take(candidate_H) / self.penalties[self.length + 1 - self.prefixes.length_B[place_H]]
        for place, row, score in zip(place_H.tolist(), (candidate_H // width).tolist(), score_H.tolist(), strict=True):
            if score > -np.inf:
                found = self.endings[place]
                found.append(Ending(score, self.length, row))
                if len(found) >= self.size:
                    self.to_beat[place] = np.inf
                elif len(found) >= self.wanted:
                    self.to_beat[place] = sorted(found)[-self.wanted].score

    def _cut(self) -> None:
        """Keep the best partial hypothesis of a sentence that is as long as it may be, if none has ended."""
        beams = self.sum_BK.shape[1]
        for sentence in np.flatnonzero(self.limit_B == self.length).tolist():
            place = self.place_B[sentence]
            if not self.endings[place]:
                penalty = self.penalties[self.length - self.prefixes.length_B[place]]
                score = float(self.sum_BK[sentence, 0] / penalty)
                self.endings[place].append(Ending(score, self.length, sentence * beams, cut=True))

    def done(self) -> Flags:
        """Whether a sentence may not be longer, its beam is full of finished hypotheses, or no further one can be
        better: [B].
        """
        # Sums only fall and the penalty only grows, so no continuation can score more than this.
        bound_B = self.sum_BK[:, 0] / self.longest_B
        done_B: Flags = (self.to_beat[self.place_B] >= bound_B) | (self.limit_B < self.length)
        return done_B

    def keep(self, keep_B: Flags) -> None:
        """Let the other sentences leave."""
        self.place_B, self.sum_BK = self.place_B[keep_B], self.sum_BK[keep_B]
        self.limit_B, self.longest_B = self.limit_B[keep_B], self.longest_B[keep_B]

    def results(self, history: History) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence of the input, best first."""
        best = [sorted(found, key=lambda ending: -ending.score)[: self.wanted] for found in self.endings]
        hypotheses = iter(history.hypotheses([ending for endings in best for ending in endings]))
        return [[next(hypotheses) for _ in endings] for endings in best]


def _ranked(sum_BX: Sums, id_BX: Ints, count: int) -> Ints:
    """Places, in the whole array, of the `count` greatest sums of each row, greatest first; of equal ones, by id and
    then by place: [B, N].
    """
    start_B1 = np.arange(0, sum_BX.size, sum_BX.shape[1])[:, None]
    place_BN = np.argsort(-sum_BX, axis=1)[:, : count + 1] + start_B1
    sum_BN = sum_BX.take(place_BN)
    is_tied_B = ((sum_BN[:, 1:] == sum_BN[:, :-1]) & (sum_BN[:, 1:] > -np.inf)).any(axis=1)
    for row in np.flatnonzero(is_tied_B).tolist():  # rare, and slow to provide for everywhere
        place_BN[row] = np.lexsort((id_BX[row], -sum_BX[row]))[: count + 1] + start_B1[row]
    return place_BN[:, :count]
