"""Spell equal sentences equally, and compute keys under which sentences count as the same.

`normalise` repairs entities and mojibake, composes Unicode, removes invisible characters and folds white space. On
request it also unifies quotes, dashes and the spaces at punctuation by the rules of Moses, or sets punctuation in half
or full width. It changes no word. It is idempotent.
"""

import html
import re
import unicodedata
from functools import cache
from typing import cast

import ftfy.badness
import polars as pl
from polars_hash import NonCryptographicHashingNameSpace

from nmt_core.corpus import scripts
from nmt_core.spelling import (
    INVISIBLE,
    LONE_FILLERS,
    SPACES,
    WIDE_FILLERS,
    Punctuation,
    Spelling,
    UnicodeForm,
    moses_rules,
)
from nmt_core.text import mojibake, widths

_ENTITY = r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"
_NEEDS_REPAIR = f"{mojibake.SIGN}|{_ENTITY}"
_ENTITY_IN_PYTHON = re.compile(_ENTITY)
# An ampersand that was escaped repeatedly, as in a database that is saved too often. All levels are resolved
# at once: level by level, a line that holds nothing else would take minutes.
_AMPERSANDS = re.compile(r"&(?:(?:amp|AMP|#0{0,5}38|#[xX]0{0,4}26);)+")

# Characters that a Unicode form never changes, whatever their neighbours. Most text has no others.
_STABLE: dict[UnicodeForm, str] = {
    "NFC": r"\x00-\u02ff\u0400-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u21ff"
    r"\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3\uff01-\uffee",
    "NFKC": r"\x00-\x7f\u00c0-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e\u0400-\u0482\u2018-\u201f"
    r"\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3",
}
_ODD_SPACES = r"\t-\r\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u2800\u3000\u3164\uffa0"
_NEEDS_WORK = {
    form: f"[{INVISIBLE}{_ODD_SPACES}]|[^{stable}]|^ |  | $|{_NEEDS_REPAIR}" for form, stable in _STABLE.items()
}

_REPLACEMENT_CHARACTER = "\ufffd"

_NOT_IN_WORDS = r"[\p{P}\p{S}]"

# Marks that Unicode calls punctuation although they stand for a word: % ‰ & # @ * / \ § ¶ † ′. The backtick and the
# acute accent are symbols by name, and quotes in use.
_MEANT = "%‰‱٪&#@*/\\\\§¶†‡′″‴‵‶‷％＆＃＠＊／＼"
_PUNCTUATION = rf"[[\p{{P}}--[{_MEANT}]]`´]"
_DASH = "[-‐‑‒–—―−﹣－]"
# A hyphen joins letters and digits, except where words are not spaced.
_BEFORE_SIGN = r"(?:[^\p{L}\p{M}\p{Nd}\p{Pd}.,٫−]|[\p{Han}\p{Hiragana}\p{Katakana}])"
# A number with something inside it, or with something before it. The others have no marks that could count.
_MARKED_NUMBER = rf"\d[\p{{P}} −]+\d|{_DASH}\p{{Sc}}?\d|(?:^|{_BEFORE_SIGN})[.,٫]\d"
_GAP, _SIGNED = "\x1f", "\x1e"  # no text has these controls, because they are invisible

_OTHER_DIGIT = r"[\p{Nd}--[0-9]]"


def normalised(text: pl.Expr, form: UnicodeForm, punctuation: Punctuation = "as_is", language: str = "") -> pl.Expr:
    """Return `normalise` as an expression over a String column."""
    return text.map_batches(
        lambda series: normalise(series, form, punctuation, language), return_dtype=pl.String, is_elementwise=True
    )


