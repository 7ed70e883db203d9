"""Thresholds of a corpus, with the overrides for it and for its languages."""

import pickle
from typing import Any

import pytest

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus.cleaning.thresholds import CleanRules, rules_for, usual_length_ratio
from nmt_core.errors import ConfigError

ENGLISH_KOREAN = LanguagesConfig(source="en", target="ko")
LEVELS = [
    {"pair": "en-ko", "corpus": "web", "max_words": 4},
    {"corpus": "web", "max_words": 3, "min_words": 3},
    {"pair": "en-ko", "max_words": 2, "min_words": 2, "max_length_ratio": 2},
]


def rules(corpus: str, languages: LanguagesConfig = ENGLISH_KOREAN, **options: Any) -> CleanRules:
    return rules_for(CleanConfig.model_validate(options), languages, corpus)


def values(found: CleanRules) -> tuple[int, int, float]:
    return found.thresholds.max_words, found.thresholds.min_words, found.thresholds.max_length_ratio


def test_the_narrower_level_wins_option_by_option() -> None:
    english_german = LanguagesConfig(source="en", target="de")

    assert values(rules("web", overrides=LEVELS)) == (4, 3, 2)
    assert values(rules("news", overrides=LEVELS)) == (2, 2, 2)
    assert values(rules("web", english_german, overrides=LEVELS)) == (3, 3, 4)
    assert values(rules("news", english_german, overrides=LEVELS)) == (150, 1, 4)


def test_the_order_of_the_recipe_decides_only_within_a_level() -> None:
    assert values(rules("web", overrides=LEVELS[::-1])) == (4, 3, 2)
    twice = [{"corpus": "web", "max_words": 7}, {"corpus": "web", "max_words": 6}]
    assert rules("web", overrides=twice).thresholds.max_words == 6


def test_an_override_may_switch_a_filter_off() -> None:
    found = rules("web", overrides=[{"corpus": "web", "drop_copies": False, "max_repeated_words": 0}])

    assert (found.thresholds.drop_copies, found.thresholds.max_repeated_words) == (False, 0)


def test_levels_that_contradict_each_other() -> None:
    overrides = [{"corpus": "web", "min_words": 9}, {"pair": "en-ko", "max_words": 5}]

    with pytest.raises(ConfigError, match=r"clean\.overrides, for the corpus 'web' in en-ko: min_words=9 is more than"):
        rules("web", overrides=overrides)


@pytest.mark.parametrize(
    ("source", "target", "expected"), [("en", "de", 1 / 1.15), ("cs", "en", 0.9), ("ko", "ja", 1.0), ("en", "sw", 1.0)]
)
def test_characters_are_weighed_by_language(source: str, target: str, expected: float) -> None:
    assert usual_length_ratio(LanguagesConfig(source=source, target=target)) == pytest.approx(expected)


def test_rules_travel_to_workers() -> None:
    found = rules("web", overrides=LEVELS)

    assert pickle.loads(pickle.dumps(found)) == found
