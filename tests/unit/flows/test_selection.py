import pytest

from flows.selection import STEPS, Selection
from nmt_core.errors import ConfigError
from nmt_core.stages import STAGES


def test_the_steps_are_the_stages_and_registration() -> None:
    assert (*STAGES, "register") == STEPS


def test_everything_is_included_unless_told_otherwise() -> None:
    assert all(Selection().includes(step) for step in STEPS)
    part = Selection("split", "train")
    assert [step for step in STEPS if part.includes(step)] == ["split", "tokenizer", "encode", "train"]
    assert [step for step in STEPS if part.begins_after(step)] == ["download", "clean"]


def test_what_cannot_be_done_is_refused_with_a_remedy() -> None:
    with pytest.raises(ConfigError, match="--from train comes after --until clean: exchange"):
        Selection("train", "clean")
    with pytest.raises(ConfigError, match="--force clean: it lies outside split to register: widen"):
        Selection("split", force=("clean",))
    with pytest.raises(ConfigError, match="registered once"):
        Selection(force=("register",))