def normalise(text: pl.Series, form: UnicodeForm, punctuation: Punctuation = "as_is", language: str = "") -> pl.Series:
    """Normalise each sentence (String in, String out, no nulls). The arguments are the fields of a `Spelling`.

    One regular expression finds the sentences that need work, which are few. A repair can uncover another one
    ("&amp;amp;", "&Atilde;&copy;"), and one rule of punctuation may trigger another. Such rows are processed until
    nothing changes.
    """
    spelling = Spelling(form, punctuation, language)
    if punctuation == "moses":
        return _reworked(text, spelling)
    sign = _NEEDS_WORK[form] if punctuation == "as_is" else f"{_NEEDS_WORK[form]}|{widths.SIGN[punctuation]}"
    rows = text.str.contains(sign).arg_true()
    return text if rows.is_empty() else text.clone().scatter(rows, _reworked(text.gather(rows), spelling))


def _reworked(text: pl.Series, spelling: Spelling) -> pl.Series:
    result = _tidy(_punctuate(_repair(text), spelling), spelling.unicode_form)
    pending = result.str.contains(_NEEDS_REPAIR)
    if spelling.punctuation != "as_is":
        pending |= result != text
    places = pending.arg_true()
    while not places.is_empty():
        before = result.gather(places)
        after = _tidy(_punctuate(_repair(before), spelling), spelling.unicode_form)
        changed = before != after
        places = places.filter(changed)
        result = result.scatter(places, after.filter(changed))
    return result


def is_repaired(text: pl.Expr) -> pl.Expr:
    """Return True for each sentence in which `normalise` resolves an entity or mojibake."""
    return text.map_batches(lambda series: _repair(series) != series, return_dtype=pl.Boolean, is_elementwise=True)


def is_broken(text: pl.Expr) -> pl.Expr:
    """Return True for each normalised sentence that still holds U+FFFD or mojibake that could not be repaired."""
    return text.map_batches(_is_broken, return_dtype=pl.Boolean, is_elementwise=True)


def key(text: pl.Expr) -> pl.Expr:
    """Return a UInt64 that is equal for sentences that differ only in case, punctuation and spaces.

    Symbols count ("5 €", "5 $"), and so do marks inside numbers and signs before them ("1.5", "15", "-5"). A sentence
    that consists only of punctuation is hashed unchanged.
    """
    folded = text.map_batches(_folded, return_dtype=pl.String, is_elementwise=True)
    return hashed(pl.when(folded == "").then(text).otherwise(folded))


def _folded(text: pl.Series) -> pl.Series:
    lower = text.str.to_lowercase()
    folded = lower.str.replace_all(_PUNCTUATION, "").str.replace_all(" ", "", literal=True)
    rows = text.str.contains(r"\d").arg_true()
    rows = rows.filter(text.gather(rows).str.contains(_MARKED_NUMBER))
    return folded.scatter(rows, _folded_with_numbers(lower.gather(rows))) if rows.len() else folded


def _folded_with_numbers(text: pl.Series) -> pl.Series:
    """Remove punctuation and spaces, except where they are part of a number. Dashes are alike, and so are spaces."""
    return (
        text.str.replace_all(_DASH, "-")
        .str.replace_all(r"(\d) ?- ?", "$1-")
        .str.replace_all(rf"(^|{_BEFORE_SIGN})([-.,٫])(\p{{Sc}}?\d)", f"${{1}}${{2}}{_SIGNED}${{3}}")
        .str.replace_all(rf"(\d){_PUNCTUATION}* +{_PUNCTUATION}*", f"${{1}}{_GAP}")
        .str.replace_all(
            rf"(\d+(?:(?:{_PUNCTUATION}+|{_GAP}){_SIGNED}?\d+)*|[-.,٫]{_SIGNED})|{_PUNCTUATION}|[{_GAP}{_SIGNED} ]",
            "$1",
        )
    )


def hashed(text: pl.Expr) -> pl.Expr:
    """Return a UInt64 hash of a String column, equal on every machine and in every version (`Expr.hash` is not)."""
    return cast(pl.Expr, NonCryptographicHashingNameSpace(text).xxh3_64())


