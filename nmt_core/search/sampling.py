"""Sampling: draw each token from the model's distribution of the next token.

The random numbers of a sample depend only on the seed, the source's ids, the number of the sample and the step. So the
same line gives the same sample in any batch, order or thread. (Rounding is the exception: in another batch, the last
bit of a matrix product may differ, which matters if a random number is right on a border.)

Letters: see `nmt_core.models`. Here K counts samples of a sentence.
"""

from collections.abc import Sequence

import numpy as np

from nmt_core.config import SearchConfig
from nmt_core.search.constraints import Prefixes, allowed, candidates, limits
from nmt_core.search.hypothesis import Flags, Hypothesis, Sums, length_penalty
from nmt_core.search.step import Floats, Ints, Stepper, pad_sources
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID

_BITS = 52
"""Bits of a random number: one less than a float has, so that none is rounded to 1."""


def sample(
    stepper: Stepper, source_ids: Sequence[Sequence[int]], config: SearchConfig, prefixes: Sequence[Sequence[int]] = ()
) -> list[list[Hypothesis]]:
    """Return `config.n_best` samples for each source, in the order of their numbers.

    A sample that has not ended at its greatest length is cut. Scores are the model's own, as in beam search:
    `temperature`, `top_k` and `top_p` change what is drawn, not its log-probability. See `beam.n_best` for the
    arguments.
    """
    if not source_ids:
        return []
    samples = _Samples(source_ids, config, prefixes)
    most = config.top_k or stepper.vocab_size
    decoding = stepper.start(pad_sources(source_ids), candidates(most, stepper, config))
    token_R, parent_R = np.full(len(source_ids), BOS_ID), np.arange(len(source_ids))
    while True:
        step = decoding.step(token_R, parent_R)
        log_prob_RC, id_RC = allowed(step, most, samples.length, config, samples.written())
        row_BK = np.arange(len(id_RC)).reshape(len(samples.place_B), -1)
        if samples.length == 0:  # a sentence has one row, from which all its samples are drawn
            row_BK = row_BK.repeat(config.n_best, axis=1)
            log_prob_RC, id_RC = log_prob_RC[row_BK.ravel()], id_RC[row_BK.ravel()]
        token_BK = samples.advance(log_prob_RC, id_RC)
        done_B = samples.done()
        if done_B.all():
            return samples.found
        if done_B.any():
            decoding.keep(np.flatnonzero(~done_B))
            samples.keep(~done_B)
        token_R, parent_R = token_BK[~done_B].ravel(), row_BK[~done_B].ravel()


class _Samples:
    """Sentences still in the batch, and their samples so far."""

    def __init__(
        self, source_ids: Sequence[Sequence[int]], config: SearchConfig, prefixes: Sequence[Sequence[int]]
    ) -> None:
        shape = (len(source_ids), config.n_best)
        self.config = config
        self.length = 0
        """Number of target tokens of every sample that is not over."""
        self.place_B = np.arange(len(source_ids))
        """Place of each sentence in the input."""
        self.limit_B = limits(source_ids, config, prefixes)
        self.prefixes = Prefixes(prefixes, self.limit_B)
        self.sum_BK = np.zeros(shape)
        self.is_over_BK = np.zeros(shape, dtype=bool)
        self.random_BKT = random_numbers(source_ids, config, int(self.limit_B.max()) + 1)
        """Random numbers of the samples, by place in the input."""
        self.ids_BKT = np.zeros(self.random_BKT.shape, dtype=np.int64)
        """Ids of the samples, by place in the input."""
        self.found = [[Hypothesis((), 0.0)] * config.n_best for _ in source_ids]
        """Finished samples, by place in the input."""

    def advance(self, log_prob_RC: Floats, id_RC: Ints) -> Ints:
        """Draw the next token of each sample, [B, K], and keep the samples that are over."""
        shape = self.sum_BK.shape
        chosen_R1 = drawn(log_prob_RC, id_RC, self.random_BKT[self.place_B, :, self.length].ravel(), self.config)
        token_BK = np.take_along_axis(id_RC, chosen_R1, axis=1).reshape(shape)
        log_prob_BK = np.take_along_axis(log_prob_RC, chosen_R1, axis=1).reshape(shape).astype(np.float64)
        forced_B = self.prefixes.are_forced(self.place_B, self.length)
        if forced_B is not None:
            token_BK[forced_B] = self.prefixes.tokens(self.place_B[forced_B], self.length)[:, None]
            log_prob_BK[forced_B] = 0.0
        ends_BK = (token_BK == EOS_ID) & ~self.is_over_BK
        cut_BK = (self.limit_B == self.length)[:, None] & ~ends_BK & ~self.is_over_BK
        self.sum_BK += np.where(cut_BK, 0.0, log_prob_BK)
        self._note(ends_BK, cut=False)
        self._note(cut_BK, cut=True)
        self.is_over_BK |= ends_BK | cut_BK
        self.ids_BKT[self.place_B, :, self.length] = token_BK
        self.length += 1
        return token_BK

    def written(self) -> Ints:
        """Return the tokens of each row so far. A sentence has one row before its first token."""
        written_BKT = self.ids_BKT[self.place_B, :, : self.length]
        return written_BKT.reshape(len(written_BKT) * written_BKT.shape[1], self.length)

    def done(self) -> Flags:
        """Return True for each sentence of which all samples are over, [B]."""
        done_B: Flags = np.all(self.is_over_BK, axis=1)
        return done_B

    def _note(self, over_BK: Flags, *, cut: bool) -> None:
        for sentence, number in np.argwhere(over_BK).tolist():
            place = self.place_B[sentence]
            counted = self.length + (not cut) - self.prefixes.length_B[place]
            score = float(self.sum_BK[sentence, number] / length_penalty(counted, self.config.length_penalty))
            ids = tuple(self.ids_BKT[place, number, : self.length].tolist())
            self.found[place][number] = Hypothesis(ids, score, cut)

    def keep(self, keep_B: Flags) -> None:
        """Remove the other sentences."""
        self.place_B, self.limit_B = self.place_B[keep_B], self.limit_B[keep_B]
        self.sum_BK, self.is_over_BK = self.sum_BK[keep_B], self.is_over_BK[keep_B]


