"""The gate for a model for many pairs of languages: a pair that gets worse refuses the model by its name."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flows.registry.champions import Author, Champions
from flows.registry.manual import roll_back_by_hand
from flows.registry.models import resolve
from nmt_core.evaluate.verdict import Check
from nmt_core.export import speed
from nmt_core.store.artifacts import Artifact
from nmt_core.translator import Translator

PAIRS = {"news-en-ko": "en-ko", "news-ko-en": "ko-en"}
THERE, BACK = PAIRS
UNSEEN = "unseen-ko-en"
HAND = Author(by="hand", why="it swears", who="me@here")


@pytest.fixture(autouse=True)
def three_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are timed for three rounds, and not for the seconds that small differences require."""
    monkeypatch.setattr(speed, "_SECONDS", 0.0)
    monkeypatch.setattr(speed, "_MOST_SECONDS", 0.0)


@pytest.fixture(scope="module")
def many(
    into_many: Callable[..., Path], tiny_bundle: Path, other_bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """Two models for both directions."""
    folder = tmp_path_factory.mktemp("many")
    pairs = list(PAIRS.values())
    return (
        into_many(tiny_bundle, folder / "tiny", "source", pairs),
        into_many(other_bundle, folder / "other", "source", pairs),
    )


def references(registry: Any, bundle: Path, pair: str) -> list[str]:
    return [one.text for one in Translator.load(bundle, registry.search).translate(registry.sentences, to=pair)]


def split(registry: Any, zero_shot: Sequence[str] = (), **tests: Sequence[str]) -> Artifact:
    """Test sets in their pairs of languages."""
    made: Artifact = registry.split(**tests)
    file = made.path / "splits.json"
    pairs = {name: PAIRS.get(name, "ko-en") for name in tests}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"pairs": pairs, "zero_shot": list(zero_shot)}))
    return made


def quality(model: Any) -> dict[str, Check]:
    return {one.test_set: one for one in model.gate.checks if one.kind == "quality"}


@pytest.mark.cpu(20)
def test_a_pair_that_gets_worse_refuses_the_model_by_name(registry: Any, many: tuple[Path, Path]) -> None:
    old, new = many
    config = registry.config(languages={"pairs": list(PAIRS.values())}, evaluate={"suites": ["upper_case"]})
    texts = {name: references(registry, old, pair) for name, pair in PAIRS.items()}
    first = registry.register(registry.candidate(config, old, split(registry, **texts)), config)
    assert first.verdict.startswith("the first champion: ")

    better = references(registry, new, "en-ko")
    sets = {THERE: better, BACK: texts[BACK], UNSEEN: texts[BACK]}
    refused = registry.register(registry.candidate(config, new, split(registry, [UNSEEN], **sets)), config)
    assert refused.aliases == ["challenger"]
    checks = quality(refused)
    assert list(checks) == [THERE, BACK, f"{THERE}+upper_case", f"{BACK}+upper_case"], "a zero-shot set takes no part"
    assert (checks[THERE].passed, checks[BACK].passed) == (True, False)
    assert checks[BACK].name == "chrF of news-ko-en is not significantly worse"
    assert "chrF of news-ko-en is" in refused.verdict
    copied = [one.name for one in refused.gate.checks if one.kind == "sentences"]
    assert {pair for pair in PAIRS.values() if any(f"({pair})" in name for name in copied)} == set(PAIRS.values())


@pytest.mark.cpu(20)
def test_a_pair_that_the_champion_lacks_is_not_compared(
    registry: Any, many: tuple[Path, Path], tiny_bundle: Path
) -> None:
    one_pair = registry.config()
    own = registry.references(tiny_bundle)
    first = registry.register(registry.candidate(one_pair, tiny_bundle, registry.split(news=own)), one_pair)
    assert first.verdict.startswith("the first champion: ")

    config = registry.config(languages={"pairs": list(PAIRS.values())})
    sets = {name: references(registry, many[1], pair) for name, pair in PAIRS.items()}
    model = registry.register(registry.candidate(config, many[1], split(registry, **sets)), config)
    checks = quality(model)
    assert checks[THERE].champion is not None
    assert checks[BACK].champion is None
    assert checks[BACK].passed
    assert "champion" in model.aliases, model.verdict


@pytest.mark.cpu(25)
def test_a_pair_that_gets_better_has_a_champion_of_its_own(registry: Any, many: tuple[Path, Path]) -> None:
    """The aliases follow verdicts and rollbacks, and each pair is compared with its own champion."""
    old, new = many
    config = registry.config(languages={"pairs": list(PAIRS.values())}, registry={"champion": "pair"})
    texts = {name: references(registry, old, pair) for name, pair in PAIRS.items()}
    registry.register(registry.candidate(config, old, split(registry, **texts)), config)
    assert aliases(registry) == {"champion": "1", "champion-en-ko": "1", "champion-ko-en": "1", "challenger": "1"}

    sets = {THERE: references(registry, new, "en-ko"), BACK: texts[BACK]}
    parted = registry.register(registry.candidate(config, new, split(registry, **sets)), config)
    assert (parted.gate.promoted, parted.gate.pairs) == (False, ("en-ko",))
    assert parted.verdict.startswith(
        "becomes champion for en-ko, and otherwise stays challenger: chrF of news-ko-en is"
    )
    assert aliases(registry) == {"champion": "1", "champion-en-ko": "2", "champion-ko-en": "1", "challenger": "2"}
    assert resolve("models:/test@champion-en-ko", registry.settings) == "models:/test/2"

    champions = Champions(registry.client, "test", registry.settings)
    again = config.model_copy(update={"evaluate": config.evaluate.model_copy(update={"samples": 1})})
    third = registry.register(registry.candidate(again, old, split(registry, **sets)), again)
    checks = quality(third)
    assert (checks[THERE].passed, checks[THERE].champion) == (False, 100), "compared with version 2, whose text it is"
    assert (checks[BACK].passed, checks[BACK].champion) == (True, 100), "compared with version 1, which is the same"
    assert third.gate.pairs == ()

    roll_back_by_hand("test", HAND, registry.settings, "en-ko")
    assert aliases(registry)["champion-en-ko"] == "1"
    assert champions.history()[-1].pair == "en-ko"
    once_more = registry.register(registry.candidate(config, new, split(registry, **sets)), config)
    assert once_more.gate.pairs == () and [one.kind for one in once_more.gate.failed].count("history") == 1
    assert aliases(registry)["champion-en-ko"] == "1", "the gate never promotes it again"


def aliases(registry: Any) -> dict[str, str]:
    return {alias: str(number) for alias, number in registry.client.get_registered_model("test").aliases.items()}
