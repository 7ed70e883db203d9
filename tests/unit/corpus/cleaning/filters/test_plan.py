"""The order of the filters: the first reason counts, and rows keep everything else."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning.filters import judge, remedies, steps
from nmt_core.corpus.cleaning.thresholds import CleanRules, rules_for

Judge = Callable[..., pl.DataFrame]
SOUND = ("A dog runs through the woods.", "Ein Hund rennt durch den Wald.")
NEW_COLUMNS = {"reason": pl.String, "value": pl.String, "source_language": pl.String, "target_language": pl.String}
EVERYTHING = {
    "numbers_must_match": True,
    "addresses_must_match": True,
    "end_marks_must_match": True,
    "brackets_must_match": True,
    "punctuation": "moses",
}
NOTHING = {
    "drop_copies": False,
    "max_copied_share": 1,
    "placeholders_must_match": False,
    "tags_must_match": False,
    "max_repeated_characters": 0,
    "max_repeated_words": 0,
    "min_language_probability": 0,
}

_WORDS = [
    "dog",
    "Hund",
    "the",
    "der",
    "%s",
    "<b>",
    "</b>",
    "{x}",
    "12",
    "?",
    ".",
    "(",
    "a" * 30,
    "나",
    "http://a.b/c",
    "&lt;",
]
texts = st.lists(st.sampled_from(_WORDS) | st.text(max_size=8), max_size=8).map(" ".join)


def rules(**options: Any) -> CleanRules:
    config = CleanConfig.model_validate(options)
    return rules_for(config, LanguagesConfig(source="en", target="de"), "corpus")


def clean(table: pl.DataFrame, by: CleanRules) -> pl.DataFrame:
    """Normalise and judge, as the stage does."""
    form, punctuation = by.clean.unicode_form, by.clean.punctuation
    languages = {"source": by.languages.source, "target": by.languages.target}
    spelt = [normalize.normalised(pl.col(side), form, punctuation, code) for side, code in languages.items()]
    keys = [normalize.key(pl.col(side)).alias(f"{side}_key") for side in languages]
    return table.lazy().with_columns(spelt).with_columns(keys).pipe(judge, by).collect()


def raw(pairs: list[tuple[str, str]], fault: str | None = None) -> pl.DataFrame:
    table = pl.DataFrame(pairs, schema={"source": pl.String, "target": pl.String}, orient="row")
    return table.with_columns(fault=pl.lit(fault, pl.String), fault_value=pl.lit(fault and "shown", pl.String))


def test_rows_and_other_columns_stay_as_they_are() -> None:
    table = raw([SOUND, ("", ""), ("x", "12 34"), SOUND]).with_columns(line=pl.Series([7, 8, 9, 10]))

    judged = clean(table, rules())

    assert judged["line"].to_list() == [7, 8, 9, 10]
    assert judged["reason"].to_list() == [None, "empty", "few_letters", None]
    assert {name: judged.schema[name] for name in NEW_COLUMNS} == NEW_COLUMNS
    assert judged.columns[: len(table.columns)] == table.columns


def test_the_schema_is_known_before_anything_is_read() -> None:
    by = rules(scores=[{"scorer": "builtins:len"}])
    table = raw([SOUND]).lazy().with_columns(source_key=pl.lit(1, pl.UInt64), target_key=pl.lit(2, pl.UInt64))

    assert dict(judge(table, by).collect_schema()) == {**table.collect_schema(), **NEW_COLUMNS, "score_0": pl.Float64}


def test_a_row_that_could_not_be_read_keeps_its_own_reason() -> None:
    judged = clean(raw([("", ""), SOUND], fault="invalid_utf8"), rules())

    assert judged.select("reason", "value").rows() == [("invalid_utf8", "shown")] * 2


def test_no_rows_at_all() -> None:
    assert clean(raw([]), rules()).height == 0


def test_the_first_reason_counts(judged: Judge) -> None:
    assert judged([("1 2 3 " * 200, "")])["reason"].item() == "empty"
    assert judged([("1 2 3 " * 200, "eins")])["reason"].item() == "too_many_words"


def test_every_filter_says_what_to_change() -> None:
    for reason, remedy in remedies(rules(**EVERYTHING)).items():
        section, _, name = remedy.partition(".")
        assert (section == "clean" and name in CleanConfig.model_fields) or remedy.startswith("the corpus"), reason


def test_a_filter_that_is_switched_off_is_not_there() -> None:
    assert len(remedies(rules(**EVERYTHING))) == 21
    assert set(remedies(rules(**NOTHING))) == {
        "empty",
        "broken_encoding",
        "too_few_words",
        "too_many_words",
        "too_few_characters",
        "too_many_characters",
        "long_word",
        "few_letters",
        "wrong_script",
        "length_ratio",
    }
    assert len(steps(rules(**NOTHING))) == 1


def test_thresholds_of_the_corpus_hold() -> None:
    config = CleanConfig.model_validate({"overrides": [{"corpus": "web", "max_words": 5}]})
    languages = LanguagesConfig(source="en", target="de")

    reasons = [clean(raw([SOUND]), rules_for(config, languages, name))["reason"].item() for name in ("web", "other")]
    assert reasons == ["too_many_words", None]


@pytest.mark.parametrize("options", [{}, EVERYTHING])
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(pairs=st.lists(st.tuples(texts, texts) | st.just(SOUND), max_size=30))
def test_a_second_pass_drops_nothing(options: dict[str, Any], pairs: list[tuple[str, str]]) -> None:
    by = rules(**options)
    first = clean(raw(pairs), by)
    kept = first.filter(pl.col("reason").is_null())

    second = clean(kept.select("source", "target", "fault", "fault_value"), by)

    assert first.height == len(pairs)
    assert second["reason"].null_count() == kept.height
    assert second.select("source", "target").equals(kept.select("source", "target"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=20), st.integers(0, 19))
def test_a_pair_is_judged_alike_in_any_company(pairs: list[tuple[str, str]], cut: int) -> None:
    """This allows shards to be cut anywhere. The pair at the cut is judged alone."""
    by = rules(**EVERYTHING)
    cut %= len(pairs)

    together = clean(raw(pairs), by)

    for part in (slice(cut), slice(cut, cut + 1), slice(cut + 1, None)):
        assert clean(raw(pairs[part]), by).equals(together[part])
