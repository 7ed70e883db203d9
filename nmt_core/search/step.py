"""What a search asks of a model, in numpy, whether PyTorch, ONNX Runtime or a reference computes it. Imports no torch.

Letters in names of arrays: B sentences, K beams of a sentence, R rows (R = B * K, those of one sentence side by side),
S source positions, C candidates, W blocks of a list of pieces, E pieces of a block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nmt_core.tokenizer.tokenizer import EOS_ID, PAD_ID

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class Decoding(Protocol):
    """One batch on its way. It belongs to one thread."""

    def step(self, tokens_R: Ints, parents_R: Ints) -> tuple[Floats, Ints]:
        """Read one token per row, and say what may follow.

        Args:
            tokens_R: ids; R is a multiple of the number of sentences in the batch.
            parents_R: for each row, the row of the step before that it continues. At the first step, where every
                sentence has one row, nothing is continued and this is 0, 1, ... B - 1.

        Returns:
            Log-probabilities in nats [R, C], best first, and the ids that they belong to [R, C]. Who has asked for the
            whole vocabulary may get them in the order of the ids.
        """

    def keep(self, sentences: Ints) -> None:
        """Let all other sentences leave the batch; places are those of the batch as it is now, in rising order.

        The next step's `parents_R` still counts the rows of the step before, leavers included.
        """


class Stepper(Protocol):
    """A model that can be asked step by step. Threads may share it."""

    @property
    def vocab_size(self) -> int:
        """Pieces of the vocabulary: the most candidates that a step can return."""

    def start(self, source_BS: Ints, candidates: int) -> Decoding:
        """Encode a batch.

        Args:
            source_BS: source ids, end marks included, padded at the end.
            candidates: C, how many successors each step returns.
        """


@dataclass(frozen=True)
class Listed:
    """What may be said in a batch, if not any piece of the vocabulary (`shortlist.py`)."""

    ids_WE: Ints
    """In rising order, the special ones among them; filled up with `PAD_ID` at the end."""
    penalty_BWE: Floats
    """Of these in each sentence: 0, or minus infinity for what it must not hold, and for what fills the list up."""


class ListedStepper(Protocol):
    """A stepper that can be held to a list."""

    @property
    def vocab_size(self) -> int:
        """Pieces of the vocabulary."""

    def start(self, source_BS: Ints, candidates: int, listed: Listed) -> Decoding:
        """As `Stepper.start`, but the steps return places in the list in place of ids, and tell how likely the pieces
        are among those of the sentence's list.
        """


def pad_sources(source_ids: Sequence[Sequence[int]]) -> Ints:
    """Add the end mark to each source and pad at the end: [B, S]."""
    longest = max(len(ids) for ids in source_ids) + 1
    source_BS = np.full((len(source_ids), longest), PAD_ID, dtype=np.int64)
    for row, ids in zip(source_BS, source_ids, strict=True):
        row[: len(ids)] = ids
        row[len(ids)] = EOS_ID
    return source_BS
