"""Marks and forms that a reader does not notice hide no held-out sentence. Different sentences stay different."""

import polars as pl
import pytest

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus import normalize
from nmt_core.corpus.held_out import folding
from nmt_core.corpus.held_out.decontaminate import HeldOut


def key(text: str, language: str = "en") -> int:
    return int(folding.keys(normalize.normalise(pl.Series([text]), "NFC"), language).item())


@pytest.mark.parametrize(
    ("text", "other", "language"),
    [
        ("می‌خواهم", "میخواهم", "fa"),
        ("הַשָּׁלוֹם הַזֶּה", "השלום הזה", "he"),
        ("مُحَمَّدٌ رَسُولٌ", "محمد رسول", "ar"),
        ("ســلام", "سلام", "ar"),
        ("ﻣﺤﻤﺪ", "محمد", "ar"),
        ("Call １２３ ＡＢＣ", "call 123 abc", "en"),
        ("５＋３", "5+3", "ja"),
        ("１，０００円", "1,000円", "ja"),
        ("ｶﾞｷﾞｸﾞ", "ガギグ", "ja"),
        ("In ١٢ days", "in 12 days", "en"),
        ("за́мок", "замок", "ru"),
        ("a smile ☺️", "A smile ☺", "en"),
        ("1️⃣ first", "1 first", "en"),
        ("so\u00adft w\u200dord", "soft word", "en"),
        ("क्‍षमा", "क्षमा", "hi"),
        ("Straße", "STRASSE", "de"),
        ("ΑΘΗΝΑ", "Αθήνα", "el"),
        ("ΟΔΟΣ", "οδος", "el"),
        ("IŞIK", "ışık", "tr"),
        ("İSTANBUL", "istanbul", "tr"),
        ("İstanbul", "istanbul", "en"),
        ("ﬁne", "fine", "en"),
        ("a\u0336b\u0336c", "abc", "en"),
        ("𝐇ello", "Hello", "en"),
    ],
)
def test_forms_of_one_sentence_have_one_key(text: str, other: str, language: str) -> None:
    assert key(text, language) == key(other, language)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("año", "ano"),
        ("schön", "schon"),
        ("कि", "की"),
        ("ไม้", "ไม"),
        ("ọ̀", "ọ"),
        ("й", "и"),
        ("ガ", "カ"),
        ("أمل", "امل"),
        ("x²", "x2"),
        ("①", "1"),
        ("5 €", "5 $"),
        ("-5", "5"),
        ("１．５", "１５"),
        ("kır", "kir"),
    ],
)
def test_different_sentences_have_different_keys(text: str, other: str) -> None:
    assert key(text) != key(other)


def test_a_leak_is_found_whatever_hides_it_as_a_whole_and_in_runs_of_words() -> None:
    words = [f"word{letter}" for letter in "abcdefghijklm"]
    held_out = pl.DataFrame({"source": ["A small house.", f"So {' '.join(words)} it is."], "target": ["x", "y"]})
    joined = " ".join(word[0] + "\u200d" + word[1:] for word in words)
    hidden = ["A sm\u00adall ho\u200duse", f"And {joined} was all"]
    rows = pl.DataFrame({"source": [*hidden, "A small horse."], "target": ["a", "b", "c"]})
    rows = rows.with_columns(normalize.key(pl.col(side)).name.suffix("_key") for side in rows.columns)

    found = HeldOut({"test/x": held_out}, CleanConfig(), LanguagesConfig(source="en", target="de")).find(rows)
    assert found.to_list() == ["test/x", "test/x", None]


def test_known_keys_stay_where_nothing_is_folded() -> None:
    text = pl.Series(["plain", "１"])
    keys = folding.keys(text, "en", pl.Series([1, 2], dtype=pl.UInt64))

    assert keys[0] == 1
    assert keys[1] == key("1")
