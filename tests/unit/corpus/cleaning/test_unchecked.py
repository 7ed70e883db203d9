"""Notes about what filters cannot check in a language."""

import pytest

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus.cleaning.unchecked import notes


def test_languages_that_every_filter_knows_need_no_note() -> None:
    assert notes(CleanConfig(), LanguagesConfig(source="en", target="ko")) == []


@pytest.mark.parametrize(
    ("code", "options", "found"),
    [
        ("ast", {}, ["clean.min_language_probability"]),
        ("tlh", {}, ["clean.min_language_probability", "clean.min_script_share"]),
        ("tlh", {"min_script_share": 0}, ["clean.min_language_probability"]),
        ("tlh", {"min_script_share": 0, "min_language_probability": 0}, []),
        ("tlh", {"min_script_share": 0, "identifier": "mine"}, []),
        ("ve", {}, ["clean.min_language_probability"]),
    ],
)
def test_what_is_not_looked_at_is_said(code: str, options: dict[str, float], found: list[str]) -> None:
    said = notes(CleanConfig.model_validate(options), LanguagesConfig(source="en", target=code))

    assert len(said) == len(found)
    for line, option in zip(said, found, strict=True):
        assert line.startswith(f"{code}, the target side's language, ")
        assert option in line


def test_either_side_may_be_unknown() -> None:
    said = notes(CleanConfig(), LanguagesConfig(source="ve", target="cr"))

    assert [line.partition(" ")[2][:15] for line in said] == ["the source side", "the target side"]


def test_near_languages_are_named() -> None:
    (said,) = notes(CleanConfig(), LanguagesConfig(source="en", target="ast"))
    (of_pair,) = notes(CleanConfig(), LanguagesConfig(source="es", target="ast"))

    assert "is taken for " in said
    assert " es" in said
    assert "is too near to es" in of_pair
