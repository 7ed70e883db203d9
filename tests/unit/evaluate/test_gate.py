"""Each condition of promotion, with translations and reports that are made up to meet it or to break it."""

import random
from functools import partial
from typing import Any

import pytest

from nmt_core.config import EvaluateConfig, ExportConfig, RegistryConfig
from nmt_core.evaluate import gate
from nmt_core.evaluate import quality as quality_of
from nmt_core.evaluate.judges import GateJudge
from nmt_core.evaluate.must_translate import SentenceCheck, SentenceKind
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.evaluate.verdict import Check, interval, number
from nmt_core.scoring import Statistics

WORDS = ["the", "a", "cat", "dog", "house", "sees", "runs", "to", "it", "and", "big", "small", "now"]
REGISTRY = RegistryConfig()


def lines(seed: int, count: int = 80) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choice(WORDS) for _ in range(chance.randint(5, 15))) for _ in range(count)]


def damaged(texts: list[str], share: float, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [
        " ".join(chance.choice(WORDS) if chance.random() < share else word for word in text.split()) for text in texts
    ]


REFERENCES = lines(1)
NEWS = TestSet("news", ["ein Satz"] * len(REFERENCES), REFERENCES)
POOR, FAIR, EQUAL, GOOD = (damaged(REFERENCES, share, seed) for share, seed in ((0.6, 2), (0.3, 3), (0.3, 4), (0.1, 5)))


def quality(champion: list[str], challenger: list[str], *, is_main: bool, **registry: Any) -> Check:
    config = RegistryConfig(**registry)
    return quality_of.against_champion("news", scored(champion, challenger, config), config, is_main=is_main)


def scored(champion: list[str], challenger: list[str], config: RegistryConfig) -> tuple[Statistics, Statistics]:
    judge = GateJudge(config.metric, EvaluateConfig(metrics=("TER",)), "en", allow_code=False)
    return judge.statistics(NEWS, champion), judge.statistics(NEWS, challenger)


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
@pytest.mark.parametrize("metric", ["BLEU", "chrF"])
@pytest.mark.parametrize(
    ("champion", "challenger", "passes_main", "passes_other", "words"),
    [
        (FAIR, GOOD, True, True, "significantly better"),
        (FAIR, EQUAL, False, True, "significantly neither better nor worse"),
        (FAIR, FAIR, False, True, "significantly neither better nor worse"),
        (FAIR, POOR, False, False, "significantly worse"),
    ],
)
def test_the_main_set_must_be_better_and_others_no_worse(
    champion: list[str],
    challenger: list[str],
    passes_main: bool,
    passes_other: bool,
    words: str,
    metric: str,
    test: str,
) -> None:
    main = quality(champion, challenger, is_main=True, metric=metric, significance_test=test)
    other = quality(champion, challenger, is_main=False, metric=metric, significance_test=test)
    assert (main.passed, other.passed) == (passes_main, passes_other)
    assert words in main.why and words in other.why
    assert main.metric == metric and main.test_set == "news"
    assert main.low is not None and main.high is not None and main.difference is not None
    assert main.low <= main.difference <= main.high


def on_suite(champion: list[str], challenger: list[str], **registry: Any) -> Check:
    config = RegistryConfig(**registry)
    return quality_of.suite_against_champion("news+numbers", scored(champion, challenger, config), config)


def test_a_suite_refuses_a_loss_that_is_above_the_margin_beyond_chance() -> None:
    lost = on_suite(FAIR, POOR)
    assert not lost.passed and lost.high is not None and lost.high < -1
    assert "a loss of registry.suite_margin=1 is accepted; registry.suites=report would let it pass" in lost.why
    assert on_suite(FAIR, POOR, suite_margin=-lost.high + 0.1).passed
    assert not on_suite(FAIR, POOR, suite_margin=-lost.high - 0.1).passed
    reported = on_suite(FAIR, POOR, suites="report")
    assert (
        reported.passed and reported.high == lost.high and reported.why.endswith("registry.suites=report lets it pass")
    )
    for better in (EQUAL, GOOD, FAIR):
        assert on_suite(FAIR, better, suite_margin=0).passed


def test_a_lower_ter_is_better() -> None:
    assert quality(FAIR, GOOD, is_main=True, metric="TER").passed
    worse = quality(FAIR, POOR, is_main=False, metric="TER")
    assert not worse.passed and worse.difference is not None and worse.difference > 0
    assert not on_suite(FAIR, POOR, metric="TER").passed and on_suite(FAIR, GOOD, metric="TER").passed


def test_a_stricter_level_lets_less_pass() -> None:
    level = quality(FAIR, damaged(REFERENCES, 0.27, 6), is_main=True)
    assert level.p_value is not None and 0.001 < level.p_value < 0.9
    assert quality(FAIR, damaged(REFERENCES, 0.27, 6), is_main=True, significance=level.p_value + 1e-6).passed
    assert not quality(FAIR, damaged(REFERENCES, 0.27, 6), is_main=True, significance=level.p_value - 1e-6).passed


@pytest.mark.parametrize(
    ("report", "passed"),
    [
        ({"compared_sentences": 5, "identical_beams": 5, "max_difference": 1e-5}, True),
        ({"compared_sentences": 5, "identical_beams": 4, "max_difference": 1e-5}, False),
        ({"compared_sentences": 5, "identical_beams": 5, "max_difference": 1e-3}, False),
        ({"compared_sentences": 5, "identical_beams": 5, "max_difference": float("nan")}, False),
        ({}, False),
    ],
)
def test_parity_is_what_export_measured(report: dict[str, Any], passed: bool) -> None:
    assert gate.parity(report, ExportConfig()).passed is passed


def test_a_precision_that_was_refused_is_told_with_the_reason() -> None:
    report: dict[str, Any] = {"compared_sentences": 5, "identical_beams": 5, "max_difference": 0.0, "not_published": {}}
    assert "without" not in gate.parity(report, ExportConfig()).why
    report["not_published"] = {"int8": "int8 graphs are made of Transformers", "fp16": "BLEU is 3"}
    check = gate.parity(report, ExportConfig())
    assert check.passed
    assert check.why.endswith("; without int8: int8 graphs are made of Transformers; without fp16: BLEU is 3")


@pytest.mark.parametrize(("ratio", "passed"), [(1.5, True), (0.81, True), (0.79, False)])
def test_speed(ratio: float, passed: bool) -> None:
    check = gate.speed(ratio, "version 1 on this machine", REGISTRY)
    assert check.passed is passed
    assert check.why.startswith(f"{ratio:.2f} times as many tokens per second as version 1 on this machine")
    assert ("registry.max_slowdown=0.2 is allowed" in check.why) is not passed


def test_a_model_is_too_slow_only_if_it_is_so_beyond_chance() -> None:
    unclear = gate.speed(0.79, "version 1", REGISTRY, (0.7, 0.85))
    assert unclear.passed and unclear.low == pytest.approx(-0.3) and unclear.high == pytest.approx(-0.15)
    assert "registry.max_slowdown=0.2 is allowed, which is within the 95% interval (0.70 to 0.85)" in unclear.why
    assert not gate.speed(0.76, "version 1", REGISTRY, (0.7, 0.79)).passed


def test_contamination_that_is_not_known_to_be_none_is_refused_unless_it_is_allowed() -> None:
    clean = gate.contamination("", {"test/news": 1_200, "dev/dev": 3}, REGISTRY)
    assert clean.passed and clean.why.startswith(
        "1,203 training pairs shared text with dev or test sets (test/news 1,200"
    )
    unknown = gate.contamination("clean.decontaminate is off", {}, REGISTRY)
    assert not unknown.passed and "registry.contamination=allow would let it pass" in unknown.why
    assert gate.contamination("clean.decontaminate is off", {}, RegistryConfig(contamination="allow")).passed


def kept(kind: SentenceKind, *problems: str) -> list[SentenceCheck]:
    return [SentenceCheck(kind=kind, source="a", translation="b", problem=problem) for problem in problems]


def test_a_sentence_of_the_recipe_must_be_right_whatever_the_champion_makes_of_it() -> None:
    for champion in (None, kept("recipe", "lost", "lost")):
        (check,) = gate.sentences(kept("recipe", "", "'Getriebe' is missing"), champion, REGISTRY)
        assert not check.passed
        assert check.why.startswith("1 of 2 are right")
        assert "'a' -> 'b': 'Getriebe' is missing" in check.why
    assert gate.sentences(kept("recipe", "", ""), None, REGISTRY)[0].passed


@pytest.mark.parametrize(
    ("rule", "champion", "passed"),
    [
        ("no_worse", None, [True]),
        ("no_worse", kept("numbers", "", "lost"), [True]),
        ("no_worse", kept("numbers", "", ""), [False]),
        ("all", None, [False]),
        ("all", kept("numbers", "lost", "lost"), [False]),
        ("off", kept("numbers", "", ""), []),
    ],
)
def test_built_in_sentences_must_be_copied_as_the_recipe_asks(
    rule: Any, champion: list[SentenceCheck] | None, passed: list[bool]
) -> None:
    registry = RegistryConfig(built_in_sentences=rule)
    checks = gate.sentences(kept("numbers", "lost", ""), champion, registry)
    assert [check.passed for check in checks] == passed


def test_all_built_in_sentences_must_be_copied_unless_the_recipe_says_otherwise() -> None:
    (check,) = gate.sentences(kept("numbers", "lost", ""), None, RegistryConfig())
    assert not check.passed
    assert check.why.startswith("1 of 2 are right; 'a' -> 'b': lost; registry.built_in_sentences='no_worse' would")
    assert gate.sentences(kept("numbers", "", ""), None, RegistryConfig())[0].passed


def test_a_model_that_was_taken_back_does_not_come_back_by_itself() -> None:
    assert gate.history("").passed
    check = gate.history("version 3 was rolled back on 2026-01-02 by me@here (it swears)")
    assert not check.passed
    assert "(it swears): the gate never promotes it again" in check.why and "nmt promote" in check.why


def test_every_check_must_pass() -> None:
    good, other = quality(FAIR, GOOD, is_main=True), quality(FAIR, POOR, is_main=False)
    promoted = gate.decide("test", ("1", "2"), [good, gate.history("")])
    assert promoted.promoted and promoted.reason == f"replaces version 1: {good.why}"
    refused = gate.decide("test", ("1", "2"), [good, other, gate.history("it was"), gate.history("")])
    assert not refused.promoted
    assert refused.failed == [other, refused.checks[2]]
    assert refused.reason == f"stays challenger: {other.why}; 1 more check failed"


def first(hypotheses: list[str], *, is_main: bool = True, test: TestSet = NEWS, **registry: Any) -> Check:
    config = RegistryConfig(**registry)
    judge = GateJudge(config.metric, EvaluateConfig(metrics=("TER",)), "en", allow_code=False)
    return quality_of.first_champion(test, hypotheses, partial(judge.statistics, test), config, is_main=is_main)


@pytest.mark.parametrize(
    ("hypotheses", "registry", "passed", "words"),
    [
        (GOOD, {}, True, "the source as its own translation has 0.00: by +"),
        ([""] * 80, {}, False, "80 of 80 translations are empty, and it must be fewer than half of them"),
        ([*[""] * 40, *GOOD[40:]], {}, False, "40 of 80 translations are empty, and it must"),
        ([*[""] * 39, *GOOD[39:]], {}, True, "39 of 80 translations are empty"),
        (["ein Satz"] * 80, {}, False, "significantly better than that; registry.min_score sets another minimum"),
        ([""] * 80, {"min_score": 0}, True, "BLEU of news is 0.00, and there is no champion to compare with"),
        (["ein Satz"] * 80, {"min_score": 10}, False, "the first champion must reach registry.min_score=10"),
        (GOOD, {"min_score": 10}, True, "registry.min_score=10"),
        ([""] * 80, {"min_score": 1e-9}, False, "80 of 80 translations are empty"),
    ],
)
def test_the_first_champion_has_to_reach_a_floor(
    hypotheses: list[str], registry: dict[str, Any], passed: bool, words: str
) -> None:
    check = first(hypotheses, **registry)
    assert check.passed is passed and words in check.why
    verdict = gate.decide("test", ("", "1"), [check])
    assert verdict.promoted is passed and words in verdict.reason
    assert first(hypotheses, is_main=False, **registry).passed, "other test sets are reported"


def test_a_floor_of_ter_is_a_ceiling() -> None:
    score = first(GOOD, metric="TER").challenger
    assert score is not None and 0 < score < 50
    assert first(GOOD, metric="TER", min_score=score + 1).passed
    too_high = first(GOOD, metric="TER", min_score=score - 1)
    assert not too_high.passed and too_high.name.startswith("TER of news is at most ")


def test_a_model_that_copies_is_no_first_champion_where_copying_scores_high() -> None:
    """Half of the references are the source, so that the copy would look like a good model by its score alone."""
    copied = [*REFERENCES[:40], *POOR[40:]]
    check = first(copied, test=TestSet("news", copied, REFERENCES))
    assert check.challenger is not None and check.challenger > 50 and not check.passed
    better = first([*REFERENCES[:40], *FAIR[40:]], test=TestSet("news", copied, REFERENCES))
    assert better.passed


def test_the_first_champion_has_to_pass_the_rest() -> None:
    checks = [first(GOOD, metric="chrF"), first(FAIR, metric="chrF", is_main=False)]
    assert [(check.test_set, check.metric) for check in checks] == [("news", "chrF")] * 2
    assert gate.decide("test", ("", "1"), checks).promoted
    assert not gate.decide("test", ("", "1"), [*checks, gate.contamination("unknown", {}, REGISTRY)]).promoted


def test_what_is_significant_excludes_0_in_what_is_shown() -> None:
    """At every level, the interval in the report is the interval that decided."""
    for significance in (0.05, 0.01):
        for seed in range(8):
            check = quality(
                FAIR, damaged(REFERENCES, 0.3 - 0.02 * seed, 9 + seed), is_main=True, significance=significance
            )
            assert check.low is not None and check.high is not None and check.p_value is not None
            assert check.passed == (check.low > 0)
            assert (check.p_value < significance) == (check.low > 0 or check.high < 0)
            assert f"({100 - 100 * significance:g}% interval {interval(check.low, check.high)}, p = " in check.why
            assert ("significantly better" in check.why) == (check.low > 0)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-0.0, "0.00"), (-0.004, "-0.004"), (0.0004, "+0.0004"), (-1e-12, "0.00"), (1.205, "+1.21"), (-3.0, "-3.00")],
)
def test_no_number_is_shown_as_a_zero_with_a_minus(value: float, shown: str) -> None:
    assert number(value, "+") in (shown, shown.replace("+1.21", "+1.20"))


