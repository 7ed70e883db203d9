"""The steps of a run that `--from`, `--until` and `--force` select."""

import pytest

from flows.runs.selection import STEPS, Selection
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.stages.table import STAGES


def test_the_steps_are_the_stages_and_registration() -> None:
    assert (*STAGES, "register") == STEPS


def test_everything_is_included_unless_told_otherwise() -> None:
    assert all(Selection().includes(step) for step in STEPS)
    part = Selection("split", "train")
    assert [step for step in STEPS if part.includes(step)] == [
        "split",
        "synthesise",
        "augment",
        "tokenizer",
        "encode",
        "train",
    ]
    assert [step for step in STEPS if part.begins_after(step)] == ["download", "clean"]


def test_a_stage_that_the_recipe_lacks_is_refused() -> None:
    config = PipelineConfig.model_validate({"name": "toy", "corpus": {"toy": {}}})
    for selection in (Selection(last="synthesise"), Selection("synthesise"), Selection(force=("synthesise",))):
        with pytest.raises(ConfigError, match=r"recipe toy has no stage synthesise: set synthesis\.parts"):
            selection.check(config)


def test_what_cannot_be_done_is_refused_with_a_remedy() -> None:
    with pytest.raises(ConfigError, match="--from train comes after --until clean: swap"):
        Selection("train", "clean")
    with pytest.raises(ConfigError, match="--force clean: the stage is not in split to register: change"):
        Selection("split", force=("clean",))
    with pytest.raises(ConfigError, match="registered only once"):
        Selection(force=("register",))


def test_what_leaves_too_few_checkpoints_to_average_is_refused_before_it_is_trained() -> None:
    toy = {"name": "toy", "corpus": {"toy": {}}}
    few = {"max_updates": 410, "checkpoint_every": 100}
    config = PipelineConfig.model_validate(toy | {"train": few, "average": {"checkpoints": 5}})
    Selection().check(config)  # there is one at the end as well
    config = PipelineConfig.model_validate(toy | {"train": few | {"max_updates": 400}, "average": {"checkpoints": 5}})
    message = (
        r"average\.checkpoints=5: .* train\.max_updates=400 leave 4: "
        r"set train\.checkpoint_every=99, or average\.checkpoints=4"
    )
    with pytest.raises(ConfigError, match=message):
        Selection().check(config)
    Selection(last="train").check(config)
    Selection("average").check(config)  # of a training that is over only the stage knows what it has left
    ema = {"train": few | {"ema_decay": 0.999, "max_updates": 100}, "average": {"strategy": "ema"}}
    Selection().check(PipelineConfig.model_validate(toy | ema))


@pytest.mark.parametrize(
    ("updates", "every", "validate", "checkpoints", "best"),
    [
        (20, 50, 100, 3, 0),
        (400, 100, 100, 5, 0),
        (2, 50, 100, 3, 0),
        (1, 1, 1, 2, 0),
        (20, 50, 50, 3, 4),
        (401, 400, 100, 3, 3),
    ],
)
def test_the_values_of_the_remedy_are_accepted(
    updates: int, every: int, validate: int, checkpoints: int, best: int
) -> None:
    train = {"max_updates": updates, "checkpoint_every": every, "validate_every": validate, "keep_best": best}
    recipe = {"name": "toy", "corpus": {"toy": {}}, "train": train, "average": {"checkpoints": checkpoints}}
    with pytest.raises(ConfigError) as raised:
        Selection().check(PipelineConfig.model_validate(recipe))
    remedies = str(raised.value).partition(": set ")[2].split(", or ")
    assert remedies
    for remedy in remedies:
        settings = [setting.partition("=") for setting in remedy.split(" and ")]
        changed = {"train": dict(train), "average": {"checkpoints": checkpoints}}
        for name, _, value in settings:
            section, _, option = name.partition(".")
            changed[section][option] = int(value)
        Selection().check(PipelineConfig.model_validate(recipe | changed))
