"""Fold what may hide a held-out sentence from view: marks that a reader does not miss, and other forms of a letter.

Folded are the width of characters, presentation forms, digits of other scripts, invisible characters, variation
selectors, the vowel signs of Arabic and Hebrew, stress marks on Cyrillic, accents that Greek capitals lose, and the
capitals that `lower` does not know. Marks that spell words stay: accents of Latin, vowel signs of India and Thailand,
tones. Different sentences stay different.
"""

import unicodedata
from functools import cache

import polars as pl

from nmt_core.corpus import normalize

# Format characters, grapheme joiner, Hangul fillers, Mongolian and other variation selectors, tatweel.
_UNSEEN = r"\p{Cf}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0\ufe00-\ufe0f\x{e0100}-\x{e01ef}\u0640"
_ARABIC = r"\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u08ca-\u08ff"
_HEBREW = r"\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
# Marks of Syriac and Vedic, strokes through letters, and marks around them.
_OTHERS = r"\u0730-\u074a\u0951-\u0954\u1cd0-\u1cff\u0334-\u0338\u20d0-\u20f0"
_REMOVED = f"[{_UNSEEN}{_ARABIC}{_HEBREW}{_OTHERS}]"
_STRESS = r"(\p{Cyrillic})[\u0300-\u036f]+"

_GREEK_ACCENTS = r"ΆΈΉΊΌΎΏΐάέήίΰόύώ\u1f00-\u1fff"
_WIDE = r"０-９Ａ-Ｚａ-ｚ＋＜＝＞＾｜～＄％＆＃＠＊／＼\uff65-\uffdc\uffe0-\uffee"
_FORMS = r"ﬀ-ﬆﬓ-ﬗ\ufb1d-\ufb4f\ufb50-\ufdff\ufe70-\ufefc\x{1d400}-\x{1d7ff}"
_CASES = "ßẞςΣ\u0130"
_NEEDS_FOLDING = rf"{_REMOVED}|{_STRESS}|[{_GREEK_ACCENTS}{_WIDE}{_FORMS}{_CASES}]|[\p{{Nd}}--[0-9]]"
_DOTTED = frozenset({"az", "crh", "tr", "tt"})  # languages whose small I has a dot of its own


def folded(text: pl.Series, language: str) -> pl.Series:
    """Return the text of a language (normalised, no nulls) with everything folded that may hide a sentence."""
    rows, folded_text = _changes(text, language)
    return text.clone().scatter(rows, folded_text) if rows.len() else text


def keys(text: pl.Series, language: str, known: pl.Series | None = None) -> pl.Series:
    """Return the keys (UInt64) under which sentences of a language count as the same held-out sentence.

    Args:
        text: normalised sentences.
        language: ISO 639 code.
        known: keys of the same sentences by `normalize.key`, if they have been computed. They stay where nothing is
            folded.
    """
    if known is None:
        return _keys(folded(text, language))
    rows, folded_text = _changes(text, language)
    return known.clone().scatter(rows, _keys(folded_text)) if rows.len() else known


def _keys(text: pl.Series) -> pl.Series:
    return text.to_frame("text").select(normalize.key(pl.col("text"))).to_series()


def _changes(text: pl.Series, language: str) -> tuple[pl.Series, pl.Series]:
    """Return the rows that may change, and their folded text. Most text has none."""
    sign = f"{_NEEDS_FOLDING}|I" if language in _DOTTED else _NEEDS_FOLDING
    rows = text.str.contains(sign).arg_true()
    changed = text.gather(rows)
    if rows.is_empty():
        return rows, changed
    if language in _DOTTED:
        changed = changed.str.replace_all("I", "ı", literal=True).str.replace_all("İ", "i", literal=True)
    return rows, (
        changed.str.replace_many(*_alike())
        .str.replace_all(_REMOVED, "")
        .str.replace_all(_STRESS, "$1")
        .str.normalize("NFC")
    )


@cache
def _alike() -> tuple[list[str], list[str]]:
    """Return characters and what they are folded to. Half-width kana with a mark precede those without."""
    voiced = [f"{chr(kana)}{mark}" for kana in range(0xFF66, 0xFF9E) for mark in "ﾞﾟ"]
    wide = [chr(code) for code in (*range(0xFF01, 0xFFDD), *range(0xFFE0, 0xFFEF))]
    blocks = ((0xFB00, 0xFB06), (0xFB13, 0xFB17), (0xFB1D, 0xFB4F), (0xFB50, 0xFDFF), (0xFE70, 0xFEFC))
    forms = [chr(code) for first, last in (*blocks, (0x1D400, 0x1D7FF)) for code in range(first, last + 1)]
    pairs = {text: unicodedata.normalize("NFKC", text) for text in (*voiced, *wide, *forms)}
    for code in (*range(0x386, 0x3CF), *range(0x1F00, 0x2000)):
        parts = unicodedata.normalize("NFD", chr(code))
        if len(parts) > 1 and parts[0].isalpha():  # a diaeresis stays, because capitals keep it
            pairs[chr(code)] = unicodedata.normalize("NFC", "".join(p for p in parts if p.isalpha() or p == "\u0308"))
    pairs |= {
        chr(code): str(value) for code in range(0x80, 0x2_0000) if (value := unicodedata.decimal(chr(code), -1)) >= 0
    }
    pairs |= {"ß": "ss", "ẞ": "ss", "ς": "σ", "Σ": "σ", "\u0130": "i"}
    changed = {text: folded for text, folded in pairs.items() if text != folded}
    return list(changed), list(changed.values())
