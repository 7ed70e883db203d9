"""Normalisation of sentences, and the keys by which equal ones are found."""

import re
import unicodedata

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nmt_core.corpus import normalize
from nmt_core.spelling import Punctuation, Spelling, UnicodeForm

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


def normalise(text: str, form: UnicodeForm = "NFC") -> str:
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
        ("Das ist groß\x93, sagte er.", "Das ist groß“, sagte er."),
        ("Über ß\x93 und Ã¼ber", "Über ß“ und über"),
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


@pytest.mark.parametrize("ampersand", ["amp;", "#38;", "#x26;", "#0038;"])
def test_what_was_escaped_thousands_of_times_is_resolved_at_once(ampersand: str) -> None:
    """Without a limit, this would take longer, level by level, than a test may."""
    assert normalise("1 &" + ampersand * 20_000 + "lt; 2 &" + ampersand * 20_000) == "1 < 2 &"


@pytest.mark.parametrize(("language", "after"), [("de", '"' + "," * 50_000), ("en", "," * 50_000 + '"')])
def test_a_row_of_commas_changes_places_with_a_quote_at_once(language: str, after: str) -> None:
    before = "," * 50_000 + '"' if language == "de" else '"' + "," * 50_000
    text = normalize.normalise(pl.Series([before]), "NFC", "moses", language)
    assert text.to_list() == [after] == [Spelling("NFC", "moses", language).tidy(before)]


@pytest.mark.parametrize(
    "text", ["Ça coûte 5 €…", "Größe «ß»", "Ångström", "C’est l’été", "são Ãguas", "naïve – ‘quoted’"]
)
def test_sound_text_stays(text: str) -> None:
    assert normalise(text) == text


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u3164", ""), ("\uffa0 \u3164", ""), ("\u115f\u1160", ""), ("\u1160", ""), ("\u1160 \u115f \u1160", ""),
        ("\u2800", ""), ("a\u3164b", "a b"), ("a \u1160 b", "a b"), ("\u115f\u1161", "\u115f\u1161"),
        ("\u1100\u1160", "\u1100\u1160"),
    ],
)  # fmt: skip
def test_blanks_that_are_not_seen_are_spaces(text: str, expected: str, form: UnicodeForm) -> None:
    assert normalise(text, form) == expected == Spelling(form).tidy(text)


def test_compatibility_characters_are_replaced_only_on_request() -> None:
    assert normalise("ﬁ１") == "ﬁ１"
    assert normalise("ﬁ１", "NFKC") == "fi1"


@settings(max_examples=100)
@given(st.lists(nasty_text, min_size=1, max_size=25), st.sampled_from(["NFC", "NFKC"]))
def test_normalise_is_idempotent(texts: list[str], form: UnicodeForm) -> None:
    once = normalize.normalise(pl.Series(texts, dtype=pl.String), form)

    assert normalize.normalise(once, form).to_list() == once.to_list()


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_every_character_gets_its_form_whether_composed_or_in_parts(form: UnicodeForm) -> None:
    """This holds however many characters are skipped as stable."""
    codes = [*range(0x20, 0x80), *range(0xA0, 0xD800), *range(0xE000, 0x1_0000), *range(0x1_1000, 0x1_2000)]
    known = [chr(code) for code in codes if unicodedata.category(chr(code)) != "Cn"]
    texts = [f"a{text}a" for text in (*known, *(unicodedata.normalize("NFD", character) for character in known))]

    found = normalize.normalise(pl.Series(texts), form)

    assert [pair for pair in zip(texts, found, strict=True) if pair[1] != Spelling(form).tidy(pair[0])] == []


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


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("It is -5°C.", "It is 5°C."),
        ("−5", "5"),
        ("温度-5度", "温度5度"),
        ("(-5)", "(5)"),
        ("£10 or -£10", "£10 or £10"),
        ("1.5 l", "15 l"),
        ("1.5 l", "1,5 l"),
        (".5", "5"),
        ("1.2.3", "12.3"),
        ("10:30", "1030"),
        ("٣٫٥", "٣٥"),
        ("2024-01-05", "20240105"),
        ("1/2", "12"),
        ("pages 5–8", "pages 58"),
        ("2 1", "21"),
        ("5 €", "5 $"),
        ("$5", "5"),
        ("5%", "5"),
        ("3 < 5", "3 > 5"),
        ("C++", "C"),
        ("C#", "C"),
        ("Q&A", "QA"),
        ("a → b", "a ← b"),
        ("done ✓", "done ✗"),
        ("5′", "5″"),
    ],
)
def test_symbols_and_marks_in_numbers_count(text: str, other: str) -> None:
    assert len(set(keys(text, other))) == 2


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("10 – 20", "10-20"),
        ("−5", "-5"),
        ("In 1995, he", "In 1995 he"),
        ("1995, 20", "1995 20"),
        ("(5)", "5"),
        ("« 5 »", "5"),
        ("COVID-19", "covid 19"),
        ("5. Platz", "5 Platz"),
        ("5 - apples", "5 apples"),
        ("`x´", "x"),
    ],
)
def test_punctuation_beside_numbers_does_not_count(text: str, other: str) -> None:
    assert len(set(keys(text, other))) == 1


