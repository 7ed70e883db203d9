"""How long a translation may and must be, what it begins with, and what it may not hold.

Letters in names of arrays: B sentences, R rows of a step, C candidates of a row, P tokens of a prefix.
"""

from collections.abc import Sequence

import numpy as np

from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError
from nmt_core.search.hypothesis import Flags
from nmt_core.search.step import Floats, Ints, Stepper
from nmt_core.tokenizer.tokenizer import EOS_ID, PAD_ID, UNK_ID


def limit(source_tokens: int, config: SearchConfig) -> int:
    """Most target tokens of a source of so many tokens, those of a prefix and end marks not counted."""
    return int(config.max_length_factor * source_tokens) + config.max_length_offset


def limits(source_ids: Sequence[Sequence[int]], config: SearchConfig, prefixes: Sequence[Sequence[int]] = ()) -> Ints:
    """`limit` of each source and the length of its prefix, but not more than any model has positions for: [B]."""
    most, given = config.most_positions - 1, prefixes or [()] * len(source_ids)
    sizes = zip(map(len, source_ids), map(len, given), strict=True)
    return np.array([min(limit(source, config) + prefix, most) for source, prefix in sizes])


def check_positions(config: SearchConfig, positions: int, folder: str) -> None:
    """See that no sequence can be longer than the model has positions.

    Raises:
        ConfigError: one can.
    """
    if config.most_positions > positions:
        raise ConfigError(
            f"search.max_source_tokens={config.max_source_tokens} with search.max_length_factor="
            f"{config.max_length_factor:g} and search.max_length_offset={config.max_length_offset} need "
            f"{config.most_positions:,} positions, but the model in {folder} has {positions:,}: lower one of them"
        )


def candidates(wanted: int, stepper: Stepper, config: SearchConfig) -> int:
    """How many successors to ask for, so that `wanted` are left where the end mark or <unk> is not allowed."""
    return min(wanted + (config.min_length > 0) + (not config.allow_unknown), stepper.vocab_size)


def allowed(step: tuple[Floats, Ints], wanted: int, length: int, config: SearchConfig) -> tuple[Floats, Ints]:
    """The first `wanted` successors of each row; without the end mark, where `length` tokens are too few, and without
    <unk>, if it is not allowed.
    """
    if length < config.min_length:
        step = _without(EOS_ID, step)
    if not config.allow_unknown:
        step = _without(UNK_ID, step)
    log_prob_RC, id_RC = step
    return log_prob_RC[:, :wanted], id_RC[:, :wanted]


def _without(token: int, step: tuple[Floats, Ints]) -> tuple[Floats, Ints]:
    """One successor less of each row: the token, or the last one where it is not among them."""
    log_prob_RC, id_RC = step
    is_other_RC = id_RC != token
    is_other_RC[is_other_RC.all(axis=1), -1] = False
    shape = (len(id_RC), id_RC.shape[1] - 1)
    return log_prob_RC[is_other_RC].reshape(shape), id_RC[is_other_RC].reshape(shape)


class Prefixes:
    """Target tokens with which each translation of a batch has to begin.

    They count neither in the sum of a hypothesis nor in the length that it is divided by: a score is that of what the
    model chose itself, given the prefix. (A step says how likely its best candidates are; a forced token may be any.)

    Args:
        prefixes: ids for each source, or none at all.
        limit_B: most target tokens of each (`limits`); a longer prefix is cut there.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]], limit_B: Ints) -> None:
        given = prefixes or [()] * len(limit_B)
        self.length_B = np.array([min(len(ids), most) for ids, most in zip(given, limit_B.tolist(), strict=True)])
        self._longest = int(self.length_B.max())
        self._ids_BP = np.full((len(limit_B), self._longest), PAD_ID)
        for row, ids in zip(self._ids_BP, given, strict=True):
            row[: len(ids)] = ids[: len(row)]

    def are_forced(self, place_B: Ints, length: int) -> Flags | None:
        """Whether the token after `length` ones is given, for the sentences at these places; None: for none of all."""
        return self.length_B[place_B] > length if length < self._longest else None

    def tokens(self, place_B: Ints, length: int) -> Ints:
        """The tokens that are given."""
        token_B: Ints = self._ids_BP[place_B, length]
        return token_B
