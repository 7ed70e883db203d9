"""`rounds`: models that make text for each other in turn."""

from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from nmt_core.config.section import Section, later
from nmt_core.config.synthesis import REVERSE

if TYPE_CHECKING:
    from nmt_core.config.pipeline import PipelineConfig


class RoundsConfig(Section):
    """Rounds of back-translation. Each round trains a model of the other direction and then one of this direction, or
    one model for many pairs of languages."""

    count: int = later(0, ge=0, le=20)
    """Number of rounds. In the first one, the model of the other direction is trained on parallel text alone. In every
    later one, it also reads text that this direction's last model made (Hoang et al. 2018, "Iterative Back-Translation
    for Neural Machine Translation"). A model for many pairs of languages is trained on parallel text alone in the
    first round, and also on text of the last round's model in every later one. 0 trains the model of this recipe
    alone."""
    other_direction: str = later("")
    """Recipe of the model of the other direction, by name or path. Parts of `synthesis` in both recipes name the newest
    model of the respective other direction as `teachers: reverse`. Empty means that there are no rounds, or that the
    recipe is for many pairs of languages, and its newest model is `reverse`."""

    @model_validator(mode="before")
    @classmethod
    def _take_a_number_alone(cls, values: Any) -> Any:
        is_number = isinstance(values, int) and not isinstance(values, bool)
        return {"count": values} if is_number else values


def problem_of_rounds(config: "PipelineConfig") -> str:
    """Return what is wrong with the rounds of a recipe, with the remedy, or an empty string."""
    count, other = config.rounds.count, config.rounds.other_direction
    pairs = config.languages.pairs
    if not count:
        return ""
    if not pairs and not other:
        return f"rounds: count={count} needs the recipe of the other direction: set rounds.other_direction"
    if pairs and other:
        return f"rounds.other_direction={other}: with languages.pairs, one model teaches itself: remove the option"
    if pairs and count == 1:
        return (
            "rounds.count=1: the first round of a model for many pairs of languages has no teacher, so there is no "
            "text to learn from: set 2 or more, or 0 for no rounds"
        )
    made = [part for part in config.synthesis.parts if REVERSE in part.teachers]
    if not made:
        return (
            f"rounds.count={count}: no part of synthesis.parts has `teachers: {REVERSE}`, so no round would differ "
            "from the one before: add one, or set rounds.count to 0"
        )
    for part in made:
        needed = "-".join(reversed(part.pair.split("-")))
        if pairs and needed not in pairs:
            return (
                f"synthesis: the part {part.name} has `teachers: {REVERSE}`, but the model does not learn {needed}: "
                "add it to languages.pairs, or name another teacher"
            )
    return ""
