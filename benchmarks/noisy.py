"""Make synthetic noisy parallel text, English and German, of any size: the input of `clean.py`.

    .venv/bin/python benchmarks/noisy.py PAIRS SOURCE TARGET [--seed N]

The result is two text files. Line N of one belongs to line N of the other; .gz and .zst are compressed. The same
arguments give the same bytes. Memory does not depend on the number of pairs.

A sentence is words drawn by a Zipf law from a vocabulary of 27,000 (`noisy_words.py`). Its German has, word by word,
the German of the same rank, with a few words changed and a few left out. So words, lengths and repeats are distributed
as in real text, and language identification has something to work with. More than half the rows are dirty in one of the
ways, and by the shares, of `noisy_dirt.py`. Copies repeat rows up to millions of lines earlier.
"""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from noisy_dirt import DIRT, VARIETIES
from noisy_words import ENGLISH, GERMAN

SIDES = ("source", "target")

_BLOCK = 100_000
# Earlier pairs that copies are taken from. Some of each block take the place of as many others, so that a pair stays
# for about 2 M lines and is copied three times, or many times: copies prefer some pairs to others, as real ones do.
_POOL = 200_000
_NEW_IN_POOL = _BLOCK // 10
_LOG_WORDS, _LOG_WORDS_SPREAD, _MAX_WORDS = 2.3, 0.5, 60
_UNLIKE_WORDS, _LOST_WORDS = 0.08, 0.06
_MARKS = np.array([".", ".", ".", ".", "!", "?", "", ""])
# Zipf's law as Mandelbrot writes it: frequency ~ 1 / (rank + 2.7)^1.05.
_FREQUENCIES = (np.arange(len(ENGLISH)) + 2.7) ** -1.05
_CUMULATED = np.cumsum(_FREQUENCIES)[:-1] / _FREQUENCIES.sum()

Integers = npt.NDArray[np.int64]


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description="Synthetic noisy English-German text.")
    parser.add_argument("pairs", type=int)
    parser.add_argument("source", type=Path, help="English file")
    parser.add_argument("target", type=Path, help="German file")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    write(arguments.pairs, (arguments.source, arguments.target), arguments.seed)


def write(pairs: int, paths: tuple[Path, Path], seed: int = 1) -> None:
    """Write `pairs` lines to each of the two files."""
    with ExitStack() as stack:
        files = [stack.enter_context(pa.output_stream(str(path), compression="detect")) for path in paths]
        for block in blocks(pairs, seed):
            for side, file in zip(SIDES, files, strict=True):
                file.write("".join(f"{line}\n" for line in block[side]).encode())


def blocks(pairs: int, seed: int) -> Iterator[pl.DataFrame]:
    """Yield the rows, source and target, in blocks of at most 100,000."""
    shares = np.array([dirt.per_mille for dirt in DIRT.values()]) / 1000
    pool = pl.DataFrame(schema=dict.fromkeys(SIDES, pl.String))
    for number, start in enumerate(range(0, pairs, _BLOCK)):
        rng = np.random.default_rng([seed, number])
        rows = _sentences(rng, _BLOCK)
        kinds = rng.choice(len(DIRT) + 1, _BLOCK, p=[*shares, 1 - shares.sum()])
        stays = rng.permutation(pool.height)[: _POOL - _NEW_IN_POOL]
        pool = pl.concat([pool[stays], rows.filter(kinds == len(DIRT)).head(_NEW_IN_POOL)])
        yield _with_dirt(rows, kinds, pool, rng).head(pairs - start)


def _sentences(rng: np.random.Generator, count: int) -> pl.DataFrame:
    lengths = np.clip(rng.lognormal(_LOG_WORDS, _LOG_WORDS_SPREAD, count).astype(np.int64), 2, _MAX_WORDS)
    starts = np.cumsum(lengths) - lengths
    ranks = _ranks(rng, int(lengths.sum()))
    unlike = np.where(rng.random(len(ranks)) < _UNLIKE_WORDS, _ranks(rng, len(ranks)), ranks)
    stays = rng.random(len(ranks)) >= _LOST_WORDS
    stays[starts] = True
    marks = _MARKS[rng.integers(len(_MARKS), size=count)]
    target_lengths = np.add.reduceat(stays, starts, dtype=np.int64)
    source = _text(ENGLISH, ranks, lengths, marks)
    return pl.DataFrame({"source": source, "target": _text(GERMAN, unlike[stays], target_lengths, marks)})


def _ranks(rng: np.random.Generator, count: int) -> Integers:
    return np.searchsorted(_CUMULATED, rng.random(count))


def _text(vocabulary: list[str], ranks: Integers, lengths: Integers, marks: npt.NDArray[np.str_]) -> pl.Series:
    """Sentences of the words of these ranks, `lengths[i]` of them in sentence i, with `marks[i]` at its end."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ranks = ranks.copy()
    ranks[offsets[:-1]] += len(vocabulary)  # the same word with a capital
    words = pa.array([*vocabulary, *(word[0].upper() + word[1:] for word in vocabulary)]).take(pa.array(ranks))
    sentences = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), words), " ")
    return pl.Series(pc.binary_join_element_wise(sentences, pa.array(marks.tolist()), ""))


def _with_dirt(rows: pl.DataFrame, kinds: Integers, pool: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    more = [
        pl.Series("place", np.arange(rows.height)),
        pl.Series("variety", rng.integers(VARIETIES, size=rows.height)),
    ]
    earlier = pool[np.floor(pool.height * rng.random(rows.height) ** 2).astype(np.int64)].with_columns(more)
    rows = rows.with_columns(more)
    parts = [rows.filter(kinds == len(DIRT))]
    for number, dirt in enumerate(DIRT.values()):
        of_kind = (earlier if dirt.of_earlier_pair else rows).filter(kinds == number)
        parts.append(of_kind.with_columns(source=dirt.source, target=dirt.target))
    return pl.concat(parts).sort("place").select(SIDES)


if __name__ == "__main__":
    main()