def random_numbers(source_ids: Sequence[Sequence[int]], config: SearchConfig, count: int) -> Sums:
    """Return the numbers from 0 to 1 that decide the steps of each sample of each source, [B, K, count].

    numpy promises that these bits stay the same from version to version.
    """
    bits = [
        np.random.PCG64(np.random.SeedSequence([config.seed, number, *ids])).random_raw(count)
        for ids in source_ids
        for number in range(config.n_best)
    ]
    random_RT: Sums = (np.array(bits) >> np.uint64(64 - _BITS)).astype(np.float64) * 2.0**-_BITS
    return random_RT.reshape(len(source_ids), config.n_best, count)


def drawn(log_prob_RC: Floats, id_RC: Ints, random_R: Sums, config: SearchConfig) -> Ints:
    """Return the candidate of each row on which its random number falls, [R, 1].

    The candidates are in the order of their ids. In the order of their probabilities, rounding could exchange
    neighbours, and so change what a random number falls on. The candidates of a step that returns the whole vocabulary
    are in this order already.
    """
    order_RC = id_RC.argsort(axis=1, kind="stable") if (id_RC[:, 1:] < id_RC[:, :-1]).any() else None
    if order_RC is not None:
        log_prob_RC = np.take_along_axis(log_prob_RC, order_RC, axis=1)
    weight_RC = np.exp((log_prob_RC - log_prob_RC.max(axis=1, keepdims=True)) / np.float32(config.temperature))
    if config.top_p < 1:
        weight_RC[~_likeliest(weight_RC, config.top_p)] = 0.0
    up_to_RC = weight_RC.cumsum(axis=1, dtype=np.float64)
    chosen_R1: Ints = (up_to_RC <= random_R[:, None] * up_to_RC[:, -1:]).sum(axis=1, keepdims=True)
    return chosen_R1 if order_RC is None else np.take_along_axis(order_RC, chosen_R1, axis=1)


def _likeliest(weight_RC: Floats, top_p: float) -> Flags:
    """Return True for the fewest candidates of each row that together have the share `top_p` of it.

    Of equal candidates, the first ones are taken.
    """
    falling_RC = -np.sort(-weight_RC, axis=1)
    up_to_RC = falling_RC.cumsum(axis=1, dtype=np.float64)
    count_R1 = (up_to_RC - falling_RC < top_p * up_to_RC[:, -1:]).sum(axis=1, keepdims=True)
    least_R1 = np.take_along_axis(falling_RC, count_R1 - 1, axis=1)
    is_more_RC, is_least_RC = weight_RC > least_R1, weight_RC == least_R1
    left_R1 = count_R1 - is_more_RC.sum(axis=1, keepdims=True)
    likeliest_RC: Flags = is_more_RC | (is_least_RC & (is_least_RC.cumsum(axis=1) <= left_R1))
    return likeliest_RC
