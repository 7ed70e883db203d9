"""Measure how well a vocabulary fits text: its coverage, the length of its pieces, and its unused pieces."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from nmt_core.corpus import normalize, scripts
from nmt_core.tokenizer.bulk import BulkEncoder
from nmt_core.tokenizer.pretokenize import BOUNDARY
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer


class Fit(BaseModel):
    """Fit of one vocabulary to the text of one language."""

    model_config = ConfigDict(frozen=True)
    known_characters: float
    """Share of the characters of the text, spaces excluded, that have a piece of their own."""
    known_tokens: float
    """Share of the tokens that are not <unk>."""
    byte_tokens: float
    """Share of the tokens that encode one byte of a character without a piece."""
    tokens_per_word: float
    """Mean number of tokens of a word. A character of a script without spaces, such as Han, Kana or Thai, counts as a
    word, as it does in `clean`."""
    characters_per_token: float


@dataclass(frozen=True)
class Measured:
    """Fit of a vocabulary, and the number of uses of each piece by id."""

    fit: Fit
    used_V: np.ndarray


def measure(tokenizer: Tokenizer, lines: Sequence[str]) -> Measured:
    """Encode the lines and measure the fit."""
    ids = BulkEncoder(tokenizer).encode(pa.array(lines, pa.string())).values.to_numpy()
    used_V = np.bincount(ids, minlength=tokenizer.vocab_size)
    spelt_V = _byte_pieces(tokenizer)
    characters = Counter("".join(lines).replace(" ", ""))
    strange = {UNK_ID, *np.flatnonzero(spelt_V).tolist()}
    known = sum(
        count
        for count, pieces in zip(characters.values(), tokenizer.encode(list(characters)), strict=True)
        if strange.isdisjoint(pieces)
    )
    fit = Fit(
        known_characters=_share(known, characters.total()),
        known_tokens=_share(len(ids) - int(used_V[UNK_ID]), len(ids)),
        byte_tokens=_share(int(used_V[spelt_V].sum()), len(ids)),
        tokens_per_word=round(len(ids) / max(1, _words(lines)), 3),
        characters_per_token=round(sum(map(len, lines)) / max(1, len(ids)), 3),
    )
    return Measured(fit, used_V)


def unused_pieces(tokenizer: Tokenizer, used_V: np.ndarray) -> list[str]:
    """Return the pieces that were never used, shortest first, except special pieces, bytes and the boundary mark.

    Language tokens are special pieces, because no text spells them.
    """
    controls_V = np.array([tokenizer.is_control(index) for index in range(tokenizer.vocab_size)])
    unused_V = (used_V == 0) & ~_byte_pieces(tokenizer) & ~controls_V
    unused_V[[PAD_ID, UNK_ID, BOS_ID, EOS_ID]] = False
    pieces = (tokenizer.piece(index) for index in np.flatnonzero(unused_V).tolist())
    return sorted(filter(BOUNDARY.__ne__, pieces), key=lambda piece: (len(piece), piece))


def _words(lines: Sequence[str]) -> int:
    """Return the number of words, counted by script because the stage does not know the language."""
    text = pl.Series("text", lines, dtype=pl.String).to_frame()
    single = pl.col("text").str.replace_all(r"\s+", " ").str.strip_chars(" ")
    return int(text.select(normalize.word_count(scripts.with_spaces(single)).sum()).item())


def _byte_pieces(tokenizer: Tokenizer) -> np.ndarray:
    return np.array([tokenizer.is_byte(index) for index in range(tokenizer.vocab_size)])


def _share(part: int, whole: int) -> float:
    return round(part / max(1, whole), 6)
