"""Limit the length of translations, fix their beginning, and exclude tokens.

Letters: see `nmt_core.models`. Here P counts tokens of a prefix.
"""

from collections.abc import Sequence

import numpy as np

from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError
from nmt_core.search.hypothesis import Flags
from nmt_core.search.step import Floats, Ints, Stepper
from nmt_core.tokenizer.tokenizer import EOS_ID, PAD_ID, UNK_ID


def limit(source_tokens: int, config: SearchConfig) -> int:
    """Return the most target tokens for this many source tokens, prefix and end marks not counted."""
    return int(config.max_length_factor * source_tokens) + config.max_length_offset


def limits(source_ids: Sequence[Sequence[int]], config: SearchConfig, prefixes: Sequence[Sequence[int]] = ()) -> Ints:
    """Return for each source `limit` plus the length of its prefix, [B].

    No result exceeds the positions that a model must have (`SearchConfig.most_positions`).
    """
    most, given = config.most_positions - 1, prefixes or [()] * len(source_ids)
    sizes = zip(map(len, source_ids), map(len, given), strict=True)
    return np.array([min(limit(source, config) + prefix, most) for source, prefix in sizes])


def check_positions(config: SearchConfig, positions: int, folder: str) -> None:
    """Check that no sequence can be longer than the model has positions.

    Raises:
        ConfigError: a sequence can be longer.
    """
    if config.most_positions > positions:
        raise ConfigError(
            f"search.max_source_tokens={config.max_source_tokens} with search.max_length_factor="
            f"{config.max_length_factor:g} and search.max_length_offset={config.max_length_offset} need "
            f"{config.most_positions:,} positions, but the model in {folder} has {positions:,}: lower one of them"
        )


_REPEATED = 64
"""Further successors that are requested if some may be excluded or made less likely because they were used before."""


def candidates(count: int, stepper: Stepper, config: SearchConfig) -> int:
    """Return the number of successors to request, so that `count` remain if the end mark or <unk> is excluded."""
    spare = _REPEATED if config.limits_repetition else 0
    return min(count + (config.min_length > 0) + (not config.allow_unknown) + spare, stepper.vocab_size)


def allowed(
    step: tuple[Floats, Ints], count: int, length: int, config: SearchConfig, written_RT: Ints | None = None
) -> tuple[Floats, Ints]:
    """Return the first `count` successors of each row.

    The end mark is excluded if `length` tokens are too few, and <unk> if it is not allowed. `written_RT` holds the
    tokens of each row so far, for the limits of repetition.
    """
    if written_RT is not None and written_RT.size and config.limits_repetition:
        step = _less_repeated(step, written_RT, config, in_order=count < step[1].shape[1])
    if length < config.min_length:
        step = _without(EOS_ID, step)
    if not config.allow_unknown:
        step = _without(UNK_ID, step)
    log_prob_RC, id_RC = step
    return log_prob_RC[:, :count], id_RC[:, :count]


def with_rules(log_prob_RV: Floats, length: int, config: SearchConfig, written_RT: Ints) -> Floats:
    """Return the log-probabilities of the whole vocabulary under the rules of `allowed`.

    What is excluded has minus infinity.
    """
    if written_RT.size and config.limits_repetition:
        ids_RV = np.broadcast_to(np.arange(log_prob_RV.shape[1]), log_prob_RV.shape)
        log_prob_RV, _ = _less_repeated((log_prob_RV, ids_RV), written_RT, config, in_order=False)
    excluded = [EOS_ID] * (length < config.min_length) + [UNK_ID] * (not config.allow_unknown)
    if excluded:
        log_prob_RV = log_prob_RV.copy()
        log_prob_RV[:, excluded] = -np.inf
    return log_prob_RV


