"""What is summed between two points of the curves."""

import time
from dataclasses import dataclass, field

from torch import Tensor

from nmt_core.batches.loader import Pass
from nmt_core.train.distributed import World


@dataclass
class Window:
    """Sums since the last point of the curves."""

    plain_loss: Tensor | float = 0.0
    """A tensor, so that a GPU need not be waited for between the passes of an update."""
    target_tokens: float = 0.0
    tokens: float = 0.0
    padded_tokens: float = 0.0
    gradient_norm: Tensor | float = 0.0
    """Of the last update, before clipping."""
    first_update: int = 0
    waited_before: float = 0.0
    """Seconds that the loader had kept us waiting until then."""
    start: float = field(default_factory=time.monotonic)

    def add(self, done: Pass, plain_loss: Tensor) -> None:
        """Count one forward pass."""
        self.plain_loss = self.plain_loss + plain_loss.double()
        self.target_tokens += done.target_tokens
        self.tokens += done.source_tokens + done.target_tokens
        self.padded_tokens += done.batch.computed_tokens

    def restore(self, sums: list[float]) -> None:
        """Begin with sums that were counted before."""
        self.plain_loss, self.target_tokens, self.tokens, self.padded_tokens = sums

    def sums(self, world: World) -> list[float]:
        """Loss, target tokens, tokens, and tokens with padding, over all processes."""
        return world.sum(float(self.plain_loss), self.target_tokens, self.tokens, self.padded_tokens)
