"""Measures of how a vocabulary fits text, for languages with and without spaces between words."""

import pytest

from nmt_core.tokenizer.fit import measure
from nmt_core.tokenizer.tokenizer import Tokenizer


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("the cat sees a dog .", 6),
        ("나는 학생 이다", 3),
        ("我们去了湖边。", 7),  # six characters, and the full stop, as `clean` counts
        ("湖に 行きました", 7),
        ("GPU を使う", 4),
        ("เราไป", 5),
    ],
)
def test_words_are_counted_as_clean_counts_them(tiny_tokenizer: Tokenizer, line: str, words: int) -> None:
    tokens = len(tiny_tokenizer.encode([line])[0])

    assert measure(tiny_tokenizer, [line, line]).fit.tokens_per_word == pytest.approx(tokens / words, abs=1e-3)


def test_no_text_is_measured_as_nothing(tiny_tokenizer: Tokenizer) -> None:
    assert measure(tiny_tokenizer, []).fit.tokens_per_word == 0
