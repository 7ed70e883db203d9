import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.corpus import normalize

# Characters and pieces that provoke each step, and the steps that provoke each other.
PIECES = [
    "&amp;",
    "amp;",
    "&#195;",
    "&copy;",
    "Ã",
    "©",
    "â€",
    "™",
    "\x80",
    "\x85",
    "\xad",
    "\u200b",
    "\ufeff",
    "\u0301",
    "e",
]
PIECES += [
    " ",
    "\u00a0",
    "\u3000",
    "\u2028",
    "\t",
    "\x00",
    "\r",
    "¨",
    "ﬁ",
    "가",
    "ᄀ",
    "ᅡ",
    "A",
    ".",
    "\ufffd",
    "＆amp;",
]
nasty_text = st.lists(st.sampled_from(PIECES) | st.characters(codec="utf-8"), max_size=12).map("".join)


def normalise(text: str, form: normalize.UnicodeForm = "NFC") -> str:
    result: str = normalize.normalise(pl.Series([text]), form).item()
    return result


def keys(*texts: str) -> list[int]:
    return pl.DataFrame({"text": texts}).select(normalize.key(pl.col("text"))).to_series().to_list()


def evaluate(expression: pl.Expr, *texts: str) -> list[object]:
    return pl.DataFrame({"text": texts}).select(expression).to_series().to_list()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  two   words \t", "two words"),
        ("a\u00a0b\u3000c\u2028d", "a b c d"),
        ("a\rb", "a b"),
        ("nul\x00 bell\x07", "nul bell"),
        ("zero\u200bwidth, so\u00adft, \ufeffmark", "zerowidth, soft, mark"),
        ("cafe\u0301", "café"),
        ("한", "한"),
        ("Q&amp;A", "Q&A"),
        ("&amp;lt;b&amp;gt;", "<b>"),
        ("AT&T &copy now", "AT&T &copy now"),
        ("schÃ¶n", "schön"),
        ("and so on\x85", "and so on…"),
        ("Ã  la carte", "à la carte"),
        ("itâ€™s", "it's"),
        ("나는 학생이다.".encode().decode("latin-1"), "나는 학생이다."),
        ("&Atilde;&copy;t&Atilde;&copy;", "été"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_what_normalise_does(before: str, after: str) -> None:
    assert normalise(before).replace("’", "'") == after


@pytest.mark.parametrize(
    "text", ["Ça coûte 5 €…", "Größe «ß»", "Ångström", "C’est l’été", "são Ãguas", "naïve – ‘quoted’"]
)
def test_sound_text_stays(text: str) -> None:
    assert normalise(text) == text


def test_compatibility_characters_are_replaced_only_on_request() -> None:
    assert normalise("ﬁ１") == "ﬁ１"
    assert normalise("ﬁ１", "NFKC") == "fi1"


@settings(max_examples=300, deadline=None)
@given(st.lists(nasty_text, min_size=1, max_size=5), st.sampled_from(["NFC", "NFKC"]))
def test_normalise_is_idempotent(texts: list[str], form: normalize.UnicodeForm) -> None:
    once = normalize.normalise(pl.Series(texts, dtype=pl.String), form)

    assert normalize.normalise(once, form).to_list() == once.to_list()


def test_the_input_is_not_written_to() -> None:
    text = pl.Series("name", ["Q&amp;A", "plain"])

    assert normalize.normalise(text, "NFC").name == "name"
    assert text.to_list() == ["Q&amp;A", "plain"]


def test_repaired_rows_are_told() -> None:
    texts = "Q&amp;A", "schÃ¶n", "two  spaces", "C’est l’été"

    assert evaluate(normalize.is_repaired(pl.col("text")), *texts) == [True, True, False, False]


def test_what_cannot_be_repaired_is_broken() -> None:
    texts = "lost \ufffd", "ë‚˜ëŠ” í•™\ufffdìƒ", "na\x81ve", "나는 학생이다.", "Ça coûte 5 €…"

    assert evaluate(normalize.is_broken(pl.col("text")), *texts) == [True, True, True, False, False]


def test_keys_fold_case_punctuation_and_spaces() -> None:
    first, *others = keys("Don't stop, Tom!", "dont stop tom", "DON’T  STOP TOM", "Don't stop, Tim!")

    assert [other == first for other in others] == [True, True, False]


def test_keys_of_mere_punctuation_differ() -> None:
    assert len(set(keys("!!!", "???", "", "。"))) == 4


def test_hashes_are_pinned() -> None:
    assert evaluate(normalize.hashed(pl.col("text")), "", "x") == [3244421341483603138, 16929150178197425425]


def test_words() -> None:
    assert evaluate(normalize.words(pl.col("text"), "en"), 'He said: "Don\'t!" - twice.', "...") == [
        ["he", "said", "dont", "twice"],
        [],
    ]
    assert evaluate(normalize.words(pl.col("text"), "zh"), "我有2个GPU。") == [["我", "有", "2", "个", "gpu"]]
