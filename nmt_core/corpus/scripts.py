"""Count words and weigh letters by the script of the text itself, not by a list of languages.

In scripts without spaces between words, a letter with its marks counts as a word (in Tibetan, a syllable). This holds
for Classical Chinese, Wu, Shan or Dzongkha as it does for Chinese, Thai and Burmese, and for a Chinese name in English
text.

A character of some scripts holds as much text as several Latin letters. The weights are rounded from parallel text: the
Universal Declaration of Human Rights, and news for Korean.
"""

import functools
import operator
import re

import polars as pl

_LETTERS = (
    r"\p{Han}\p{Hiragana}\p{Katakana}ーｰ\p{Bopomofo}\p{Yi}\p{Tangut}\p{Nushu}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}\p{Javanese}\p{Balinese}"
)
_NOT_LETTERS = r"\p{P}\p{S}\p{N}\p{Z}"
_TIBETAN = rf"[\p{{Tibetan}}--[{_NOT_LETTERS}]]+[\x{{0f0b}}\x{{0f0c}}]?"
_UNIT = rf"{_TIBETAN}|[[{_LETTERS}]--[{_NOT_LETTERS}]]\p{{M}}*"
_UNSPACED = rf"[{_LETTERS}\p{{Tibetan}}]"

WEIGHTS = {r"\p{Han}\p{Yi}": 3.0, r"\p{Hangul}": 2.5, r"\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Ethiopic}": 2.0}
"""Latin letters for which a character stands, by the characters of scripts that count more than one."""
_WEIGHED = f"[{''.join(WEIGHTS)}]"


def with_spaces(text: pl.Expr) -> pl.Expr:
    """Return text in which words of all scripts are parted by single spaces. Other text is unchanged.

    The text must have single spaces, and none at its ends.
    """
    return text.map_batches(_with_spaces, return_dtype=pl.String, is_elementwise=True)


def is_unit(words: pl.Series) -> pl.Series:
    """Return True for each word that is one letter, or one syllable, of a script without spaces."""
    return words.str.contains(rf"^(?:{_UNIT})$")


@functools.lru_cache(maxsize=4096)
def is_unspaced(text: str) -> bool:
    """Return True if a character of a text is in a script without spaces."""
    return bool(pl.Series([text]).str.contains(_UNSPACED).item())


def extra_weight(text: pl.Expr, within: str = r"\p{Any}") -> pl.Expr:
    """Return how much heavier each sentence is than its number of characters.

    Only characters of the class `within`, the inside of a class of a regular expression, count.
    """
    return text.map_batches(lambda series: _extra_weight(series, within), return_dtype=pl.Float64, is_elementwise=True)


def is_weighed(within: str) -> bool:
    """Return True if a class of characters names a script of `WEIGHTS`."""
    return any(name in within for one in WEIGHTS for name in re.findall(r"\\p\{\w+\}", one))


def is_mostly_unspaced(text: pl.Series) -> bool:
    """Return True if most words of a text are single letters or syllables of scripts without spaces."""
    words = _with_spaces(text.str.strip_chars(" ")).str.split(" ").explode(empty_as_null=False)
    return bool(words.len()) and 2 * int(is_unit(words).sum()) > words.len()


def _with_spaces(text: pl.Series) -> pl.Series:
    rows = text.str.contains(_UNSPACED).arg_true()
    if rows.is_empty():
        return text
    parted = text.gather(rows).str.replace_all(f"({_UNIT})", " $1 ").str.replace_all(" {2,}", " ").str.strip_chars(" ")
    return text.clone().scatter(rows, parted)


def _extra_weight(text: pl.Series, within: str) -> pl.Series:
    nothing = pl.repeat(0.0, len(text), dtype=pl.Float64, eager=True).alias(text.name)
    rows = text.str.contains(_WEIGHED).arg_true()
    if rows.is_empty():
        return nothing
    held = text.gather(rows)
    extra = [held.str.count_matches(f"[[{one}]&&[{within}]]") * (weight - 1) for one, weight in WEIGHTS.items()]
    return nothing.scatter(rows, functools.reduce(operator.add, extra))
