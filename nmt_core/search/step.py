"""Protocol between a search and a model, in numpy, for PyTorch, ONNX Runtime or a reference. Imports no torch.

Letters: see `nmt_core.models`.
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
    """Decoding of one batch. It belongs to one thread."""

    def step(self, tokens_R: Ints, parents_R: Ints) -> tuple[Floats, Ints]:
        """Read one token per row, and return its possible successors.

        Args:
            tokens_R: ids. R is a multiple of the number of sentences in the batch.
            parents_R: for each row, the row of the previous step that it continues. At the first step every sentence
                has one row, nothing is continued, and this is 0, 1, ... B - 1.

        Returns:
            Log-probabilities in nats [R, C], best first, and their ids [R, C]. If the whole vocabulary was requested,
            they may be in the order of the ids instead.
        """

    def keep(self, sentences: Ints) -> None:
        """Remove all other sentences from the batch.

        The next step's `parents_R` still counts the rows of the previous step, including the rows of removed sentences.

        Args:
            sentences: places of the sentences to keep in the batch as it is now, in ascending order.
        """


class Stepper(Protocol):
    """Model that decodes step by step. Threads may share it."""

    @property
    def vocab_size(self) -> int:
        """Number of pieces of the vocabulary: the most candidates that a step can return."""

    def start(self, source_BS: Ints, candidates: int) -> Decoding:
        """Encode a batch.

        Args:
            source_BS: source ids, end marks included, padded at the end.
            candidates: number of successors that each step returns (C).
        """


@dataclass(frozen=True)
class Listed:
    """Pieces that the translations of a batch may contain, if not the whole vocabulary (`shortlist.py`)."""

    ids_WE: Ints
    """Ids of the pieces in ascending order, the special ones included, filled up with `PAD_ID` at the end."""
    penalty_BWE: Floats
    """Penalty of each piece in each sentence: 0, or minus infinity for pieces that the sentence may not use and for
    those that fill the list up."""


class ListedStepper(Protocol):
    """Stepper that can be restricted to a list."""

    @property
    def vocab_size(self) -> int:
        """Number of pieces of the vocabulary."""

    def start(self, source_BS: Ints, candidates: int, listed: Listed) -> Decoding:
        """Encode a batch (see `Stepper.start`).

        The steps return places in the list instead of ids, and log-probabilities among the pieces of the sentence's
        list.
        """


def pad_sources(source_ids: Sequence[Sequence[int]]) -> Ints:
    """Add the end mark to each source, and pad at the end. Return [B, S]."""
    longest = max(len(ids) for ids in source_ids) + 1
    source_BS = np.full((len(source_ids), longest), PAD_ID, dtype=np.int64)
    for row, ids in zip(source_BS, source_ids, strict=True):
        row[: len(ids)] = ids
        row[len(ids)] = EOS_ID
    return source_BS
