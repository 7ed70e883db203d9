"""Trainings of a run with rounds: both directions in turn, each with the newest model of the other one as teacher.

A model for many pairs of languages, which knows both directions, is trained again with its last self as teacher.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from nmt_core.config import REVERSE, AugmentationConfig, PipelineConfig, RoundsConfig, SynthesisConfig, SyntheticPart
from nmt_core.errors import ConfigError
from nmt_core.recipes.recipe import load_recipe


@dataclass(frozen=True)
class Training:
    """Training of one model in a run with rounds."""

    round: int
    """Number of its round, from 1. 0 in a run without rounds."""
    config: PipelineConfig
    """Recipe of its direction, without rounds."""

    @property
    def direction(self) -> str:
        """Languages that its model translates from and into, such as `en-de`, or `all pairs` of many."""
        if self.config.languages.pairs:
            return "all pairs"
        return "-".join(self.config.languages.tag(side) for side in ("source", "target"))

    def taught_by(self, bundle: str) -> PipelineConfig:
        """Return the recipe with a bundle as the teacher `reverse`.

        Args:
            bundle: folder of the newest model that can teach. Empty means that there is none yet: the recipe
                is then without the parts that this teacher would translate, and without a curriculum that reads them.

        Raises:
            ConfigError: the recipe has no other text to train on.
        """
        config = self.config
        if bundle:
            parts = [
                part.model_copy(update={"teachers": (bundle,)}) if REVERSE in part.teachers else part
                for part in config.synthesis.parts
            ]
            return config.model_copy(update={"synthesis": _with_parts(config, parts)})
        dropped = {part.name for part in config.synthesis.parts if REVERSE in part.teachers}
        parts = [part for part in config.synthesis.parts if part.name not in dropped]
        if not parts and not config.synthesis.train_on_parallel:
            raise ConfigError(
                f"recipe {config.name}: round 1 begins with this recipe, which has no text without synthetic text: "
                "set synthesis.train_on_parallel to true"
            )
        mix = config.mix.model_copy(
            update={"corpora": tuple(rule for rule in config.mix.corpora if rule.corpus not in dropped)}
        )
        augmentation = _without(config, dropped)
        dropped |= {part.name for part in config.augmentation.parts} - {part.name for part in augmentation.parts}
        reads_dropped = any(dropped & phase.corpora.keys() for phase in config.train.curriculum)
        train = config.train.model_copy(update={"curriculum": ()}) if reads_dropped else config.train
        changes = {"synthesis": _with_parts(config, parts), "mix": mix, "train": train}
        return config.model_copy(update=changes | {"augmentation": augmentation})


def trainings(config: PipelineConfig) -> list[Training]:
    """Return the trainings of a run of a recipe, in order. The last one is of the recipe itself.

    Raises:
        ConfigError: the recipe of the other direction cannot be read, or translates between other languages.
    """
    count = config.rounds.count
    forward = config.model_copy(update={"rounds": RoundsConfig()})
    if not count:
        return [Training(0, forward)]
    if config.languages.pairs:
        return [Training(number, forward) for number in range(1, count + 1)]
    try:
        backward = load_recipe(config.rounds.other_direction).model_copy(update={"rounds": RoundsConfig()})
    except ConfigError as error:
        raise ConfigError(f"rounds.other_direction: {error}") from None
    ours, theirs = ([one.languages.tag(side) for side in ("source", "target")] for one in (forward, backward))
    if ours != theirs[::-1]:
        raise ConfigError(
            f"rounds.other_direction={config.rounds.other_direction} translates {theirs[0]} into {theirs[1]}, but the "
            f"other direction of {config.name} is from {ours[1]} into {ours[0]}: name a recipe of that direction"
        )
    if forward.model_name == backward.model_name:
        raise ConfigError(
            f"rounds.other_direction={config.rounds.other_direction}: both directions register their models as "
            f"{forward.model_name}: give one another name, or another registry.model_name"
        )
    return [Training(number, one) for number in range(1, count + 1) for one in (backward, forward)]


def _with_parts(config: PipelineConfig, parts: Sequence[SyntheticPart]) -> SynthesisConfig:
    return config.synthesis.model_copy(update={"parts": tuple(parts)})


def _without(config: PipelineConfig, dropped: Set[str]) -> AugmentationConfig:
    """Return the augmentation of a recipe without the copies of corpora that are dropped."""
    parts = []
    for part in config.augmentation.parts:
        corpora = tuple(name for name in part.corpora if name not in dropped)
        if corpora or not part.corpora:
            parts.append(part.model_copy(update={"corpora": corpora}))
    return config.augmentation.model_copy(update={"parts": tuple(parts)})
