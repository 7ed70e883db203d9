"""A line is cut into sentences without losing a character, and its line breaks stay in place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.search.sentences import layout_of, sentences_of, share_with_several
from nmt_core.spelling import AS_IT_IS

SENTENCES = {
    "en": [
        ["He met Dr. Smith at 3.5 p.m. today. ", "Then he left."],
        ["Wait... what? ", "No!!! ", 'He said "Go now." ', "Fine."],
        ["1. Open the door. ", "2. Close it. ", "a) Go."],
        ["Press '?' to start over. ", "See e.g. Smith (2003)."],
        ["all in small letters. ", "nothing is large."],
        ["Plan B\u00a0. ", "Good\u202f. ", "Yes\u3000. ", "So"],
        ["Nothing ends"],
    ],
    "de": [["Am 10. Mai kam Dr. Müller z.B. im 16. Jahrhundert. ", "Ende. ", "Terminal 3. ", "Augenzeugen sahen es."]],
    "ko": [["안녕하세요. ", "저는 학생입니다! ", "그래요?"]],
    "zh": [["你好。", "今天天气好吗？", "很好。"]],
    "ja": [["今日は。", "「はい。」と言った。", "いい天気！"]],
    "xx": [["Nobody knows this. ", "Or that."]],
}
CHARACTERS = "abAB..!?  \n\t\"'“”(),;:1 2。！？、가漢ß😀\u00a0\u202f\u3000\u200b\u2028\u0301\u2003\x85\ufeff\u0e01"


@pytest.mark.parametrize(
    ("language", "sentences"), [(code, text) for code, texts in SENTENCES.items() for text in texts]
)
def test_sentences_end_where_people_end_them(language: str, sentences: list[str]) -> None:
    odd = ["Plan B\u00a0. ", "Good\u202f. ", "Yes\u3000. ", "So"]
    found = sentences_of("".join(sentences), language)
    assert "".join(found) == "".join(sentences)
    assert found == sentences or sentences == odd


@settings(max_examples=400)
@given(st.text(st.sampled_from(CHARACTERS), max_size=40), st.sampled_from(["en", "de", "ko", "zh", "ja", "fr", "th"]))
def test_no_character_is_lost_and_nothing_panics(text: str, language: str) -> None:
    assert "".join(sentences_of(text, language)) == text


def test_a_million_characters_take_no_longer_than_their_share() -> None:
    for text in ("a. " * 100_000, "." * 300_000, '("a." ' * 50_000, "Word " * 60_000):
        assert "".join(sentences_of(text, "en")) == text


def test_line_breaks_stay_between_their_sentences() -> None:
    text = "\n\n One. Two.\n\n  - item one\r\n - item two\n"
    found = layout_of(text, "en", AS_IT_IS.tidy)
    assert found == [("", "\n\n "), ("One.", ""), ("Two.", "\n\n  "), ("- item one", "\r\n "), ("- item two", "\n")]
    assert layout_of("\n \u2028", "en", AS_IT_IS.tidy) == []


def test_rows_with_several_sentences_are_counted() -> None:
    assert share_with_several(["One.", "Two. Three.", "Mr. Smith left.", "Five? Six!"], "en") == 0.5
    assert share_with_several([], "en") == 0.0
