"""Rows of token shards to padded tensors.

Letters in names of arrays: B sentences, S source positions, T target positions, L either.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nmt_core.batches.shards import Side, TokenPairs
from nmt_core.tokenizer.tokenizer import BOS_ID, PAD_ID


@dataclass(frozen=True)
class Batch:
    """One forward pass."""

    source_BS: Tensor
    """Source ids, each row ending in </s>, padded behind."""
    decoder_input_BT: Tensor
    """Target ids shifted right: <s> first, the last id missing."""
    target_BT: Tensor
    """Target ids to predict, each row ending in </s>, padded behind."""

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        tensors = (self.source_BS, self.decoder_input_BT, self.target_BT)
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in tensors))


def collate(pairs: TokenPairs, rows: np.ndarray) -> Batch:
    """Padded tensors of these rows."""
    target_BT = _pad(pairs.target, rows)
    decoder_input_BT = np.full_like(target_BT, PAD_ID)
    decoder_input_BT[:, 0] = BOS_ID
    decoder_input_BT[:, 1:] = np.where(target_BT[:, 1:] == PAD_ID, PAD_ID, target_BT[:, :-1])
    return Batch(
        torch.from_numpy(_pad(pairs.source, rows)), torch.from_numpy(decoder_input_BT), torch.from_numpy(target_BT)
    )


def _pad(side: Side, rows: np.ndarray) -> np.ndarray:
    """[B, L] int64."""
    lengths = side.lengths[rows]
    inside_BL = np.arange(lengths.max(initial=0)) < lengths[:, None]
    first_of_row = np.cumsum(lengths) - lengths
    place = np.repeat(side.starts[rows] - first_of_row, lengths) + np.arange(lengths.sum())
    padded_BL = np.full(inside_BL.shape, PAD_ID, dtype=np.int64)
    padded_BL[inside_BL] = side.ids[place]
    return padded_BL
