"""A line is cut between sentences without losing a token, and its translation is the translation of its sentences."""

from pathlib import Path

import pytest

from nmt_core.config import SearchConfig
from nmt_core.search.long_lines import joiner, parts_of
from nmt_core.tokenizer.tokenizer import Tokenizer
from nmt_core.translator import Translator

SHORT = SearchConfig(beam_size=2, max_length_offset=8, max_source_tokens=16, batch_tokens=64)


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("the cat sees. a dog runs! now? and", ["the cat sees.", "a dog runs!", "now?", "and"]),
        ('the cat "sees." a dog (runs.) to it...', ['the cat "sees."', "a dog (runs.)", "to it..."]),
        ("the 3.5 cats of dog.org", ["the 3.5 cats of dog.org"]),
        ("나는。학생！이다", ["나는。", "학생！", "이다"]),
        ("...", ["..."]),
    ],
)
def test_sentences_end_where_people_end_them(line: str, sentences: list[str], tiny_tokenizer: Tokenizer) -> None:
    assert parts_of(line, tiny_tokenizer, 99) == tiny_tokenizer.encode(sentences)


@pytest.mark.parametrize("line", ["the cat and dog " * 30, "the" * 99, "a big house. " * 20 + "to it " * 40, "!?" * 50])
def test_no_token_is_lost_and_no_piece_is_too_long(line: str, tiny_tokenizer: Tokenizer) -> None:
    pieces = parts_of(line.strip(), tiny_tokenizer, 12)
    assert max(map(len, pieces)) <= 12
    assert [each for piece in pieces for each in piece] == tiny_tokenizer.encode([line.strip()])[0]


def test_a_long_sentence_is_cut_between_words(tiny_tokenizer: Tokenizer) -> None:
    for piece in parts_of("thousands of cathouses seem too smallish " * 9, tiny_tokenizer, 12):
        assert tiny_tokenizer.piece(piece[0]).startswith("\u2581")


def test_marks_in_a_row_take_no_longer_than_words(tiny_tokenizer: Tokenizer) -> None:
    line = "." * 200_000 + ' "' + '."' * 100_000  # by squares of their number, it would take hours
    assert sum(map(len, parts_of(line, tiny_tokenizer, 1_000))) >= len(tiny_tokenizer.encode([line])[0])


def test_languages_without_spaces_are_joined_without_one() -> None:
    assert [joiner(language) for language in ("en", "ko", "zh", "ja", "zh-Hant", "zh_TW", "")] == [
        " ",
        " ",
        "",
        "",
        "",
        "",
        " ",
    ]


def test_a_long_line_is_translated_sentence_by_sentence(tiny_bundle: Path) -> None:
    translator = Translator.load(tiny_bundle, SHORT)
    sentences = ["the cat sees a dog.", "now!", "a big house and a small house."] * 2
    alone = translator.translate(sentences)
    [whole] = translator.translate([" ".join(sentences)])
    assert whole.status == ("unfinished" if "unfinished" in {one.status for one in alone} else "split")
    assert whole.text == " ".join(one.text for one in alone if one.text)
    assert whole.tokens == sum(one.tokens for one in alone)
    assert min(one.score for one in alone) <= whole.score <= max(one.score for one in alone)