def words(text: pl.Expr) -> pl.Expr:
    """Return the list of words of each sentence, in lower case and without punctuation.

    A letter of a script without spaces is a word (see `scripts`).
    """
    folded = scripts.with_spaces(text.str.to_lowercase()).str.replace_all(_NOT_IN_WORDS, "")
    single = folded.str.replace_all(r" {2,}", " ").str.strip_chars(" ")
    return pl.when(single != "").then(single.str.split(" ")).otherwise(pl.lit([], dtype=pl.List(pl.String)))


def word_count(spaced: pl.Expr) -> pl.Expr:
    """Return the number of words of a normalised sentence that has passed `scripts.with_spaces`."""
    return pl.when(spaced == "").then(0).otherwise(spaced.str.count_matches(" ", literal=True) + 1)


def with_western_digits(text: pl.Expr) -> pl.Expr:
    """Return the text with the digits of every script as 0 to 9. Superscripts and circled digits stay."""
    return text.map_batches(_with_western_digits, return_dtype=pl.String, is_elementwise=True)


def _with_western_digits(text: pl.Series) -> pl.Series:
    rows = text.str.contains(_OTHER_DIGIT).arg_true()
    if not rows.len():
        return text
    return text.clone().scatter(rows, text.gather(rows).str.replace_many(*_digits()))


@cache
def _digits() -> tuple[list[str], list[str]]:
    """Return all digits beyond ASCII, and their values."""
    digits = [character for character in map(chr, range(0x80, 0x2_0000)) if unicodedata.decimal(character, -1) >= 0]
    return digits, [str(unicodedata.decimal(digit)) for digit in digits]


def _repair(text: pl.Series) -> pl.Series:
    """Resolve entities and mojibake in the rows that a cheap test selects."""
    rows = text.str.contains(_NEEDS_REPAIR).arg_true()
    if rows.is_empty():
        return text
    repaired = [_repair_one(sentence) for sentence in text.gather(rows).to_list()]
    return text.clone().scatter(rows, pl.Series(repaired, dtype=pl.String))


def _repair_one(sentence: str) -> str:
    # Only entities that end in ";" count: "AT&T" and "&copy" without it are more often meant literally.
    single = _AMPERSANDS.sub("&", sentence)
    return mojibake.repair(_ENTITY_IN_PYTHON.sub(lambda match: html.unescape(match[0]), single))


def _punctuate(text: pl.Series, spelling: Spelling) -> pl.Series:
    if spelling.punctuation == "moses":
        for rule in moses_rules(spelling.language):
            text = text.str.replace_all(rule.pattern, re.sub(r"\\([0-9])", r"${\1}", rule.replacement))
    elif spelling.punctuation != "as_is":
        width = spelling.punctuation
        rows = text.str.contains(widths.SIGN[width]).arg_true()
        changed = [widths.set_width(line, width, spelling.language) for line in text.gather(rows).to_list()]
        text = text.clone().scatter(rows, pl.Series(changed, dtype=pl.String))
    return text


def _tidy(text: pl.Series, form: UnicodeForm) -> pl.Series:
    """Remove invisible characters, compose, and fold white space. In this order the function is idempotent."""
    return (
        text.str.replace_all(f"[{INVISIBLE}]", "")
        .str.replace_all(WIDE_FILLERS, " ")
        .str.normalize(form)
        .str.replace_all(SPACES, " ")
        .str.replace_all(LONE_FILLERS, "${1}")
        .str.strip_chars(" ")
        .rename(text.name)
    )


def _is_broken(text: pl.Series) -> pl.Series:
    broken = text.str.contains(_REPLACEMENT_CHARACTER, literal=True)
    rows = (text.str.contains(mojibake.SIGN) & ~broken).arg_true()
    if rows.is_empty():
        return broken
    return broken.scatter(rows, [ftfy.badness.is_bad(sentence) for sentence in text.gather(rows).to_list()])
