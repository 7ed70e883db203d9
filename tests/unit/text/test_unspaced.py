"""The scripts without spaces are the same ones for `re` and for polars."""

import sys
from unicodedata import name, ucd_3_2_0

import polars as pl

from nmt_core.corpus.scripts import is_unit
from nmt_core.text.unspaced import UNSPACED

_OF_NO_SCRIPT = {"\u3006", "\uff9e", "\uff9f"}
"""A mark of letters and two marks of half-width Kana, which Unicode assigns to no script."""


def test_both_name_the_same_letters() -> None:
    """Letters of an old Unicode: Python and polars know different new ones."""
    letters = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if ucd_3_2_0.category(chr(code)) in ("Lo", "Lm") and chr(code) not in _OF_NO_SCRIPT
    ]
    by_polars = is_unit(pl.Series(letters)).to_list()
    others = [one for one, is_one in zip(letters, by_polars, strict=True) if bool(UNSPACED.match(one)) != is_one]
    assert len(letters) > 80_000
    assert [f"{ord(letter):x} {name(letter)}" for letter in others] == []
