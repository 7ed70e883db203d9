"""Typing errors are of the kind that a keyboard of the language makes, and leave alone what has to be copied."""

import random

import pytest

from nmt_core.augmentation.typing_errors import with_typing_errors


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Tomorrow everybody travels"),
        ("de", "Niemand erreichte gestern Würzburg"),
        ("fr", "Chaque voyage commence"),
        ("ru", "Вчера президент приехал"),
        ("el", "Σήμερα ταξιδεύουν όλοι"),
        ("ko", "대통령은 어제 방문했다"),
    ],
)
def test_each_chosen_word_has_one_error_and_keeps_its_first_letter(language: str, text: str) -> None:
    for seed in range(20):
        words, wrong = text.split(), with_typing_errors(text, language, 1.0, random.Random(seed)).split()
        assert len(words) == len(wrong)
        for old, new in zip(words, wrong, strict=True):
            assert (old != new) == (len(old) >= 4 or language == "ko") and abs(len(old) - len(new)) <= 1
            if language != "ko":
                assert new[:1] == old[:1] and len(set(old) ^ set(new)) <= 2
    few = with_typing_errors(text, language, 0.01, random.Random(1)).split()
    assert sum(old != new for old, new in zip(text.split(), few, strict=True)) == 1


def test_errors_are_neighbouring_keys_of_the_languages_keyboard() -> None:
    def replaced(language: str) -> set[str]:
        found = {with_typing_errors("zzzzz", language, 1.0, random.Random(seed)) for seed in range(200)}
        return {letter for word in found if len(word) == 5 for letter in word} - {"z"}

    assert replaced("en") == set("asx")
    assert replaced("de") == set("tuhg")
    assert replaced("fr") == set("aeqs")
    syllables = {with_typing_errors("가", "ko", 1.0, random.Random(seed)) for seed in range(200)}
    assert syllables == set("다사아라갸개거기그")


@pytest.mark.parametrize(
    "text", ["www.example.org", "12345", "me@example.org", "{userName}", "总统昨天访问了工厂", "a b"]
)
def test_what_has_to_be_copied_gets_no_errors(text: str) -> None:
    assert with_typing_errors(text, "en", 1.0, random.Random(1)) == text
