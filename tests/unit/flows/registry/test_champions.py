"""The champion, how it changes, and its history, on a real registry of versions without files."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities.model_registry import ModelVersion
from mlflow.tracking import MlflowClient

from flows.registry.champions import CHALLENGER, CHAMPION, Author, Champions, alias_of
from flows.registry.manual import history_of, names, promote_by_hand, roll_back_by_hand
from flows.settings import Settings
from nmt_core.errors import ConfigError, ModelError

GATE = Author(by="gate", why="better")
HAND = Author(by="hand", why="it swears", who="me@here", flow_run="a flow run")


@pytest.fixture
def champions(registry: Any) -> Champions:
    client: MlflowClient = registry.client
    client.create_registered_model("test")
    return Champions(client, "test", registry.settings)


@pytest.fixture
def settings(registry: Any) -> Settings:
    found: Settings = registry.settings
    return found


@pytest.fixture
def add(champions: Champions) -> Callable[..., ModelVersion]:
    """Add a version that such stages made."""

    def add(**made_of: str) -> ModelVersion:
        tags = {f"nmt.{stage}": fingerprint for stage, fingerprint in made_of.items()}
        version = champions.client.create_model_version("test", "file:///nowhere", tags=tags)
        champions.client.set_registered_model_alias("test", CHALLENGER, version.version)
        return version

    return add


def current(champions: Champions) -> str:
    champion = champions.current
    return str(champion.version) if champion else ""


def test_every_change_is_an_event_with_who_when_and_why(champions: Champions, add: Callable[..., ModelVersion]) -> None:
    for name in "ab":
        add(export=name)
    assert current(champions) == "" and champions.history() == []
    assert champions.promote("1", GATE, expected="")
    assert champions.promote("2", HAND)
    assert champions.promote("2", HAND), "it is champion already"
    restored = champions.roll_back(HAND)
    first, second, third = champions.history()
    assert [(e.what, e.before, e.version, e.by) for e in (first, second, third)] == [
        ("promoted", "", "1", "gate"),
        ("promoted", "1", "2", "hand"),
        ("rolled back", "2", "1", "hand"),
    ]
    assert third == restored and current(champions) == "1"
    assert first.who.count("@") == 1 and first.when <= second.when <= third.when
    assert (third.why, third.who, third.flow_run, third.before_made_of) == (
        "it swears",
        "me@here",
        "a flow run",
        {"export": "b"},
    )
    tags = champions.client.get_model_version("test", "2").tags
    assert "it swears" in tags["nmt.rolled_back"] and "me@here" in tags["nmt.promoted"]
    assert "rolled back: version 2 -> 1, by hand (me@here): it swears" in str(third)


def test_nothing_is_promoted_over_a_champion_that_it_was_not_compared_with(
    champions: Champions, add: Callable[..., ModelVersion]
) -> None:
    for name in "abc":
        add(export=name)
    champions.promote("1", GATE, expected="")
    champions.promote("2", HAND)
    assert not champions.promote("3", GATE, expected="1")
    assert current(champions) == "2" and len(champions.history()) == 2
    assert champions.promote("3", GATE, expected="2")


def test_rollbacks_go_back_one_champion_after_the_other(champions: Champions, add: Callable[..., ModelVersion]) -> None:
    for name in "abcd":
        add(export=name)
        champions.promote(str(len(champions.versions())), GATE)
    assert champions.roll_back(HAND).version == "3"
    assert champions.roll_back(HAND).version == "2"
    champions.promote("4", HAND)
    assert champions.roll_back(HAND).version == "2", "3 was rolled back too, and 4 was promoted over 2"
    champions.client.delete_model_version("test", "1")
    with pytest.raises(ModelError, match="version 2 has no previous champion"):
        champions.roll_back(HAND)
    assert current(champions) == "2"


def of_pairs(champions: Champions) -> dict[str, str]:
    versions = {pair: champions.with_alias(alias_of(pair)) for pair in champions.pairs}
    return {pair: str(version.version) for pair, version in versions.items() if version}


def test_pairs_of_languages_have_champions_of_their_own(
    champions: Champions, add: Callable[..., ModelVersion], settings: Settings
) -> None:
    for name in "abc":
        add(export=name)
    champions.promote("1", GATE, "", pairs={"en-de": "", "de-en": ""})
    assert champions.promote("2", GATE, "1", pair="en-de")
    assert not champions.promote("3", GATE, "1", pair="en-de"), "it was compared with another one"
    assert not champions.promote("3", GATE, "1", pairs={"en-de": "1", "de-en": "1"})
    assert (current(champions), of_pairs(champions)) == ("1", {"de-en": "1", "en-de": "2"})

    assert champions.promote("3", GATE, "1", pairs={"en-de": "2", "de-en": "1"})
    assert (current(champions), of_pairs(champions)) == ("3", {"de-en": "3", "en-de": "3"})
    champions.roll_back(HAND)
    assert (current(champions), of_pairs(champions)) == ("1", {"de-en": "1", "en-de": "2"}), "each has its own again"
    assert "rolled back: version 3 -> 2 for en-de" in str(champions.history()[-1])

    with pytest.raises(ModelError, match="has no champion of its own for en-fr, only de-en, en-de have one"):
        promote_by_hand("test", "2", HAND, settings, pair="en-fr")
    with pytest.raises(ModelError, match="version 3 is the model that was rolled back"):
        promote_by_hand("test", "3", HAND, settings, pair="de-en")
    said = promote_by_hand("test", "2", HAND, settings, pair="de-en")
    assert said == "test version 2 is champion for de-en now, in place of version 1"
    assert roll_back_by_hand("test", HAND, settings, "de-en").startswith("test version 1 is champion for de-en again")
    assert promote_by_hand("test", "1", HAND, settings) == "test version 1 is champion now"
    assert of_pairs(champions) == {"de-en": "1", "en-de": "1"}, "a promotion for all pairs is one for each"


def test_a_deleted_or_rolled_back_predecessor_is_passed_over(
    champions: Champions, add: Callable[..., ModelVersion]
) -> None:
    for name in "abc":
        add(export=name)
        champions.promote(str(len(champions.versions())), GATE)
    champions.client.delete_model_version("test", "2")
    assert champions.roll_back(HAND).version == "1"


def test_a_model_that_was_rolled_back_is_known_under_a_new_number(
    champions: Champions, add: Callable[..., ModelVersion]
) -> None:
    good = add(export="a", average="v")
    champions.promote("1", GATE)
    champions.promote(str(add(export="b", average="w").version), GATE)
    assert champions.taken_back(good) is None
    champions.roll_back(HAND)
    again, same_weights, other = add(export="b"), add(export="c", average="w"), add(export="d", average="v")
    assert champions.taken_back(again) and champions.taken_back(same_weights)
    assert not champions.taken_back(good) and not champions.taken_back(other)
    champions.promote(str(other.version), GATE)
    champions.client.delete_model_version("test", "2")
    assert champions.taken_back(again), "the trail outlives the version"


def test_promotions_at_once_lose_no_event_and_leave_a_champion(
    champions: Champions, add: Callable[..., ModelVersion], settings: Settings
) -> None:
    for name in "abcd":
        add(export=name)

    def promote(version: str) -> None:
        Champions(champions.client, "test", settings).promote(version, GATE)

    threads = [threading.Thread(target=promote, args=(version,)) for version in "1234"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = champions.history()
    assert sorted(event.version for event in history) == list("1234")
    assert [event.before for event in history] == ["", *(event.version for event in history[:-1])]
    assert current(champions) == history[-1].version


def test_by_hand(champions: Champions, add: Callable[..., ModelVersion], settings: Settings) -> None:
    add(export="a")
    add(export="b")
    assert promote_by_hand("test", "1", HAND, settings) == "test version 1 is champion now"
    assert promote_by_hand("test", "", HAND, settings) == "test version 2 is champion now, in place of version 1"
    assert promote_by_hand("test", "2", HAND, settings) == "test version 2 is already champion"
    done = roll_back_by_hand("test", HAND, settings)
    assert done == "test version 1 is champion again, in place of version 2"
    with pytest.raises(ModelError, match=r"rolled back on .* by me@here \(it swears\): add --force"):
        promote_by_hand("test", "2", HAND, settings)
    assert promote_by_hand("test", "2", HAND, settings, force=True).endswith("in place of version 1")
    rows, events = history_of("test", settings)
    assert [(row.version, row.aliases) for row in rows] == [("2", (CHALLENGER, CHAMPION)), ("1", ())]
    assert len(events) == 4
    assert names(settings) == [("test", "2")]


@pytest.mark.parametrize(
    ("model", "version", "why", "error", "message"),
    [
        ("test", "1", "  ", ConfigError, "no reason is given: add --why"),
        ("nobody", "1", "why", ModelError, "model 'nobody': not registered in .*, which has test"),
        ("test", "7", "why", ModelError, "has no version '7', only 1"),
        ("test", "x", "why", ModelError, "has no version 'x', only 1"),
    ],
)
def test_what_cannot_be_promoted(
    model: str,
    version: str,
    why: str,
    error: type[Exception],
    message: str,
    champions: Champions,
    add: Callable[..., ModelVersion],
    settings: Settings,
) -> None:
    add(export="a")
    with pytest.raises(error, match=message):
        promote_by_hand(model, version, Author(by="hand", why=why), settings)
    assert champions.history() == []


def test_nothing_to_roll_back(champions: Champions, add: Callable[..., ModelVersion], settings: Settings) -> None:
    with pytest.raises(ModelError, match="has no champion"):
        roll_back_by_hand("test", HAND, settings)
    add(export="a")
    champions.promote("1", GATE)
    with pytest.raises(ModelError, match="version 1 has no previous champion"):
        roll_back_by_hand("test", HAND, settings)


def test_a_registry_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    settings = Settings.load({"NMT_HOME": str(tmp_path / "none")})
    with pytest.raises(ModelError, match="`nmt run RECIPE` registers one"):
        names(settings)
    assert not settings.home.exists()