def test_digits_of_all_scripts_have_values_and_superscripts_keep_theirs() -> None:
    texts = "١٢ ۱۲ १२ ১২ ๑๒ １２", "x² ① ½ Ⅻ 十二"

    assert evaluate(normalize.with_western_digits(pl.col("text")), *texts) == ["12 12 12 12 12 12", texts[1]]


def test_keys_of_mere_punctuation_differ() -> None:
    assert len(set(keys("!!!", "???", "", "。"))) == 4


def test_hashes_are_pinned() -> None:
    assert evaluate(normalize.hashed(pl.col("text")), "", "x") == [3244421341483603138, 16929150178197425425]


def test_words() -> None:
    assert evaluate(normalize.words(pl.col("text")), 'He said: "Don\'t!" - twice.', "...") == [
        ["he", "said", "dont", "twice"],
        [],
    ]
    assert evaluate(normalize.words(pl.col("text")), "我有2个GPU。") == [["我", "有", "2", "个", "gpu"]]


def moses(text: str, language: str) -> str:
    result: str = normalize.normalise(pl.Series([text]), "NFC", "moses", language).item()
    return result


@pytest.mark.parametrize(
    ("language", "before", "after"),
    [
        ("en", "“It’s – well…”", '"It\'s - well..."'),
        ("en", "`so' and ''that''", "'so' and \" that \""),
        ("en", "here—there", "here - there"),
        ("en", "( a ) , b( c )d", "(a), b (c) d"),
        ("en", "5 % : 6 ;", "5%: 6;"),
        ("en", 'He said "yes", "no".', 'He said "yes," "no."'),
        ("de", "Er sagte „ja,“ und ging.", 'Er sagte "ja", und ging.'),
        ("de", "Er sagte „ja.“ Dann ging er.", 'Er sagte "ja". Dann ging er.'),
        ("de", "Er sagte „ja.“", 'Er sagte "ja."'),
        ("cs", "Řekl „ano,“ „ne“.", 'Řekl "ano," "ne".'),
        ("fr", "«\u00a0Oui\u00a0!\u00a0» dit-il\u202f?", '"Oui!" dit-il?'),
        ("fr", "1\u00a0000 euros", "1,000 euros"),
        ("en", "1\u00a0000 euros", "1.000 euros"),
        ("en", "1 000 euros", "1 000 euros"),
        ("ko", "그는 “네”라고 했다…", '그는 "네"라고 했다...'),
    ],
)
def test_punctuation_by_the_rules_of_moses(language: str, before: str, after: str) -> None:
    assert moses(before, language) == after


def test_punctuation_is_left_alone_by_default() -> None:
    assert normalise("“It’s – well…”") == "“It’s – well…”"


MARKS = [*"()[]\"'`´‘’‚„“”«»–—….,:;!?%0123 \u00a0\u202f\u00ad<ax", "&quot;", "&nbsp;", "''", ',"', '."']


