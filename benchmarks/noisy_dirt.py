"""Define the dirt of the synthetic text: for each kind, its share and its effect on a pair.

The effect is two polars expressions over the columns source, target and variety (Int64, random).
"""

from dataclasses import dataclass

import polars as pl
from noisy_words import FRENCH

VARIETIES = len(FRENCH) ** 5
"""Number of values of the column variety."""

_SOURCE, _TARGET, _VARIETY = pl.col("source"), pl.col("target"), pl.col("variety")
_MISREAD = {"ä": "Ã¤", "ö": "Ã¶", "ü": "Ã¼", "ß": "ÃŸ", "Ä": "Ã„", "Ö": "Ã–", "Ü": "Ãœ", "a": "â€™", "i": "Ã©"}
_CONTROLS = ["\x07", "\x1b", "\u200b", "\u00ad", "\u00a0", "\ufeff"]


@dataclass(frozen=True)
class Dirt:
    """One kind of dirt."""

    per_mille: int
    """Rows of this kind per thousand rows."""
    source: pl.Expr = _SOURCE
    """The dirty source side."""
    target: pl.Expr = _TARGET
    """The dirty target side."""
    of_earlier_pair: bool = False
    """True if it is made of an earlier pair, and not of a new one."""


def _chosen(values: list[str], digit: int = 0) -> pl.Expr:
    """Return one of the values, chosen by one digit of the variety to the base of their number."""
    return pl.lit(pl.Series(values)).gather(_VARIETY // len(values) ** digit % len(values))


def _one_in(rows: int, dirty: pl.Expr, text: pl.Expr) -> pl.Expr:
    """Return the dirty text in one of this many rows, and the other text in the rest."""
    return pl.when(_VARIETY % rows == 0).then(dirty).otherwise(text)


def _variant(text: pl.Expr) -> pl.Expr:
    bare = text.str.strip_chars(".?!:")
    lower, upper, dots = text.str.to_lowercase(), text.str.to_uppercase(), bare + " ..."
    return pl.when(_VARIETY % 3 == 0).then(lower).when(_VARIETY % 3 == 1).then(upper).otherwise(dots)


def _tagged(text: pl.Expr) -> pl.Expr:
    return pl.format('<b>{}</b><a href="page{}.html">{}</a>', text.str.head(10), _VARIETY % 1000, text.str.slice(10))


def _with_entities(text: pl.Expr) -> pl.Expr:
    return pl.format("&quot;{}&quot; &amp; &#39;{}&#39;", text, text.str.head(4))


def _misread(text: pl.Expr) -> pl.Expr:
    return text.str.replace_many(_MISREAD)


def _with_address(text: pl.Expr) -> pl.Expr:
    return pl.format(
        "{} https://www.example.org/{}/{}?page={}", text, _chosen(FRENCH), _chosen(FRENCH, 1), _VARIETY % 97
    )


def _with_controls(text: pl.Expr) -> pl.Expr:
    return pl.format("{}{}{}", text.str.head(6), _chosen(_CONTROLS), text.str.slice(6))


_SENTENCE_IN_FRENCH = pl.format("{} {} {} {} {}.", *(_chosen(FRENCH, digit) for digit in range(5)))
_SYMBOLS = pl.format("{} -- {}.{} | {} ==>", _VARIETY % 1009, _VARIETY % 31, _VARIETY % 12, _VARIETY % 7919)
_TOO_LONG = pl.concat_str([_SOURCE] * 40, separator=" ")
_FIRST_WORD = _TARGET.str.extract(r"^(\S+)")

DIRT = {
    "duplicate": Dirt(230, of_earlier_pair=True),
    "variant": Dirt(30, _variant(_SOURCE), _variant(_TARGET), of_earlier_pair=True),
    "copy": Dirt(100, target=_SOURCE),
    "wrong language": Dirt(
        30, _one_in(2, _TARGET, _SOURCE), pl.when(_VARIETY % 2 == 0).then(_SOURCE).otherwise(_SENTENCE_IN_FRENCH)
    ),
    "markup": Dirt(30, _tagged(_SOURCE), _one_in(3, _TARGET, _tagged(_TARGET))),
    "entities": Dirt(20, _with_entities(_SOURCE), _with_entities(_TARGET)),
    "mojibake": Dirt(15, target=_misread(_TARGET)),
    "too long": Dirt(5, _TOO_LONG, _TOO_LONG),
    "too short": Dirt(10, _SOURCE.str.head(1), _TARGET.str.head(1)),
    "length ratio": Dirt(15, target=_FIRST_WORD),
    "addresses": Dirt(20, _with_address(_SOURCE), _with_address(_TARGET)),
    "empty": Dirt(5, _one_in(2, pl.lit(""), _SOURCE), _one_in(3, pl.lit(" "), _TARGET)),
    "control characters": Dirt(10, _with_controls(_SOURCE), _with_controls(_TARGET)),
    "symbols": Dirt(10, _SYMBOLS, _SYMBOLS + " #"),
    "repeated words": Dirt(5, target=pl.format("{} {} {} {} {}", _TARGET, *[_FIRST_WORD] * 4)),
}
"""Kinds of dirt. The other rows, somewhat less than half, are clean."""
