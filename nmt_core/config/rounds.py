"""`rounds`: models of both directions, which make text for each other in turn."""

from typing import Any

from pydantic import model_validator

from nmt_core.config.section import Section, later


class RoundsConfig(Section):
    """Rounds of back-translation. Each round trains a model of the other direction and then one of this direction."""

    count: int = later(0, ge=0, le=20)
    """Number of rounds. In the first one, the model of the other direction is trained on parallel text alone. In every
    later one, it also reads text that this direction's last model made (Hoang et al. 2018, "Iterative Back-Translation
    for Neural Machine Translation"). 0 trains the model of this recipe alone."""
    other_direction: str = later("")
    """Recipe of the model of the other direction, by name or path. Parts of `synthesis` in both recipes name the newest
    model of the respective other direction as `teachers: reverse`. Empty means that there are no rounds."""

    @model_validator(mode="before")
    @classmethod
    def _take_a_number_alone(cls, values: Any) -> Any:
        is_number = isinstance(values, int) and not isinstance(values, bool)
        return {"count": values} if is_number else values

    @model_validator(mode="after")
    def _has_two_directions(self) -> "RoundsConfig":
        if self.count and not self.other_direction:
            raise ValueError(f"count={self.count} needs the recipe of the other direction: set rounds.other_direction")
        return self
