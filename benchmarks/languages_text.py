"""Real text in many languages for `languages.py`: messages of programs (.mo) and the Declaration of Human Rights.

Messages are English with their translations. Lists of countries and languages (iso-codes) are left out, as names of
places are no sentences. Each text belongs to one half by a hash of itself: half 0 calibrates, half 1 is reported.
"""

import gettext
import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from nmt_core.config.language_codes import canonical
from nmt_core.corpus import normalize

MOST = 12_000
"""Texts of a language and domain."""
LETTERS = r"[\p{Alphabetic}]"
_ALIASES = {"als": "sq", "azj": "az", "lvs": "lv", "ekk": "et", "khk": "mn", "zlm": "ms", "plt": "mg", "pbu": "ps"}
"""Codes of the Declaration that are one variety of a language whose code is in common use."""
_NAMES = (
    "Latin Cyrillic Arabic Devanagari Hangul Han Hiragana Katakana Greek Hebrew Armenian Georgian Ethiopic Bengali "
    "Gujarati Gurmukhi Tamil Telugu Kannada Malayalam Sinhala Thai Lao Khmer Myanmar Tibetan Oriya Thaana Tifinagh "
    "Syriac Cherokee Canadian_Aboriginal Ol_Chiki Meetei_Mayek Mongolian Vai Yi Javanese Tai_Tham Nko Chakma Adlam"
)
_SCRIPTS = _NAMES.split()


def read(catalogues: Sequence[Path], declarations: Path | None) -> pl.DataFrame:
    """Return the columns language, script, domain, source (English, or empty), target and half, each text once."""
    rows = list(dict.fromkeys(row for folder in catalogues for row in _messages(folder)))
    rows += list(_articles(declarations)) if declarations else []
    names = ("language", "domain", "source", "target")
    text = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    sides = (pl.col("source"), pl.col("target"))
    text = text.with_columns(place=normalize.hashed(sides[1])).sort("place", "source")
    text = text.unique(["language", "target"], keep="first", maintain_order=True)
    text = text.group_by("language", "domain", maintain_order=True).head(MOST)
    text = text.with_columns(normalize.normalised(side, "NFC") for side in sides)
    text = text.filter(sides[1].str.contains(LETTERS) & (normalize.key(sides[0]) != normalize.key(sides[1])))
    return text.with_columns(script=_script(text["target"]), half=pl.col("place") % 2)


def _messages(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    for file in sorted(folder.rglob("*.mo")):
        locale = file.parent.parent.name
        if file.name.startswith("iso_") or locale.startswith("en"):
            continue
        try:
            with file.open("rb") as opened:
                messages = gettext.GNUTranslations(opened)._catalog  # type: ignore[attr-defined]
        except (OSError, UnicodeError, IndexError, ValueError):  # not a catalogue that can be read
            continue
        for key, translation in messages.items():
            source = (key[0] if isinstance(key, tuple) else key).rpartition("\x04")[2]
            if source and translation:
                yield canonical(locale), "messages", source.replace("\n", " "), translation.replace("\n", " ")
                yield "en", "messages", translation.replace("\n", " "), source.replace("\n", " ")


def _articles(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    for file in sorted(folder.glob("[a-z]*.html")):  # a number stands for a dialect that has no code
        page = file.read_text(encoding="utf-8")
        code = re.search(r'data-iso6393="([^"]+)"', page)
        for paragraph in re.findall(r"<(?:p|h2|h3)>(.*?)</", page, re.DOTALL) if code else []:
            language = canonical(_ALIASES.get(code[1], code[1]))  # type: ignore[index]
            yield language, "declaration", "", html.unescape(re.sub(r"<[^>]+>", " ", paragraph))


def _script(text: pl.Series) -> pl.Series:
    """Return the script of most letters. Kana and Han are one, because a Japanese sentence has both."""
    counts = text.to_frame("text").select(
        pl.col("text").str.count_matches(rf"\p{{{name}}}").alias(name) for name in _SCRIPTS
    )
    most = counts.to_numpy().argmax(axis=1)
    return pl.Series([_SCRIPTS[number] for number in most]).replace({"Hiragana": "Han", "Katakana": "Han"})