@pytest.mark.parametrize(
    ("language", "before", "after"),
    [
        ("zh", "你好,世界!", "你好，世界！"),
        ("zh", "打开 (文件) 菜单, 然后点击.", "打开（文件）菜单，然后点击。"),
        ("zh", "函数(int)返回 1,000.5,时间:12:30;好吗?!", "函数(int)返回 1,000.5，时间：12:30；好吗？！"),
        ("zh", "参见 http://a.b/c?d=e,谢谢...", "参见 http://a.b/c?d=e，谢谢..."),
        ("zh", "很好:-) ＡＢＣ１２３", "很好:-) ABC123"),
        ("zh", "《书》,见 2.5 节。", "《书》，见 2.5 节。"),
        ("ja", "はい, そうです.", "はい、そうです。"),
        ("en", "Hello, world! (Yes.)", "Hello, world! (Yes.)"),
        ("ko", "안녕, 세상!", "안녕, 세상!"),
    ],
)
def test_marks_beside_han_and_kana_in_full_width(language: str, before: str, after: str) -> None:
    result = normalize.normalise(pl.Series([before]), "NFC", "full_width", language).item()
    assert result == after == Spelling("NFC", "full_width", language).tidy(before)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("你好，世界！", "你好, 世界!"),
        ("１２：３０，１，０００。", "12:30,1,000."),
        ("打开（文件）菜单", "打开 (文件) 菜单"),
        ("《红楼梦》、《西游记》。", '"红楼梦", "西游记".'),
        ("「はい」と言う", '"はい" と言う'),
        ("Ｈｅｌｌｏ，ｗｏｒｌｄ！", "Hello, world!"),
    ],
)
def test_marks_in_half_width(before: str, after: str) -> None:
    result = normalize.normalise(pl.Series([before]), "NFC", "half_width", "zh").item()
    assert result == after == Spelling("NFC", "half_width", "zh").tidy(before)


WIDE = [*",.!?;:() \"'，。、！？；：（）「」《》【】．１Ａａ1Aa你好かカ한/-)", "...", "://", "&#65292;", "\u3000"]


@settings(max_examples=100)
@given(
    st.lists(st.lists(st.sampled_from(WIDE) | nasty_text, max_size=12).map("".join), min_size=1, max_size=25),
    st.sampled_from(["half_width", "full_width"]),
    st.sampled_from(["zh", "ja", "en"]),
)
def test_width_is_idempotent(texts: list[str], width: Punctuation, language: str) -> None:
    once = normalize.normalise(pl.Series(texts, dtype=pl.String), "NFC", width, language).to_list()

    assert normalize.normalise(pl.Series(once, dtype=pl.String), "NFC", width, language).to_list() == once


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from(MARKS) | nasty_text, max_size=12).map("".join), min_size=1, max_size=25),
    st.sampled_from(["NFC", "NFKC"]),
    st.sampled_from(["en", "de", "cs", "ko"]),
)
def test_punctuation_is_idempotent(texts: list[str], form: UnicodeForm, language: str) -> None:
    once = normalize.normalise(pl.Series(texts, dtype=pl.String), form, "moses", language)

    assert normalize.normalise(once, form, "moses", language).to_list() == once.to_list()


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from([*MARKS, *WIDE]) | st.characters(codec="utf-8"), max_size=15).map("".join),
    st.sampled_from(["NFC", "NFKC"]),
    st.sampled_from(["as_is", "moses", "half_width", "full_width"]),
    st.sampled_from(["en", "de", "cs", "ko", "ja"]),
)
def test_a_line_is_spelt_as_a_column_is(line: str, form: UnicodeForm, punctuation: Punctuation, language: str) -> None:
    """This holds for lines without entities, and without controls that represent no character, which training drops."""
    column = pl.Series([line])
    assume("&" not in line)
    assume(not re.search("[\x81\x8d\x8f\x90\x9d]", line))

    assert (
        Spelling(form, punctuation, language).tidy(line) == normalize.normalise(column, form, punctuation, language)[0]
    )
