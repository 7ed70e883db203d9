"""Strings that a translation must keep, must contain and must not contain."""

from typing import Any

import pytest
from pydantic import ValidationError

from nmt_core.config import EvaluateConfig, LanguagesConfig, MustTranslate
from nmt_core.evaluate.must_translate import check, sentences

LANGUAGES = LanguagesConfig(source="en", target="de")


def problem(translation: str, **rule: Any) -> str:
    """Return the problem of one translation of a recipe's sentence."""
    config = EvaluateConfig(must_translate=(MustTranslate(**rule),))
    others = [sentence.source for _, sentence in sentences(config)[1:]]
    return check(config, [translation, *others], LANGUAGES)[0].problem


@pytest.mark.parametrize(
    ("source", "good", "bad", "what"),
    [
        ("It costs 2,500 euros.", "Es kostet 2.500 Euro.", "Es kostet 2.400 Euro.", "numbers differ: 4"),
        ("He has 12 cats.", "لديه ١٢ قطة", "لديه ١٣ قطة", "numbers differ: 2"),
        ("See www.a.org now.", "Siehe jetzt www.a.org.", "Siehe jetzt www.b.org.", "addresses differ: www.a.org"),
        ("Mail me@a.org", "Schreibe an me@a.org", "Schreibe an mich", "addresses differ: me@a.org"),
        ("Hello {name}!", "Hallo {name}!", "Hallo {Name}!", "placeholders differ: {Name} {name}"),
        ("%d of %s", "%s: %d", "%s", "placeholders differ: %d"),
        ("Press <b>Go</b>", "Drücke <b>Los</b>", "Drücke Los", "tags differ: </b"),
    ],
)
def test_what_must_be_kept_is_kept(source: str, good: str, bad: str, what: str) -> None:
    assert problem(good, source=source) == ""
    assert what in problem(bad, source=source)
    assert problem(bad, source=source, keep=()) == ""


def test_terms_that_must_and_must_not_be_there() -> None:
    rule = {"source": "the gearbox", "contains": ["Getriebe"], "not_contains": ["Kasten"], "matches": r"^[dD]as\b"}
    assert problem("das Getriebe", **rule) == ""
    assert "'Getriebe' is missing" in problem("das Gehäuse", **rule)
    assert problem("das Getriebe, ein Kasten", **rule) == "'Kasten' is in it"
    assert "is not found" in problem("ein Getriebe", **rule)


def test_a_term_is_the_same_in_either_unicode_form() -> None:
    assert problem("scho\u0308n", source="nice", contains=["sch\u00f6n"]) == ""


def test_the_built_in_sentences_hold_only_what_has_to_be_kept() -> None:
    config = EvaluateConfig()
    asked = sentences(config)
    assert {kind for kind, _ in asked} == {"numbers", "addresses", "placeholders"}
    copied = check(config, [sentence.source for _, sentence in asked], LANGUAGES)
    assert [one.problem for one in copied] == [""] * len(asked)
    lost = check(config, ["nothing"] * len(asked), LANGUAGES)
    assert all(one.problem for one in lost), "each sentence has something to keep"


def test_a_pattern_is_checked_before_anything_runs() -> None:
    with pytest.raises(ValidationError, match="not a regular expression"):
        MustTranslate(source="a", matches="(")