def _less_repeated(
    step: tuple[Floats, Ints], written_RT: Ints, config: SearchConfig, *, in_order: bool
) -> tuple[Floats, Ints]:
    """Return the successors of each row with penalties for tokens that were used before, best first if `in_order`.

    A token that would repeat a sequence has minus infinity. The end mark has no penalty.
    """
    log_prob_RC, id_RC = step
    if config.repetition_penalty > 1:
        log_prob_RC = np.where(_is_in(id_RC, written_RT), log_prob_RC * config.repetition_penalty, log_prob_RC)
    size = config.no_repeat_ngram_size
    if size and written_RT.shape[1] >= size:
        sequence_RTN = np.lib.stride_tricks.sliding_window_view(written_RT, size, axis=1)
        last_R1N = written_RT[:, None, written_RT.shape[1] - size + 1 :]
        is_begun_RT = (sequence_RTN[:, :, :-1] == last_R1N).all(axis=2)
        repeated_RT = np.where(is_begun_RT, sequence_RTN[:, :, -1], PAD_ID)
        log_prob_RC = np.where(_is_in(id_RC, repeated_RT), -np.inf, log_prob_RC)
    log_prob_RC = log_prob_RC.astype(np.float32, copy=False)
    if not in_order:
        return log_prob_RC, id_RC
    order_RC = np.argsort(-log_prob_RC, axis=1, kind="stable")
    return np.take_along_axis(log_prob_RC, order_RC, axis=1), np.take_along_axis(id_RC, order_RC, axis=1)


def _is_in(id_RC: Ints, token_RT: Ints) -> Flags:
    """Return True for each id that is among the tokens of its row, except for the end mark and padding."""
    is_in_RC: Flags = np.array([np.isin(ids, tokens) for ids, tokens in zip(id_RC, token_RT, strict=True)])
    is_in_RC &= (id_RC != EOS_ID) & (id_RC != PAD_ID)
    return is_in_RC


def with_tokens(written_RT: Ints, token_R: Ints, parent_R: Ints) -> Ints:
    """Return the tokens of each row after a step. `parent_R` names the row that each row continues."""
    return np.concatenate([written_RT[parent_R], token_R[:, None]], axis=1)


def _without(token: int, step: tuple[Floats, Ints]) -> tuple[Floats, Ints]:
    """Return the successors of each row except the token, or except the last one if the token is missing."""
    log_prob_RC, id_RC = step
    is_other_RC = id_RC != token
    is_other_RC[is_other_RC.all(axis=1), -1] = False
    shape = (len(id_RC), id_RC.shape[1] - 1)
    return log_prob_RC[is_other_RC].reshape(shape), id_RC[is_other_RC].reshape(shape)


class Prefixes:
    """Target tokens with which each translation of a batch has to begin.

    They count neither in the sum of a hypothesis nor in the length by which it is divided. A score covers what the
    model chose itself, given the prefix. (A step returns the log-probabilities of its best candidates only, and a
    prefix may hold any token.)

    Args:
        prefixes: ids for each source. Empty means no prefixes.
        limit_B: most target tokens of each source (`limits`). A longer prefix is cut there.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]], limit_B: Ints) -> None:
        given = prefixes or [()] * len(limit_B)
        self.length_B = np.array([min(len(ids), most) for ids, most in zip(given, limit_B.tolist(), strict=True)])
        self._longest = int(self.length_B.max())
        self._ids_BP = np.full((len(limit_B), self._longest), PAD_ID)
        for row, ids in zip(self._ids_BP, given, strict=True):
            row[: len(ids)] = ids[: len(row)]

    def are_forced(self, place_B: Ints, length: int) -> Flags | None:
        """Return True for each sentence at these places whose next token after `length` tokens is given.

        None means that no prefix is that long.
        """
        return self.length_B[place_B] > length if length < self._longest else None

    def tokens(self, place_B: Ints, length: int) -> Ints:
        """Return the given token of each sentence at these places, after `length` tokens."""
        token_B: Ints = self._ids_BP[place_B, length]
        return token_B
