"""How sentences lie in a tensor: padded, one a row, or packed or padded, end to end in one stream.

Letters in names of tensors: B sentences, L positions, N tokens of a stream.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Padded:
    """One sentence a row, [B, L, ...]; what is behind its end is padding."""

    is_token_BL: Tensor | None = None
    """Bool; None: no padding, or none that a query could see."""

    def map(self, change: Callable[[Tensor], Tensor]) -> "Padded":
        """Return the same layout with each tensor changed: moved to another device, or pinned."""
        return Padded(None if self.is_token_BL is None else change(self.is_token_BL))


@dataclass(frozen=True)
class Packed:
    """Sentences end to end in one stream, [N, ...]. Padding at its end counts as further sentences."""

    starts: Tensor
    """Where each sentence begins, and where the last one ends: int32 [B + 1] or more, `cu_seqlens` elsewhere. Further
    entries repeat the end, so that the shape need not depend on the number of sentences."""
    sentence_N: Tensor
    """Which sentence each token belongs to, from 0."""
    position_N: Tensor
    """Which token of its sentence it is, from 0."""
    longest: int
    """Most tokens of a sentence."""
    sentences: int
    """B: sentences, those of no tokens included."""

    def unpack(self, x_N: Tensor) -> tuple[Tensor, Padded]:
        """[N, ...] to [B, longest, ...], and what of that is padding: it holds other sentences' tokens."""
        starts_B1 = self.starts[: self.sentences, None].long()
        ends_B1 = self.starts[1 : self.sentences + 1, None].long()
        place_BL = starts_B1 + torch.arange(self.longest, device=x_N.device)
        # Of a sentence of no tokens, one counts all the same: a softmax over nothing would be no number.
        return x_N[place_BL.clamp(max=len(x_N) - 1)], Padded((place_BL < ends_B1) | (place_BL == starts_B1))

    def map(self, change: Callable[[Tensor], Tensor]) -> "Packed":
        """Return the same layout with each tensor changed: moved to another device, or pinned."""
        starts, sentence_N, position_N = map(change, (self.starts, self.sentence_N, self.position_N))
        return replace(self, starts=starts, sentence_N=sentence_N, position_N=position_N)

    def pack(self, x_BL: Tensor) -> Tensor:
        """[B, longest, ...] to [N, ...]."""
        return x_BL[self.sentence_N, self.position_N]


@dataclass(frozen=True)
class Rows:
    """Padded sentences end to end, [N, ...], and behind them what makes N a multiple of `ROUNDED`.

    A CPU's matrix products in half precision are compiled anew for each number of rows, for milliseconds each. So they
    come in few sizes, whatever the sentences are.
    """

    padded: Padded
    sentences: int
    longest: int
    """L: tokens of a sentence, padding included."""
    position_N: Tensor
    """Which token of its sentence it is, from 0."""

    ROUNDED: ClassVar[int] = 256

    @classmethod
    def of(cls, padded: Padded, sentences: int, longest: int) -> "Rows":
        """Rows of so many sentences of one length."""
        tokens = sentences * longest
        return cls(padded, sentences, longest, torch.arange(tokens + -tokens % cls.ROUNDED) % longest)

    def unpack(self, x_N: Tensor) -> tuple[Tensor, Padded]:
        """[N, ...] to [B, L, ...], and what of that is padding."""
        return x_N[: self.sentences * self.longest].view(self.sentences, self.longest, *x_N.shape[1:]), self.padded

    def pack(self, x_BL: Tensor) -> Tensor:
        """[B, L, ...] to [N, ...]."""
        x = x_BL.flatten(0, 1)
        return F.pad(x, (0, 0) * (x.dim() - 1) + (0, -len(x) % self.ROUNDED))


Layout = Padded | Packed | Rows