def test_samples_that_can_show_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"samples=1000 are too few for significance=0.001.*more than 2000"):
        RegistryConfig(significance=0.001)
    assert RegistryConfig(significance=0.001, samples=2_000).samples == 2_000


def test_translations_that_cannot_be_had_compare_with_nothing() -> None:
    check = quality_of.not_compared("news", "BLEU", "format 1 is unknown")
    assert not check.passed and "format 1 is unknown" in check.why


def test_a_pair_is_won_by_being_better_in_it_if_all_that_concerns_every_pair_has_passed() -> None:
    def check(pair: str, *, passed: bool = True, is_better: bool = False, champion: float | None = 30.0) -> Check:
        kind: Any = "quality" if pair else "parity"
        return Check(
            kind=kind, name="", pair=pair, champion=champion, is_better=is_better, passed=passed, why="it is so"
        )

    better, equal, worse = check("en-de", is_better=True), check("de-en"), check("en-fr", passed=False)
    new = check("fr-en", champion=None)
    pairs = ("en-de", "de-en", "en-fr", "fr-en")
    assert gate.pairs_won([better, equal, worse, new, check("")], pairs) == ("en-de", "fr-en")
    assert gate.pairs_won([better, worse, check("", passed=False)], pairs) == ()
    assert gate.pairs_won([better, check("en-de", passed=False)], pairs) == (), (
        "a further test set of the pair is worse"
    )
    verdict = gate.decide("three", ("1", "2"), [better, worse], pairs)
    assert (verdict.promoted, verdict.pairs) == (False, ("en-de",))
    assert verdict.reason == "becomes champion for en-de, and otherwise stays challenger: it is so"
    assert gate.decide("three", ("", "2"), [better, worse], pairs).pairs == (), "there is no champion to replace"
    assert gate.decide("three", ("1", "2"), [better, worse]).pairs == (), "pairs have no champions of their own"
    assert gate.decide("three", ("1", "2"), [better, equal], pairs).pairs == (), "it becomes champion for all"
