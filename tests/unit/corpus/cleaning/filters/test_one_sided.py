"""A threshold may hold for one side alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from nmt_core.config import SIDES, CleanConfig, FilterConfig, LanguagesConfig
from nmt_core.config.filters import ONE_SIDED
from nmt_core.corpus.cleaning.filters import form, steps
from nmt_core.corpus.cleaning.thresholds import rules_for
from nmt_core.errors import ConfigError

SOUND = ("A dog runs through the woods.", "Ein Hund rennt durch den Wald.")
Verdict = Callable[..., tuple[str | None, str | None]]

FAULTS: dict[str, tuple[tuple[str, str], Any, str]] = {
    "min_words": (SOUND, 7, "too_few_words"),
    "max_words": (SOUND, 5, "too_many_words"),
    "min_characters": (SOUND, 40, "too_few_characters"),
    "max_characters": (SOUND, 20, "too_many_characters"),
    "max_word_characters": (SOUND, 4, "long_word"),
    "min_letter_share": (SOUND, 1.0, "few_letters"),
    "min_script_share": (("A dog хи runs through", "Ein Hund хи rennt durch"), 1.0, "wrong_script"),
    "max_repeated_characters": (("A doooog runs through", "Ein Huuuund rennt durch"), 3, "repeated_characters"),
    "max_repeated_words": (("A dog dog runs through", "Ein Hund Hund rennt durch"), 1, "repeated_words"),
    "min_language_probability": (
        ("Un chien court dans le bois.", "Un chat dort dans la maison."),
        0.2,
        "wrong_language",
    ),
}


def test_every_option_has_a_case() -> None:
    assert FAULTS.keys() == set(ONE_SIDED)


@pytest.mark.parametrize("option", ONE_SIDED)
@pytest.mark.parametrize("side", SIDES)
def test_an_option_of_one_side_leaves_the_other_alone(verdict: Verdict, option: str, side: str) -> None:
    pair, value, reason = FAULTS[option]
    sound = {"source": SOUND[0], "target": SOUND[1]}
    bad = {"source": pair[0], "target": pair[1]}
    off = {"min_language_probability": 0.0, "max_length_ratio": 10.0}
    own: dict[str, Any] = off | {f"{side}_{option}": value}
    mixed = tuple(bad[name] if name == side else sound[name] for name in SIDES)
    swapped = tuple(bad[name] if name != side else sound[name] for name in SIDES)

    assert verdict(mixed, **off) == (None, None)
    assert verdict(mixed, **own)[0] == reason
    if bad != sound:
        assert verdict(swapped, **own) == (None, None)


def test_the_value_for_one_side_wins_over_the_one_for_both(verdict: Verdict) -> None:
    assert verdict(SOUND, min_words=7, source_min_words=6, target_min_words=1) == (None, None)
    assert verdict(SOUND, max_repeated_words=0, target_max_repeated_words=1) == (None, None)


@pytest.mark.parametrize(("option", "value", "reason"), [("min_words", 7, "too_few_words"), ("max_words", 5, None)])
def test_words_of_one_side_are_counted_by_its_script(
    verdict: Verdict, option: str, value: int, reason: str | None
) -> None:
    """Six words of English, and more than seven letters of Chinese, each of which counts as a word."""
    pair = (SOUND[0], "一条狗穿过树林奔跑着")
    off: dict[str, Any] = {"min_language_probability": 0.0}
    assert verdict(pair, "en-zh", **off, **{f"source_{option}": value})[0] == (reason or "too_many_words")
    assert verdict(pair, "en-zh", **off, **{f"target_{option}": value})[0] == (None if reason else "too_many_words")


def test_only_the_sides_that_are_checked_are_measured() -> None:
    rules = replace(rules_for(CleanConfig(), LanguagesConfig(), ""), sides=("target",))
    pair = pl.DataFrame({"source": [""], "target": [SOUND[1]]})
    names = [measure.meta.output_name() for step in steps(rules) for measure in step.measures]
    assert names
    assert all(name.startswith("target_") for name in names)
    assert form.measures(rules)[0].meta.root_names() == ["target"]
    assert pair.select(form.measures(rules)).height == 1


def test_an_override_sets_one_side_for_one_corpus() -> None:
    config = CleanConfig.model_validate({"overrides": [{"corpus": "web", "target_max_words": 9}]})
    limits = [
        rules_for(config, LanguagesConfig(), name).thresholds.limit("max_words", "target") for name in ("web", "x")
    ]

    assert limits == [9, 150]


def test_bounds_that_contradict_each_other_are_named() -> None:
    with pytest.raises(ValueError, match="source_min_words=5 is more than max_words=4"):
        CleanConfig.model_validate({"source_min_words": 5, "max_words": 4})
    config = CleanConfig.model_validate({"overrides": [{"corpus": "web", "target_max_words": 1}], "min_words": 2})
    with pytest.raises(ConfigError, match="min_words=2 is more than target_max_words=1"):
        rules_for(config, LanguagesConfig(), "web")


def test_what_is_not_set_is_not_stored() -> None:
    """Fingerprints of recipes that do not use it stay as they are."""
    assert not [name for name in FilterConfig().model_dump() if name.startswith(SIDES)]
    assert CleanConfig.model_validate({"source_min_words": 2}).model_dump()["source_min_words"] == 2
