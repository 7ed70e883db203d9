"""Which part of the path a run takes: `--from`, `--until` and `--force`. Imports nothing slow."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from nmt_core.errors import ConfigError
from nmt_core.stages import StageName

if TYPE_CHECKING:
    from nmt_core.config import PipelineConfig

StepName = Literal[StageName, "register"]
"""Name of a stage, or of the last step: registration."""

REGISTER: StepName = "register"
STEPS: tuple[StepName, ...] = get_args(StepName)


@dataclass(frozen=True)
class Selection:
    """The steps of one run."""

    first: StepName = STEPS[0]
    """Steps before it are never run: what the others need of them must have been made."""
    last: StepName = STEPS[-1]
    force: tuple[StepName, ...] = ()
    """Stages that run even if they have been made."""

    def __post_init__(self) -> None:
        if STEPS.index(self.first) > STEPS.index(self.last):
            raise ConfigError(f"--from {self.first} comes after --until {self.last}: exchange them")
        for name in self.force:
            if name == REGISTER:
                raise ConfigError("--force register: the same model is registered once; force evaluate or export")
            if not self.includes(name):
                raise ConfigError(f"--force {name}: it lies outside {self.first} to {self.last}: widen them")

    def includes(self, name: str) -> bool:
        """Whether the step is made or reused."""
        return STEPS.index(self.first) <= STEPS.index(name) <= STEPS.index(self.last)

    def begins_after(self, name: str) -> bool:
        """Whether the run begins after this step."""
        return STEPS.index(name) < STEPS.index(self.first)

    def check(self, config: "PipelineConfig") -> None:
        """See to it that what the run trains can be averaged, before it trains for days.

        Raises:
            ConfigError: training saves fewer checkpoints than `average` wants.
        """
        train, average = config.train, config.average
        saved = -(-train.max_updates // train.checkpoint_every)  # the last one where training ends
        trains = self.includes("train") and self.includes("average")
        if trains and average.strategy != "ema" and average.checkpoints > saved:
            raise ConfigError(
                f"average.checkpoints={average.checkpoints}: with train.checkpoint_every={train.checkpoint_every} "
                f"train.max_updates={train.max_updates} leave {saved}: set it lower, or lower train.checkpoint_every"
            )
