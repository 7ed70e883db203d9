"""The example of Sennrich et al. (2016, section 3.2), learned by SentencePiece as this package uses it.

Words in the paper end in a mark, and words of SentencePiece begin with one. So merges at the end of a word are alike,
and merges at its start have the mark in front.
"""

from collections import Counter
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.tokenizer import SPACE_MARK, SPM_FILE, Tokenizer

WORDS = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


@pytest.fixture(scope="module")
def tokenizer(learn: Any, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("merges")
    (folder / "split").mkdir()
    words = [word for word, count in WORDS.items() for _ in range(count)]
    # A vocabulary has 64 pieces or more: characters of words that come once each, and bring no pair that comes twice.
    rare = [chr(0x4E00 + number) for number in range(36)]
    text = pl.DataFrame({"source": [" ".join(words)], "target": [" ".join(rare)]})
    text.write_parquet(folder / "split" / "train-00000.parquet")
    learn(folder / "out", Artifact("split", "0" * 32, folder / "split"), vocab_size=64)
    return Tokenizer(folder / "out" / SPM_FILE)


def merges(tokenizer: Tokenizer) -> list[str]:
    """Return the pieces of more than one character, in the order in which they were made."""
    pieces = [tokenizer.piece(index) for index in range(4, tokenizer.vocab_size)]
    return [piece for piece in pieces if len(piece) > 1]


def test_the_first_merges_are_the_published_ones(tokenizer: Tokenizer) -> None:
    assert merges(tokenizer)[:2] == ["es", "est"]
    assert {"lo", "low"} <= {piece.removeprefix(SPACE_MARK) for piece in merges(tokenizer)[2:6]}


def test_each_merge_is_of_a_pair_that_comes_most_often(tokenizer: Tokenizer) -> None:
    cut = {word: [SPACE_MARK, *word] for word in WORDS}
    for merged in merges(tokenizer):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in WORDS.items():
            for pair in pairwise(cut[word]):
                pairs[pair] += count
        (made,) = {pair for pair in pairs if "".join(pair) == merged}
        if pairs[made] < 2:
            break
        assert pairs[made] == max(pairs.values()), merged
        cut = {word: joined(symbols, made) for word, symbols in cut.items()}
    assert cut["newest"] == [f"{SPACE_MARK}newest"]


def joined(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    """Return a word with this pair merged everywhere."""
    found: list[str] = []
    for symbol in symbols:
        if found and (found[-1], symbol) == pair:
            found[-1] += symbol
        else:
            found.append(symbol)
    return found


def test_a_word_that_was_never_seen_is_made_of_known_pieces(tokenizer: Tokenizer) -> None:
    (ids,) = tokenizer.encode(["lowest"])
    assert [tokenizer.piece(index) for index in ids] == [f"{SPACE_MARK}low", "est"]
