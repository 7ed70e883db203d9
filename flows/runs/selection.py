"""Steps that a run includes: `--from`, `--until` and `--force`. This module imports nothing slow."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from nmt_core.errors import ConfigError
from nmt_core.stages import StageName

if TYPE_CHECKING:
    from nmt_core.config import PipelineConfig

StepName = Literal[StageName, "register"]
"""Name of a stage, or of the last step, registration."""

REGISTER: StepName = "register"
STEPS: tuple[StepName, ...] = get_args(StepName)


@dataclass(frozen=True)
class Selection:
    """Steps of one run."""

    first: StepName = STEPS[0]
    """First step. Earlier steps are never run, and their artifacts must exist."""
    last: StepName = STEPS[-1]
    force: tuple[StepName, ...] = ()
    """Stages that run again even if their artifacts exist."""

    def __post_init__(self) -> None:
        for name in (self.first, self.last, *self.force):
            if name not in STEPS:
                raise ConfigError(f"{name!r} is not a stage: choose one of {', '.join(STEPS)}")
        if STEPS.index(self.first) > STEPS.index(self.last):
            raise ConfigError(f"--from {self.first} comes after --until {self.last}: swap them")
        for name in self.force:
            if name == REGISTER:
                raise ConfigError("--force register: a model is registered only once: force evaluate or export instead")
            if not self.includes(name):
                raise ConfigError(
                    f"--force {name}: the stage is not in {self.first} to {self.last}: change --from or --until"
                )

    def includes(self, name: str) -> bool:
        """Return True if the run includes the step."""
        return STEPS.index(self.first) <= STEPS.index(name) <= STEPS.index(self.last)

    def begins_after(self, name: str) -> bool:
        """Return True if the run begins after this step."""
        return STEPS.index(name) < STEPS.index(self.first)

    def check(self, config: "PipelineConfig") -> None:
        """Check that the recipe has the named stages, and that training saves as many checkpoints as `average` needs.

        Raises:
            ConfigError: The recipe has no such stage, or too few checkpoints are saved.
        """
        from nmt_core.stages.table import STAGES

        for name in (self.first, self.last, *self.force):
            if name in STAGES and not STAGES[name].is_part_of(config):
                raise ConfigError(
                    f"recipe {config.name} has no stage {name}: set {STAGES[name].needed_by}, or name another stage"
                )
        train, average = config.train, config.average
        saved = -(-train.max_updates // train.checkpoint_every)  # the last one where training ends
        trains = self.includes("train") and self.includes("average")
        if trains and average.strategy != "ema" and average.checkpoints > saved:
            raise ConfigError(
                f"average.checkpoints={average.checkpoints}: with train.checkpoint_every={train.checkpoint_every} "
                f"train.max_updates={train.max_updates} leave {saved}: set {_enough_checkpoints(config)}"
            )


def _enough_checkpoints(config: "PipelineConfig") -> str:
    """Return the options, with their values, that leave as many checkpoints as are averaged."""
    train, average = config.train, config.average
    saved = -(-train.max_updates // train.checkpoint_every)
    fewest = max(1, average.checkpoints - 1)  # before the checkpoint at the end of training
    every = (train.max_updates - 1) // fewest
    options = {"train.checkpoint_every": every}
    if train.keep_best and every > train.validate_every:  # every checkpoint needs a score
        options["train.checkpoint_every"] = every - every % train.validate_every
    elif train.keep_best:
        options["train.validate_every"] = every
    fewer = f"average.checkpoints={saved}"
    return f"{' and '.join(f'{name}={value}' for name, value in options.items())}, or {fewer}" if every else fewer
