"""Describe the machine that trains, and forecast how long it takes."""

from dataclasses import dataclass

from nmt_core.config.budget import SECONDS_PER_HOUR
from nmt_core.errors import counted

_CORE_FLOPS = 60e9
"""Operations a second of one core in training.

By the record of the benchmarks: the quickstart 64e9, multi30k-en-de 56e9 beside other work, 256 wide in fp32 93e9.
"""
_GPU_FLOPS = 70e12
"""Operations a second of one GPU in training. An H200 reached 276e12 with the base Transformer."""
_FORWARD_AND_BACKWARD = 6


@dataclass(frozen=True)
class Machine:
    """Resources of a machine."""

    cores: int
    memory: int
    """Bytes of memory."""
    gpus: int

    @property
    def shown(self) -> str:
        """Description in words."""
        cores = counted(self.cores, "core")
        gpus = {0: "no GPU", 1: "1 GPU"}.get(self.gpus, f"{self.gpus} GPUs")
        return f"{cores}, {self.memory / 1e9:,.0f} GB of memory, {gpus}"

    @property
    def flops(self) -> float:
        """Operations a second in training, roughly."""
        return self.gpus * _GPU_FLOPS if self.gpus else self.cores * _CORE_FLOPS

    def hours(self, weights: int, tokens: float) -> float:
        """Return the hours in which a model of this size reads this many target tokens, within a factor of two."""
        return _FORWARD_AND_BACKWARD * weights * tokens / self.flops / SECONDS_PER_HOUR
