"""The filter of word lists: whole words and phrases, in any case."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nmt_core.errors import ConfigError

Verdict = Callable[..., tuple[str | None, str | None]]
PAIR = ("Your class is a damn fine place.", "Deine Klasse ist ein schöner Ort.")


@pytest.fixture
def word_list(tmp_path: Path) -> Callable[..., str]:
    def write(*lines: str) -> str:
        file = tmp_path / "words.txt"
        file.write_bytes("\r\n".join(lines).encode())
        return str(file)

    return write


def test_whole_words_without_case(verdict: Verdict, word_list: Callable[..., str]) -> None:
    assert verdict(PAIR, source_word_list=word_list("ass", "DAMN")) == ("source_word_list", "damn")
    assert verdict(PAIR, target_word_list=str(word_list("ass", "", "DAMN"))) == (None, None)


def test_a_part_of_a_word_does_not_count(verdict: Verdict, word_list: Callable[..., str]) -> None:
    assert verdict(PAIR, source_word_list=word_list("ass", "lace")) == (None, None)


def test_phrases_and_their_later_places(verdict: Verdict, word_list: Callable[..., str]) -> None:
    pair = ("A classy ass, as the case may be", PAIR[1])

    assert verdict(pair, source_word_list=word_list("  the   case ")) == ("source_word_list", "the case")
    assert verdict(pair, source_word_list=word_list("ass")) == ("source_word_list", "ass")


def test_overlapping_phrases_are_all_looked_at(verdict: Verdict, word_list: Callable[..., str]) -> None:
    assert verdict(PAIR, source_word_list=word_list("a dam", "damn fine")) == ("source_word_list", "damn fine")


def test_where_no_spaces_are_written_a_part_counts(verdict: Verdict, word_list: Callable[..., str]) -> None:
    pair = ("The weather is fine today", "今天天气很好")

    assert verdict(pair, "en-zh", target_word_list=word_list("天气")) == ("target_word_list", "天气")


def test_the_list_is_spelt_as_the_text_is(verdict: Verdict, word_list: Callable[..., str]) -> None:
    assert verdict(PAIR, target_word_list=word_list("SCHO\u0308NER")) == ("target_word_list", "schöner")


def test_a_list_that_cannot_be_used(verdict: Verdict, tmp_path: Path) -> None:
    empty, latin = tmp_path / "empty.txt", tmp_path / "latin.txt"
    empty.write_bytes(b" \n\n")
    latin.write_bytes(b"sch\xf6n\n")

    with pytest.raises(ConfigError, match=r"clean\.source_word_list='/none': No such file .* name a file"):
        verdict(PAIR, source_word_list="/none")
    with pytest.raises(ConfigError, match=r"clean\.target_word_list=.*empty\.txt': the file holds no words"):
        verdict(PAIR, target_word_list=str(empty))
    with pytest.raises(ConfigError, match=r"latin\.txt': byte 3 is not UTF-8"):
        verdict(PAIR, target_word_list=str(latin))
