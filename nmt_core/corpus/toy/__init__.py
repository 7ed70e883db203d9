"""Make a toy English-Korean parallel corpus from a small grammar, for trying the pipeline and not for real use.

`grammar.py` makes the sentences. `dirt.py` makes the dirt that is planted in the training rows.
"""

import random
from dataclasses import dataclass

from nmt_core.corpus.toy import dirt as planted
from nmt_core.corpus.toy.grammar import Grammar, Source
from nmt_core.corpus.toy.phrases import Pair

MIN_PAIRS = 1_000
# With more pairs, the short kinds of sentences run out and the mix of kinds changes.
MAX_PAIRS = 200_000
ALWAYS_IN_TRAIN: Pair = ("I am a student.", "나는 학생이다.")
# Planted rows per thousand training rows: 7% in all.
DIRT_PER_MILLE = {"duplicate": 20, "copy": 10, "wrong_language": 10, "encoding": 10, "length": 10, "leak": 10}


@dataclass(frozen=True)
class ToyCorpus:
    """A generated corpus. Every row is an (English, Korean) pair of one-line strings.

    `train` has exactly the requested number of rows, dirt included. `dev` and `test` are held out and clean. `dirt`
    counts the dirty rows in `train` by kind (the keys of `DIRT_PER_MILLE`).
    """

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    dirt: dict[str, int]


def words_of(text: str) -> list[str]:
    """Return the words of a sentence of the grammar, in lower case and without punctuation marks."""
    return text.lower().replace(",", "").rstrip(".?").split()


def _held_out(source: Source, clean: list[Pair], count: int) -> list[Pair]:
    """Return `count` new sentences made only of words in `clean`, so that they test combination, not guessing."""
    known: set[str] = {word for pair in clean for text in pair for word in words_of(text)}
    return [source.fresh(lambda pair: all(w in known for text in pair for w in words_of(text))) for _ in range(count)]


def _check(pairs: int, held_out: int) -> None:
    if not MIN_PAIRS <= pairs <= MAX_PAIRS:
        raise ValueError(
            f"pairs is {pairs}, but the toy grammar makes {MIN_PAIRS} to {MAX_PAIRS}; choose a number in this range"
        )
    if not 1 <= held_out <= pairs // 2:
        raise ValueError(f"held_out is {held_out}; with pairs = {pairs} choose a number from 1 to {pairs // 2}")


def generate(*, pairs: int, seed: int, held_out: int) -> ToyCorpus:
    """Return a toy corpus of `pairs` training rows and twice `held_out` held-out ones, equal for equal arguments.

    No dev or test sentence occurs, on either side, in a clean training row or in the other set. All its words do occur
    in clean training rows.

    Raises:
        ValueError: `pairs` or `held_out` is out of range.
    """
    _check(pairs, held_out)
    rng = random.Random(seed)
    source = Source(Grammar(rng), ALWAYS_IN_TRAIN)
    dirt = {kind: pairs * share // 1000 for kind, share in DIRT_PER_MILLE.items()}
    dirt["leak"] = min(dirt["leak"], 2 * held_out)  # each held-out pair leaks at most once
    clean = [ALWAYS_IN_TRAIN]
    clean += [source.fresh(new_korean=False) for _ in range(pairs - sum(dirt.values()) - 1)]
    held = _held_out(source, clean, 2 * held_out)
    train = clean + rng.sample(clean[1:], dirt["duplicate"])
    train += [(english, english) for english, _ in (source.fresh() for _ in range(dirt["copy"]))]
    train += [planted.wrong_language(source, rng, index) for index in range(dirt["wrong_language"])]
    train += [planted.broken_encoding(source, rng, index) for index in range(dirt["encoding"])]
    train += [planted.length_outlier(source, rng, clean, index) for index in range(dirt["length"])]
    train += [planted.leak(pair, index) for index, pair in enumerate(rng.sample(held, dirt["leak"]))]
    rng.shuffle(train)
    return ToyCorpus(train, held[:held_out], held[held_out:], dirt)
