"""Layouts of sentences in a tensor: padded with one sentence a row, or concatenated into one stream.

Letters: see `nmt_core.models`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Padded:
    """Layout with one sentence a row, [B, L, ...]. Padding follows the end of each sentence."""

    is_token_BL: Tensor | None = None
    """True for tokens and False for padding. None means that there is no padding, or none that a query could see."""

    def map(self, change: Callable[[Tensor], Tensor]) -> "Padded":
        """Return the same layout with each tensor changed: moved to another device, or pinned."""
        return Padded(None if self.is_token_BL is None else change(self.is_token_BL))


@dataclass(frozen=True)
class Packed:
    """Layout with sentences concatenated into one stream, [N, ...]. Padding at its end counts as more sentences."""

    starts: Tensor
    """Start of each sentence, and end of the last one: int32 [B + 1] or longer (`cu_seqlens` in other libraries). Extra
    entries repeat the end, so that the shape need not depend on the number of sentences."""
    sentence_N: Tensor
    """Number of the sentence of each token, from 0."""
    position_N: Tensor
    """Position of each token in its sentence, from 0."""
    longest: int
    """Number of tokens of the longest sentence."""
    sentences: int
    """Number of sentences (B), empty ones included."""

    def unpack(self, x_N: Tensor) -> tuple[Tensor, Padded]:
        """Convert [N, ...] to [B, longest, ...], and return it with its layout.

        Places of padding hold tokens of other sentences.
        """
        starts_B1 = self.starts[: self.sentences, None].long()
        ends_B1 = self.starts[1 : self.sentences + 1, None].long()
        place_BL = starts_B1 + torch.arange(self.longest, device=x_N.device)
        # One token of an empty sentence counts as well: a softmax over nothing would be NaN.
        return x_N[place_BL.clamp(max=len(x_N) - 1)], Padded((place_BL < ends_B1) | (place_BL == starts_B1))

    def map(self, change: Callable[[Tensor], Tensor]) -> "Packed":
        """Return the same layout with each tensor changed: moved to another device, or pinned."""
        starts, sentence_N, position_N = map(change, (self.starts, self.sentence_N, self.position_N))
        return replace(self, starts=starts, sentence_N=sentence_N, position_N=position_N)

    def pack(self, x_BL: Tensor) -> Tensor:
        """Convert [B, longest, ...] to [N, ...]."""
        return x_BL[self.sentence_N, self.position_N]


@dataclass(frozen=True)
class Rows:
    """Layout with padded sentences concatenated, [N, ...], and filled up so that N is a multiple of `ROUNDED`.

    A CPU compiles matrix products in half precision anew for each number of rows, in milliseconds each. Rounding keeps
    the number of sizes small, whatever the sentences are.
    """

    padded: Padded
    sentences: int
    longest: int
    """Number of tokens of a sentence (L), padding included."""
    position_N: Tensor
    """Position of each token in its sentence, from 0."""

    ROUNDED: ClassVar[int] = 256

    @classmethod
    def of(cls, padded: Padded, sentences: int, longest: int) -> "Rows":
        """Return the layout of this many sentences of one length."""
        tokens = sentences * longest
        return cls(padded, sentences, longest, torch.arange(tokens + -tokens % cls.ROUNDED) % longest)

    def unpack(self, x_N: Tensor) -> tuple[Tensor, Padded]:
        """Convert [N, ...] to [B, L, ...], and return it with its layout."""
        return x_N[: self.sentences * self.longest].view(self.sentences, self.longest, *x_N.shape[1:]), self.padded

    def pack(self, x_BL: Tensor) -> Tensor:
        """Convert [B, L, ...] to [N, ...]."""
        x = x_BL.flatten(0, 1)
        return F.pad(x, (0, 0) * (x.dim() - 1) + (0, -len(x) % self.ROUNDED))


Layout = Padded | Packed | Rows
