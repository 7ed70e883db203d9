"""Beam search in plain numpy over any `Stepper`.

The rules are those that fairseq and CTranslate2 use. Each step ranks all successors of a sentence's K beams by the sum
of their log-probabilities. Among the first K, those that end the sentence become finished hypotheses. The best K that
do not end the sentence are continued. A sentence leaves the batch when it has K finished hypotheses, when no continued
hypothesis can beat the worst of the requested ones, or at its greatest length.

Each beam has one successor that ends the sentence. So its K + 1 most probable successors are enough for the first K of
either kind, and the first 2K of all beams contain both kinds.

A step makes few calls of numpy, whatever the number of sentences, because threads of a process take turns at everything
except the model.

Letters: see `nmt_core.models`. Here N counts ranked candidates of a sentence (2K, or fewer in a tiny vocabulary), and H
counts hypotheses that end; in addition X counts all candidates of a sentence, X = K * C.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nmt_core.config import SearchConfig
from nmt_core.search.constraints import Prefixes, allowed, candidates, limits, with_tokens
from nmt_core.search.hypothesis import Ending, Flags, History, Hypothesis, Sums, length_penalties
from nmt_core.search.step import Floats, Ints, Stepper, pad_sources
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID


@dataclass(frozen=True)
class BeamStep:
    """Step of a search, for observers: the candidates, and the choice from them."""

    place_B: Ints
    """Place in the input of each sentence in the batch."""
    log_prob_RC: Floats
    """Log-probabilities of the successors of each partial hypothesis of the previous step. At the first step, each
    sentence has one partial hypothesis, which is empty."""
    id_RC: Ints
    """Ids of the successors of each partial hypothesis of the previous step."""
    token_BK: Ints
    """Token that was added to each continued hypothesis, best first."""
    parent_BK: Ints
    """Row of the previous step that each continued hypothesis continues."""
    sum_BK: Sums
    """Sum of log-probabilities of each continued hypothesis."""
    endings: Sequence[Sequence[Ending]]
    """Finished hypotheses so far, by place in the input. `Ending.row` is a row of the step at which it ends."""


Observer = Callable[[BeamStep], None]
"""Function that is called after each step of a search. It may not change anything, and must copy lists that it
keeps."""


def beam_search(stepper: Stepper, source_ids: Sequence[Sequence[int]], config: SearchConfig) -> list[Hypothesis]:
    """Return the best hypothesis for each source, in order (see `n_best`)."""
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
        stepper: model to search with.
        source_ids: ids of each source without the end mark, which is added here.
        config: beam size, length penalty, least and greatest length of a target, and number of hypotheses to return.
        prefixes: ids with which each target has to begin. Empty means that targets may begin with anything.
        observe: function that is called after each step. None means none.

    Returns:
        For each source, in order, one to `config.n_best` hypotheses, best first. A hypothesis that was cut is returned
        only if none ended by itself. Equal sums are ordered by token id, then by the rank of the beam that they
        continue.
    """
    if not source_ids:
        return []
    beams, history, count = _Beams(source_ids, config, prefixes), History(), config.beam_size + 1
    decoding = stepper.start(pad_sources(source_ids), candidates(count, stepper, config))
    token_R, parent_R = np.full(len(source_ids), BOS_ID), np.arange(len(source_ids))
    written_RT = np.empty((len(source_ids), 0), dtype=np.int64)
    while True:
        history.add(token_R, parent_R)
        step = decoding.step(token_R, parent_R)
        if config.limits_repetition and beams.length:
            written_RT = with_tokens(written_RT, token_R, parent_R)
        step = allowed(step, count, beams.length, config, written_RT)
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
    """Sentences still in the batch, and their partial hypotheses, best first."""

    def __init__(
        self, source_ids: Sequence[Sequence[int]], config: SearchConfig, prefixes: Sequence[Sequence[int]]
    ) -> None:
        count = len(source_ids)
        self.size = config.beam_size
        self.wanted = config.n_best
        self.length = 0
        """Number of target tokens of every partial hypothesis."""
        self.place_B = np.arange(count)
        """Place of each sentence in the input."""
        self.limit_B = limits(source_ids, config, prefixes)
        self.prefixes = Prefixes(prefixes, self.limit_B)
        self.penalties = length_penalties(int(self.limit_B.max()) + 1, config.length_penalty)
        self.longest_B = self.penalties[self.limit_B + 1 - self.prefixes.length_B]
        """Greatest length penalty that a hypothesis of each sentence can have."""
        self.sum_BK = np.zeros((count, 1))
        """Sum of log-probabilities of each partial hypothesis. At first there is one empty beam: K equal beams would be
        ranked as if they were different."""
        self.endings: list[list[Ending]] = [[] for _ in source_ids]
        """Finished hypotheses of each sentence, or the one that was cut, by place in the input."""
        self.to_beat = np.full(count, np.nan)
        """Score above which another hypothesis is needed, by place in the input. NaN means that any is."""

    def advance(self, log_prob_RC: Floats, id_RC: Ints) -> tuple[Ints, Ints]:
        """Finish the hypotheses that end, and continue the best K candidates that do not.

        Return the ids of these candidates, and the rows that they continue.
        """
        count, beams = self.sum_BK.shape
        width = log_prob_RC.shape[1]
        sum_BX = (self.sum_BK[:, :, None] + log_prob_RC.reshape(count, beams, width)).reshape(count, -1)
        # Fewer than K are left only while there are fewer candidates, in a tiny vocabulary.
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
        """Return the step that is over: the arguments of `advance`, and its result."""
        shape = self.sum_BK.shape
        return BeamStep(self.place_B, *step, token_R.reshape(shape), parent_R.reshape(shape), self.sum_BK, self.endings)

    def _force(self, forced_B: Flags, token_R: Ints, parent_R: Ints, beams: int) -> tuple[Ints, Ints]:
        """Replace the chosen tokens by the given ones. A sentence has one beam until its prefix ends."""
        token_BK, parent_BK = token_R.reshape(self.sum_BK.shape), parent_R.reshape(self.sum_BK.shape)
        token_BK[forced_B] = self.prefixes.tokens(self.place_B[forced_B], self.length)[:, None]
        parent_BK[forced_B] = (np.flatnonzero(forced_B) * beams)[:, None]
        self.sum_BK[forced_B] = -np.inf
        self.sum_BK[forced_B, 0] = 0.0
        if forced_B.all():
            self.sum_BK, token_BK, parent_BK = self.sum_BK[:, :1], token_BK[:, :1], parent_BK[:, :1]
        return token_BK.ravel(), parent_BK.ravel()

    def _finish(self, candidate_H: Ints, sum_BX: Sums, width: int) -> None:
        """Keep the hypotheses that end with these candidates."""
        place_H = self.place_B[candidate_H // sum_BX.shape[1]]
        score_H = sum_BX.take(candidate_H) / self.penalties[self.length + 1 - self.prefixes.length_B[place_H]]
        for place, row, score in zip(place_H.tolist(), (candidate_H // width).tolist(), score_H.tolist(), strict=True):
            if score > -np.inf:
                endings = self.endings[place]
                endings.append(Ending(score, self.length, row))
                if len(endings) >= self.size:
                    self.to_beat[place] = np.inf
                elif len(endings) >= self.wanted:
                    self.to_beat[place] = sorted(endings)[-self.wanted].score

    def _cut(self) -> None:
        """Keep the best partial hypothesis of each sentence that has reached its greatest length, if none has ended."""
        beams = self.sum_BK.shape[1]
        for sentence in np.flatnonzero(self.limit_B == self.length).tolist():
            place = self.place_B[sentence]
            if not self.endings[place]:
                penalty = self.penalties[self.length - self.prefixes.length_B[place]]
                score = float(self.sum_BK[sentence, 0] / penalty)
                self.endings[place].append(Ending(score, self.length, sentence * beams, cut=True))

    def done(self) -> Flags:
        """Return True for each sentence that is over, [B].

        A sentence is over at its greatest length, when its beam is full of finished hypotheses, or when no other
        hypothesis can be better.
        """
        # Sums only fall and the penalty only grows, so no continuation can score more than this.
        bound_B = self.sum_BK[:, 0] / self.longest_B
        done_B: Flags = (self.to_beat[self.place_B] >= bound_B) | (self.limit_B < self.length)
        return done_B

    def keep(self, keep_B: Flags) -> None:
        """Remove the other sentences."""
        self.place_B, self.sum_BK = self.place_B[keep_B], self.sum_BK[keep_B]
        self.limit_B, self.longest_B = self.limit_B[keep_B], self.longest_B[keep_B]

    def results(self, history: History) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence of the input, best first."""
        best = [
            sorted(endings_of_source, key=lambda ending: -ending.score)[: self.wanted]
            for endings_of_source in self.endings
        ]
        hypotheses = iter(history.hypotheses([ending for endings in best for ending in endings]))
        return [[next(hypotheses) for _ in endings] for endings in best]


def _ranked(sum_BX: Sums, id_BX: Ints, count: int) -> Ints:
    """Return the places of the `count` greatest sums of each row, greatest first, [B, N].

    Places count through the whole array. Equal sums are ordered by id, and then by place.
    """
    start_B1 = np.arange(0, sum_BX.size, sum_BX.shape[1])[:, None]
    place_BN = np.argsort(-sum_BX, axis=1)[:, : count + 1] + start_B1
    sum_BN = sum_BX.take(place_BN)
    is_tied_B = ((sum_BN[:, 1:] == sum_BN[:, :-1]) & (sum_BN[:, 1:] > -np.inf)).any(axis=1)
    for row in np.flatnonzero(is_tied_B).tolist():  # ties are rare, and slow to handle for all rows
        place_BN[row] = np.lexsort((id_BX[row], -sum_BX[row]))[: count + 1] + start_B1[row]
    return place_BN[:, :count]
