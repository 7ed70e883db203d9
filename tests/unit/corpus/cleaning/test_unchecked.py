import pytest

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus.cleaning.unchecked import notes


def test_languages_that_every_filter_knows_need_no_note() -> None:
    assert notes(CleanConfig(), LanguagesConfig(source="en", target="ko")) == []


@pytest.mark.parametrize(
    ("code", "knobs", "found"),
    [
        ("br", {}, ["clean.min_script_share"]),
        ("ha", {}, ["clean.min_language_probability", "clean.min_script_share"]),
        ("ha", {"min_script_share": 0}, ["clean.min_language_probability"]),
        ("ha", {"min_script_share": 0, "min_language_probability": 0}, []),
        ("xh", {}, ["clean.min_language_probability"]),
    ],
)
def test_what_is_not_looked_at_is_said(code: str, knobs: dict[str, float], found: list[str]) -> None:
    said = notes(CleanConfig.model_validate(knobs), LanguagesConfig(source="en", target=code))

    assert len(said) == len(found)
    for line, knob in zip(said, found, strict=True):
        assert line.startswith(f"{code}, the target side's language, ")
        assert knob in line


def test_either_side_may_be_unknown() -> None:
    said = notes(CleanConfig(), LanguagesConfig(source="br", target="xh"))

    assert [line.partition(" ")[2][:15] for line in said] == ["the source side", "the target side"]
