"""Suites: which sentences each rule takes, and what it makes of them."""

from typing import Any

import pytest

from nmt_core.config import LanguagesConfig, Suite
from nmt_core.evaluate.suites import MadeSuite, make_suites
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.scoring import Score

PAIRS = [
    ("Berlin hat 3 Flüsse.", "Berlin has three rivers."),
    ("Heute spricht Merkel nicht.", "Merkel does not speak today."),
    ("Er sah das Haus", "He saw the house"),
    ("Es kam Besuch. Peter lachte.", "Visitors came. Peter laughed."),
    ("<i>Kein</i> Problem", "<i>No</i> problem"),
]


def made(pairs: list[tuple[str, str]], language: str = "de", **suite: Any) -> MadeSuite:
    sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
    config = Suite.model_validate({"min_sentences": 1} | suite)
    languages = LanguagesConfig(source=language, target="en" if language != "en" else "de")
    (found,) = make_suites(TestSet("news", sources, references), [config], languages)
    assert found.test.name == f"news+{config.kind}"
    return found


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        ("numbers", (0,)),
        ("names", (1,)),  # Berlin and Peter are capitalised in any case, as first words of a sentence
        ("negation", (1, 4)),
    ],
)
def test_a_rule_that_chooses_sentences_changes_none(kind: str, places: tuple[int, ...]) -> None:
    found = made(PAIRS, kind=kind)
    assert (found.places, found.total, found.problem) == (places, 5, "")
    assert [*zip(found.test.sources, found.test.references, strict=True)] == [PAIRS[place] for place in places]
    assert found.is_selection


@pytest.mark.parametrize(
    ("language", "negated", "plain"),
    [
        ("en", "I don’t know", "I knot a tie"),
        ("fr", "Il n'est pas là", "Il passe le sel"),
        ("es", "Nunca vino", "Una nota"),
        ("it", "Non viene", "La nonna viene"),
        ("nl", "Hij komt niet", "Een nieter"),
        ("pt", "Não vem", "O nariz"),
        ("ko", "나는 가지 않았다", "나는 집에 갔다"),
    ],
)
def test_negations_are_whole_words_of_the_source_language(language: str, negated: str, plain: str) -> None:
    assert made([(plain, "a"), (negated, "b")], language, kind="negation").places == (1,)


def test_a_language_without_built_in_negations_needs_words() -> None:
    pairs = [("Han kommer", "He comes"), ("Han kommer inte", "He does not come"), ("Inte alls", "Not at all")]
    problem = made(pairs, "sv", kind="negation").problem
    assert problem == "there are no built-in words of negation in sv: list some in `words` of the suite"
    assert made(pairs, "sv", kind="negation", words=["inte"]).places == (1, 2)
    assert made(pairs, "sv", kind="negation", words=["inte alls"]).places == (2,)


def test_capitals_are_compared_without_case() -> None:
    found = made([*PAIRS, ("123", "123")], kind="upper_case")
    assert found.places == (0, 1, 2, 3, 4) and not found.is_selection
    assert found.test.sources[0] == "BERLIN HAT 3 FLÜSSE." and found.test.references[0] == "Berlin has three rivers."
    assert found.scored.references[0] == "berlin has three rivers."
    assert found.comparable(["BERLIN HAS"]) == ["berlin has"]
    score = Score(test_set="news+upper_case", metric="BLEU", score=1, signature="nrefs:1|case:mixed|eff:no")
    assert found.signed(score).signature == "nrefs:1|case:lc|eff:no"
    judge = score.model_copy(update={"signature": "COMET|version:1"})
    assert found.signed(judge).signature == "COMET|version:1|case:lc"
    plain = made(PAIRS, kind="tags")
    assert plain.comparable(["BERLIN"]) == ["BERLIN"] and plain.signed(score) is score


def test_tags_are_around_a_word_that_both_sides_have_once_or_around_the_line() -> None:
    found = made([*PAIRS, ("Die USA und die USA", "The USA and the USA")], kind="tags")
    assert [*zip(found.test.sources, found.test.references, strict=True)] == [
        ("<b>Berlin</b> hat 3 Flüsse.", "<b>Berlin</b> has three rivers."),
        ("Heute spricht <b>Merkel</b> nicht.", "<b>Merkel</b> does not speak today."),
        ("<b>Er sah das Haus</b>", "<b>He saw the house</b>"),
        ("Es kam Besuch. <b>Peter</b> lachte.", "Visitors came. <b>Peter</b> laughed."),
        ("<b>Die USA und die USA</b>", "<b>The USA and the USA</b>"),
    ], "a line that has tags is left out"
    assert found.places == (0, 1, 2, 3, 5)


def test_long_lines_are_consecutive_sentences_and_the_rest_is_counted() -> None:
    found = made(PAIRS, kind="long_lines", joined=2)
    assert found.test.sources == [f"{PAIRS[0][0]} {PAIRS[1][0]}", f"{PAIRS[2][0]} {PAIRS[3][0]}"]
    assert found.test.references == [f"{PAIRS[0][1]} {PAIRS[1][1]}", f"{PAIRS[2][1]} {PAIRS[3][1]}"]
    assert (found.places, found.total) == ((0, 2), 2)
    chinese = made([("我在家。", "I am home."), ("你好。", "Hello.")], "zh", kind="long_lines", joined=2)
    assert chinese.test.sources == ["我在家。你好。"] and chinese.test.references == ["I am home. Hello."]


def test_too_few_sentences_are_said() -> None:
    problem = made(PAIRS, kind="negation", min_sentences=3).problem
    assert problem.startswith("news has 2 sentences for it, fewer than min_sentences=3: lower that")
    assert "0 long lines" in made(PAIRS, kind="long_lines", joined=6).problem


def test_typing_errors_are_equal_whatever_surrounds_a_sentence() -> None:
    first, second = made(PAIRS, kind="typos"), made(PAIRS[::-1], kind="typos")
    assert set(first.test.sources) == set(second.test.sources)
    assert all(old[0] != new for old, new in zip(PAIRS[1:4], first.test.sources[1:4], strict=True))
    assert made(PAIRS, kind="typos", seed=2).test.sources != first.test.sources


@pytest.mark.parametrize(
    "text", ["www.example.org", "12345", "me@example.org", "{userName}", "总统昨天访问了工厂", "a b"]
)
def test_what_has_to_be_copied_gets_no_errors(text: str) -> None:
    assert made([(text, "x")], "en", kind="typos").places == ()
