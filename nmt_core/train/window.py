"""Sum losses and tokens between two points of the curves."""

import time
from dataclasses import dataclass, field

from torch import Tensor

from nmt_core.batches.loader import Pass
from nmt_core.train.distributed import World


@dataclass
class Window:
    """Sums of this process since the last point of the curves."""

    plain_loss: Tensor | float = 0.0
    """Sum of the unsmoothed loss, in nats. It is a tensor, so that the passes of an update do not wait for the GPU."""
    target_tokens: float = 0.0
    """Number of target tokens."""
    tokens: float = 0.0
    """Number of source and target tokens."""
    padded_tokens: float = 0.0
    """Number of computed tokens, padding included."""
    gradient_norm: Tensor | float = 0.0
    """Norm of the gradient of the last update, before clipping."""
    first_update: int = 0
    """Number of updates before the window."""
    waited_before: float = 0.0
    """Seconds spent waiting for the loader before the window."""
    start: float = field(default_factory=time.monotonic)
    """Start of the window in seconds of the monotonic clock, later by the time of validations."""

    def add(self, done: Pass, plain_loss: Tensor) -> None:
        """Count one forward pass."""
        self.plain_loss = self.plain_loss + plain_loss.double()
        self.target_tokens += done.target_tokens
        self.tokens += done.source_tokens + done.target_tokens
        self.padded_tokens += done.batch.computed_tokens

    def restore(self, sums: list[float]) -> None:
        """Restore the sums of `sums`."""
        self.plain_loss, self.target_tokens, self.tokens, self.padded_tokens = sums

    def sums(self, world: World) -> list[float]:
        """Return loss, target tokens, tokens, and tokens with padding, summed over all processes."""
        return world.sum(float(self.plain_loss), self.target_tokens, self.tokens, self.padded_tokens)
