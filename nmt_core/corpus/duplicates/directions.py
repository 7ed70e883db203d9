"""Directions of translation that corpora serve: they decide which copies may be dropped and which words can be equal.

A corpus has pairs of languages, such as `en-de` and `de-en`. Its files are in the first one, source before target.
"""

from collections.abc import Sequence

import polars as pl

from nmt_core.corpus import normalize
from nmt_core.corpus.duplicates.shuffle import BOTH_DIRECTIONS, Words

_FORWARD, _BACKWARD = 1, 2


def forward(pair: str) -> str:
    """Return the pair whose languages are in alphabetical order: `de-en` for `en-de`."""
    return "-".join(sorted(pair.split("-")))


def uses_of(corpora: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Return the directions that each corpus serves (see `shuffle.groups`), or nothing if all serve the same.

    Args:
        corpora: pairs of languages of each corpus.
    """
    uses = tuple(
        BOTH_DIRECTIONS if len(pairs) != 1 else _FORWARD if pairs[0] == forward(pairs[0]) else _BACKWARD
        for pairs in corpora
    )
    return uses if len({*uses}) > 1 else ()


def salts_of(corpora: Sequence[Sequence[str]]) -> Words:
    """Return the bits in which the hashes of words are changed on the source and the target side, (corpora, 2).

    They are equal for equal languages of both sides, whatever their order. So a word of `en-de` can be equal to a word
    of `de-en` in the same language, and never to one of `en-fr`.

    Args:
        corpora: pairs of languages of each corpus.
    """
    sides = [f"{forward(pairs[0])} {language}" for pairs in corpora for language in pairs[0].split("-")]
    hashes = pl.DataFrame({"side": sides}, schema={"side": pl.String}).select(normalize.hashed(pl.col("side")))
    return hashes.to_series().to_numpy().reshape(-1, 2)
