"""Trainings of a run with rounds: their order, their teachers, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.recipes.rounds import trainings


def values(name: str, source: str, target: str, **sections: Any) -> dict[str, Any]:
    """A recipe whose only synthetic text is made by the model of the other direction."""
    corpus = {
        "train": [{"name": "pairs", "address": "pairs.tsv"}],
        "test": [{"name": "news", "address": "news.tsv"}],
        "monolingual": [{"name": "alone", "side": "target", "address": "alone.txt"}],
    }
    made = {"name": "made", "text": "target_monolingual", "teachers": "reverse"}
    mix = {"corpora": [{"corpus": "made", "tag": "<BT>"}, {"corpus": "pairs", "weight": 2}]}
    languages = {"source": source, "target": target}
    return {
        "name": name,
        "languages": languages,
        "corpus": corpus,
        "synthesis": {"parts": [made]},
        "mix": mix,
    } | sections


@pytest.fixture
def backward(tmp_path: Path) -> Path:
    file = tmp_path / "de-en.yaml"
    file.write_text(yaml.safe_dump(values("de-en", "de", "en")))
    return file


def of(backward: Path, count: int = 2, **sections: Any) -> PipelineConfig:
    rounds = {"count": count, "other_direction": str(backward)}
    return PipelineConfig.model_validate(values("en-de", "en", "de", **sections) | {"rounds": rounds})


def test_both_directions_are_trained_in_turn(backward: Path) -> None:
    found = trainings(of(backward))
    assert [(one.round, one.direction) for one in found] == [(1, "de-en"), (1, "en-de"), (2, "de-en"), (2, "en-de")]
    assert all(one.config.rounds.count == 0 for one in found), "a training has no rounds of its own"
    assert [(one.round, one.direction) for one in trainings(of(backward, count=0))] == [(0, "en-de")]


def test_without_a_teacher_what_it_would_write_is_left_out(backward: Path) -> None:
    phases = [{"name": "first", "corpora": {"made": 1}, "updates": 10}, {"name": "last", "corpora": {"pairs": 1}}]
    config = of(backward, train={"curriculum": phases})
    training = trainings(config)[-1]
    alone = training.taught_by("")
    assert (alone.synthesis.parts, alone.train.curriculum) == ((), ())
    assert [rule.corpus for rule in alone.mix.corpora] == ["pairs"]
    PipelineConfig.model_validate(alone.model_dump(mode="json"))
    taught = training.taught_by("/bundle")
    assert taught.synthesis.parts[0].teachers == ("/bundle",)
    assert (taught.mix, taught.train) == (config.mix, config.train)


def test_a_recipe_of_synthetic_text_alone_cannot_begin(backward: Path) -> None:
    changed = yaml.safe_load(backward.read_text())
    changed["synthesis"]["train_on_parallel"] = False
    backward.write_text(yaml.safe_dump(changed))
    first, second, *_ = trainings(of(backward))
    with pytest.raises(
        ConfigError, match=r"recipe de-en: round 1 begins with this recipe, .*train_on_parallel to true"
    ):
        first.taught_by("")
    second.taught_by("/bundle")


def test_the_other_recipe_translates_the_other_way_under_another_name(backward: Path) -> None:
    backward.write_text(yaml.safe_dump(values("de-fr", "de", "fr")))
    with pytest.raises(ConfigError, match="translates de into fr, but the other direction of en-de is from de into en"):
        trainings(of(backward))
    with pytest.raises(ConfigError, match=r"rounds\.other_direction: recipe .*nowhere\.yaml: cannot be read"):
        trainings(of(backward.with_name("nowhere.yaml")))
    backward.write_text(yaml.safe_dump(values("en-de", "de", "en")))
    with pytest.raises(ConfigError, match="both directions register their models as en-de"):
        trainings(of(backward))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 2}, "needs the recipe of the other direction: set rounds.other_direction"),
        (
            {"rounds": {"count": 1, "other_direction": "x"}, "synthesis": {}, "mix": {}},
            "no part of synthesis.parts has",
        ),
        (
            {"synthesis": {"parts": [{"name": "made", "text": "parallel_source", "teachers": "reverse"}]}},
            "set text to target_monolingual",
        ),
        (
            {"synthesis": {"parts": [{"name": "made", "text": "target_monolingual", "teachers": ["reverse", "x"]}]}},
            "remove the other teachers",
        ),
    ],
)
def test_rounds_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PipelineConfig.model_validate(values("en-de", "en", "de") | changes)


def of_many(count: int, **sections: Any) -> dict[str, Any]:
    """A recipe for both directions, whose only synthetic text is made by its own model."""
    both = ["en-de", "de-en"]
    corpora = {role: [{"name": role, "address": f"{role}.tsv", "pairs": both}] for role in ("train", "dev", "test")}
    corpora["monolingual"] = [{"name": "alone", "language": "de", "address": "alone.txt"}]
    made = {"name": "made", "pair": "en-de", "text": "target_monolingual", "teachers": "reverse"}
    return {
        "name": "both",
        "languages": {"source": "en", "target": "de", "pairs": both},
        "corpus": corpora,
        "synthesis": {"parts": [made]},
        "rounds": count,
    } | sections


def test_a_model_for_many_pairs_teaches_its_next_self() -> None:
    found = trainings(PipelineConfig.model_validate(of_many(3)))
    assert [(one.round, one.direction) for one in found] == [(1, "all pairs"), (2, "all pairs"), (3, "all pairs")]
    assert found[0].taught_by("").synthesis.parts == ()
    assert found[1].taught_by("/bundle").synthesis.parts[0].teachers == ("/bundle",)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rounds": 1}, "the first round .* has no teacher.*: set 2 or more"),
        ({"rounds": {"count": 2, "other_direction": "de-en"}}, "other_direction=de-en: .* teaches itself: remove"),
        ({"synthesis": {}}, "no part of synthesis.parts has `teachers: reverse`"),
    ],
)
def test_rounds_of_many_pairs_in_which_nothing_could_be_learnt_are_refused(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValidationError, match=problem):
        PipelineConfig.model_validate(of_many(2, **changes))


def test_a_teacher_that_does_not_learn_the_direction_is_refused() -> None:
    values = of_many(2, languages={"source": "en", "target": "de", "pairs": ["en-de"]})
    for role in ("train", "dev", "test"):
        values["corpus"][role][0]["pairs"] = ["en-de"]
    with pytest.raises(ValidationError, match="made has `teachers: reverse`, but the model does not learn de-en: add"):
        PipelineConfig.model_validate(values)
