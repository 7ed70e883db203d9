"""Training text that contains a sentence of a dev or test set is found."""

import polars as pl
import pytest

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus import normalize
from nmt_core.corpus.held_out.decontaminate import HeldOut

LANGUAGES = LanguagesConfig(source="en", target="de")
TWELVE = "one two three four five six seven eight nine ten eleven twelve"
THIRTEEN = f"{TWELVE} thirteen"
FILLER = "Etwas ganz anderes."


def pairs(*rows: tuple[str, str]) -> pl.DataFrame:
    text = pl.DataFrame(list(rows), schema={"source": pl.String, "target": pl.String}, orient="row")
    return text.with_columns(normalize.key(pl.col(side)).name.suffix("_key") for side in text.columns)


def find(held_out: pl.DataFrame, *training: tuple[str, str], config: CleanConfig | None = None) -> list[str | None]:
    return HeldOut({"test/news": held_out}, config or CleanConfig(), LANGUAGES).find(pairs(*training)).to_list()


def test_a_sentence_of_a_held_out_set_is_found_on_either_side_in_any_case_and_punctuation() -> None:
    held_out = pairs(("A dog  runs.", "Ein Hund rennt."))

    assert (
        find(
            held_out,
            ("A dog runs.", FILLER),
            ("a DOG runs!", FILLER),
            (FILLER, "ein hund rennt"),
            ("A dog runs fast.", FILLER),
            ("Ein Hund rennt.", FILLER),
        )
        == ["test/news"] * 3 + [None] * 2
    )


def test_a_long_sentence_is_found_by_thirteen_words_in_a_row() -> None:
    held_out = pairs((f"Here is {THIRTEEN} and more.", FILLER + " Nein."))

    assert find(
        held_out,
        (f"So: {THIRTEEN.upper()}, or less.", "x"),
        (f"So: {TWELVE}, or less.", "x"),
        ("thirteen " + TWELVE, "x"),
    ) == ["test/news", None, None]


def test_a_short_sentence_is_found_by_nine_words_in_a_row() -> None:
    held_out = pairs(("So one two three four five six seven eight nine it is.", "y"))  # twelve words

    assert find(
        held_out,
        ("Now one two three four five six seven eight nine, no.", "x"),
        ("Now one two three four five six seven eight, no.", "x"),
    ) == ["test/news", None]


def test_a_still_shorter_sentence_counts_only_as_a_whole() -> None:
    held_out = pairs(("one two three four five six seven eight", "y"))

    assert find(held_out, ("one two three four five six seven eight nine", "x")) == [None]


def test_runs_of_words_do_not_cross_sentences() -> None:
    held_out = pairs((THIRTEEN, "y"))
    halves = ("one two three four five six", "seven eight nine ten eleven twelve thirteen")

    assert find(held_out, *((half, "x") for half in halves)) == [None, None]


def test_the_first_set_that_shares_text_is_named() -> None:
    sets = {"dev/a": pairs(("A cat.", "Eine Katze.")), "test/b": pairs(("A dog.", "Ein Hund."), ("A cat.", "Katze."))}
    held_out = HeldOut(sets, CleanConfig(), LANGUAGES)

    assert held_out.find(pairs(("A dog.", "-"), ("A cat.", "-"), ("A cow.", "Ein Hund."))).to_list() == [
        "test/b",
        "dev/a",
        "test/b",
    ]


def test_held_out_text_is_normalised_as_training_text_is() -> None:
    assert find(pairs(("Q&amp;A in the cafe\u0301", "y")), ("Q&A in the café", "x")) == ["test/news"]


def test_empty_held_out_lines_match_nothing() -> None:
    assert find(pairs(("", ""), ("A dog.", "")), ("", "x"), ("...", "")) == [None, None]


@pytest.mark.parametrize("sets", [{}, {"test/news": pairs(("A dog.", "Ein Hund."))}])
def test_no_training_text_and_no_held_out_text(sets: dict[str, pl.DataFrame]) -> None:
    held_out = HeldOut(sets, CleanConfig(), LANGUAGES)

    assert held_out.find(pairs()).to_list() == []
    assert held_out.find(pairs(("A cow.", "Eine Kuh."))).to_list() == [None]


def test_the_lengths_come_from_the_configuration() -> None:
    held_out = pairs(("one two three four five", "y"))
    training = ("so one two three four", "x")

    assert find(held_out, training, config=CleanConfig(ngram_words=4, short_ngram_words=3)) == ["test/news"]
    assert find(held_out, training, config=CleanConfig(ngram_words=6, short_ngram_words=5)) == [None]
