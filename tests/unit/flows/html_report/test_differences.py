"""Words of a translation that its reference does not have."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from flows.html_report.differences import with_differences


@pytest.mark.parametrize(
    ("translation", "reference", "marked"),
    [
        ("a red cat sat.", "a red cat sat.", []),
        ("a blue cat sat.", "a red cat sat.", ["blue"]),
        ("sat a cat", "a cat sat", ["sat "]),
        ("the cat", "", ["the cat"]),
        ("", "the cat", []),
        ("我喜欢狗。", "我喜欢猫。", ["狗"]),
        ("고양이가 잔다.", "고양이가 잤다.", ["잔다"]),
        ("word " * 500, "other", []),
    ],
)
def test_other_words_are_marked(translation: str, reference: str, marked: list[str]) -> None:
    found = with_differences(translation, reference)
    assert [text for text, is_marked in found.parts if is_marked] == marked


@given(translation=st.text(max_size=60), reference=st.text(max_size=60))
def test_no_letter_of_a_translation_is_lost(translation: str, reference: str) -> None:
    assert "".join(text for text, _ in with_differences(translation, reference).parts) == translation
