"""Collate pairs of token ids into the padded or packed tensors of a forward pass.

Letters: see `nmt_core.models`. Tensors without letters are [B, L] where sentences are padded and [N] where they are
packed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nmt_core.batches.layout import Packed, Padded
from nmt_core.batches.plan import Capacity
from nmt_core.batches.shards import SideTokens, TokenPairs
from nmt_core.tokenizer.tokenizer import BOS_ID, PAD_ID

_NOTHING = -1
"""Value of `Batch.aligned` where nothing is to be learned."""
_LONGEST_PADDING = 256
"""Most tokens of a sentence of padding. The padding at the end of a stream is cut into such sentences."""


@dataclass(frozen=True)
class Batch:
    """Tensors of one forward pass."""

    source: Tensor
    """Source ids. Each sentence ends with </s>."""
    decoder_input: Tensor
    """Target ids shifted right: each sentence begins with <s> and lacks its last id."""
    target: Tensor
    """Target ids to predict. Each sentence ends with </s>."""
    source_layout: Padded | Packed
    target_layout: Padded | Packed
    aligned: Tensor | None = None
    """Source position that the token of the decoder's input is linked with, or -1 where nothing is to be learned: at
    <s> and at padding. None if the pairs are not aligned."""

    @property
    def computed_tokens(self) -> int:
        """Number of tokens of both sides, padding included."""
        return self.source.numel() + self.target.numel()

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on another device. The host does not wait for copies from pinned memory to a GPU."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> "Batch":
        """Return the batch in pinned memory, from which a GPU copies by itself."""
        return self._map(Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        source, decoder_input, target = map(change, (self.source, self.decoder_input, self.target))
        layouts = self.source_layout.map(change), self.target_layout.map(change)
        return Batch(source, decoder_input, target, *layouts, None if self.aligned is None else change(self.aligned))


def pad(pairs: TokenPairs, rows: np.ndarray) -> Batch:
    """Return a batch of these pairs, with each side padded to its longest sentence."""
    source_BL, target_BL = (_padded(side, rows) for side in (pairs.source, pairs.target))
    decoder_input_BL = np.full_like(target_BL, PAD_ID)
    decoder_input_BL[:, 0] = BOS_ID
    decoder_input_BL[:, 1:] = np.where(target_BL[:, 1:] == PAD_ID, PAD_ID, target_BL[:, :-1])
    # NumPy: PyTorch would give the loader's thread a pool of threads (see `is_alone` in `train/distributed.py`).
    is_token_BL = torch.from_numpy(source_BL != PAD_ID)
    source, decoder_input, target = (torch.from_numpy(ids_BL) for ids_BL in (source_BL, decoder_input_BL, target_BL))
    return Batch(source, decoder_input, target, Padded(is_token_BL), Padded(), _aligned(pairs.links, rows, target_BL))


def _aligned(links: SideTokens | None, rows: np.ndarray, target_BL: np.ndarray) -> Tensor | None:
    """Return `Batch.aligned` of padded pairs."""
    if links is None:
        return None
    aligned_BL = np.full_like(target_BL, _NOTHING)
    linked_BL = _padded(links, rows)
    aligned_BL[:, 1:] = np.where(target_BL[:, 1:] == PAD_ID, _NOTHING, linked_BL[:, :-1])
    return torch.from_numpy(aligned_BL)


def pack(parts: Sequence[tuple[TokenPairs, np.ndarray]], capacity: Capacity) -> Batch:
    """Return a batch of pairs from several blocks, packed: each side is one stream, filled up with padding.

    Args:
        parts: pairs of each block, and the indices of the pairs to take.
        capacity: lengths of the streams. The caller makes sure that the sentences fit.
    """
    most_sentences = max(capacity.source, capacity.target)
    source_N, source_layout = _stream([(pairs.source, rows) for pairs, rows in parts], capacity.source, most_sentences)
    target_N, target_layout = _stream([(pairs.target, rows) for pairs, rows in parts], capacity.target, most_sentences)
    first_N = target_layout.position_N.numpy() == 0
    decoder_input_N = np.where(first_N, BOS_ID, np.roll(target_N, 1))
    # The decoder attends to the sentence of the same number, so both sides need equally many, padding included.
    sentences = max(source_layout.sentences, target_layout.sentences)
    links = [_ids(pairs.links, rows) for pairs, rows in parts if pairs.links]
    aligned_N = np.full_like(target_N, _NOTHING)
    if links:
        linked_N = np.concatenate(links)
        aligned_N[1 : len(linked_N)] = linked_N[:-1]
        aligned_N[first_N] = _NOTHING
    return Batch(
        torch.from_numpy(source_N),
        torch.from_numpy(decoder_input_N),
        torch.from_numpy(target_N),
        replace(source_layout, sentences=sentences),
        replace(target_layout, sentences=sentences),
        torch.from_numpy(aligned_N) if links else None,
    )


def _padded(side: SideTokens, rows: np.ndarray) -> np.ndarray:
    """Return the ids of some sentences, padded, int64 [B, L]."""
    lengths_B = side.lengths[rows]
    inside_BL = np.arange(lengths_B.max(initial=0)) < lengths_B[:, None]
    padded_BL = np.full(inside_BL.shape, PAD_ID, dtype=np.int64)
    padded_BL[inside_BL] = _ids(side, rows)
    return padded_BL


def _ids(side: SideTokens, rows: np.ndarray) -> np.ndarray:
    """Return the ids of some sentences, concatenated."""
    lengths_B = side.lengths[rows]
    first_of_row = np.cumsum(lengths_B) - lengths_B
    place_N = np.repeat(side.starts[rows] - first_of_row, lengths_B) + np.arange(lengths_B.sum())
    ids_N: np.ndarray = side.ids[place_N]
    return ids_N


def _stream(
    parts: Sequence[tuple[SideTokens, np.ndarray]], capacity: int, most_sentences: int
) -> tuple[np.ndarray, Packed]:
    """Return the ids, int64 [capacity], and the layout of a stream. Padding is cut into sentences of its own."""
    lengths = [side.lengths[rows] for side, rows in parts]
    padding = capacity - sum(int(lengths_of_side.sum()) for lengths_of_side in lengths)
    ids_N = np.concatenate([*(_ids(side, rows) for side, rows in parts), np.full(padding, PAD_ID)]).astype(np.int64)
    tail = [min(_LONGEST_PADDING, padding - start) for start in range(0, padding, _LONGEST_PADDING)]
    lengths_B = np.concatenate([*lengths, np.array(tail, np.int64)])
    starts = np.concatenate([[0], np.cumsum(lengths_B)])
    sentence_N = np.repeat(np.arange(len(lengths_B)), lengths_B)
    starts_of_most = np.full(most_sentences + 1, capacity, np.int32)
    starts_of_most[: len(starts)] = starts
    layout = Packed(
        torch.from_numpy(starts_of_most),
        torch.from_numpy(sentence_N),
        torch.from_numpy(np.arange(capacity) - starts[sentence_N]),
        int(lengths_B.max()),
        len(lengths_B),
    )
    return ids_N, layout
