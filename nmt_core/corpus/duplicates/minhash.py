"""Find near copies, pairs whose words resemble an earlier pair's, by MinHash (Broder 1997) in constant memory.

The words of a pair come from both sides, without case and punctuation. The same word on the other side is a different
word, unless both corpora have the same two languages in another order. The similarity of two pairs is their Jaccard
index: the number of shared words divided by the number of all their words. Under a random hash function, the lowest
hash of the words is equal for two pairs with exactly that probability. Of 128 such functions, a pair keeps four bits
each (b-bit minwise hashing, Li and König 2010), which estimate the similarity to about 0.04.

Pairs are compared if they agree in one of 16 bands, each a group of a few functions. Each band is one round of the
shuffle. Little data is in transit at a time, and pairs dropped in one band take no part in later ones. Within a band,
each pair is compared with every earlier one that stays, so a second pass would drop nothing. The lower the threshold,
the more dissimilar pairs share a band and are compared. Below 0.5 or so, the time grows with the square of the text.

An index of MinHashes, such as the one of rensa, is filled text by text in one process and holds all of its content in
memory. The records of a band can be shuffled instead. Any number of workers then compare them in constant memory, and
the earliest pair stays, whichever worker compares it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nmt_core.corpus import normalize
from nmt_core.corpus.duplicates import shuffle
from nmt_core.corpus.duplicates.shuffle import LINE_BITS, Indices, Words
from nmt_core.execution.pool import Workers
from nmt_core.store import storage

REASON = "near_duplicate"
BANDS = 16

_FUNCTIONS = 128
_BITS = 4
_SIGNATURE_WORDS = _FUNCTIONS * _BITS // 64
_RECALL_AT_THRESHOLD = 0.98
_SMALL_GROUP = 200  # pairs
_PAIRS_AT_A_TIME = 2_000  # their words fit in the processor's cache

# Numpy's generator is not used because its numbers may change between versions.
_RANDOM = random.Random(1)
_MULTIPLIERS = np.array([_RANDOM.getrandbits(64) | 1 for _ in range(_FUNCTIONS)], np.uint64)
_TWO_SIDES = np.array([0, ~np.uint64(0)], np.uint64)  # the same word on the other side is a different word
_MIX = np.uint64(0x9E3779B97F4A7C15)
# Similarity by the number of functions whose bits differ. One sixteenth of different hashes have equal bits by chance.
_LIKENESS = 1 - np.arange(_FUNCTIONS + 1) / (_FUNCTIONS * (1 - 0.5**_BITS))
# Sections of a signature file: places, scores (empty unless they decide), the key of each band, the bits.
_PLACES, _SCORES, _FIRST_BAND, _SIGNATURES = 0, 1, 2, 2 + BANDS


@dataclass(frozen=True)
class Band:
    """A round that compares the pairs with equal keys in one band with the first, or best, of them."""

    number: int
    threshold: float
    by_score: bool
    uses: tuple[int, ...] = ()
    """Directions that each corpus serves, by its number (see `shuffle.groups`)."""
    reason: str = REASON
    settles_shards: bool = (
        False  # a pair that loses to an earlier one may have dropped others in its shard, which must stay
    )

    @property
    def width(self) -> int:
        """Number of words in a record (see `Round`): key, place, the score if it decides, and the signature."""
        return 2 + self.by_score + _SIGNATURE_WORDS

    def records(self, shard: str, dropped: Words) -> Words:
        """Return the records of a shard (see `Round`), a file written by `_sign`."""
        places = shuffle.read_section(shard, _PLACES)
        kept = ~np.isin(places, dropped, assume_unique=True)
        records = np.empty((int(kept.sum()), self.width), np.uint64)
        records[:, 0] = shuffle.read_section(shard, _FIRST_BAND + self.number)[kept]
        records[:, 1] = places[kept]
        if self.by_score:
            records[:, 2] = shuffle.read_section(shard, _SCORES)[kept]
        records[:, -_SIGNATURE_WORDS:] = shuffle.read_section(shard, _SIGNATURES).reshape(-1, _SIGNATURE_WORDS)[kept]
        return records

    def losers(self, records: Words) -> tuple[Indices, Indices]:
        """Return the rows to drop and their keepers (see `Round`).

        The first pair of a group drops all pairs that are similar to it, then the first of the rest does so, and so on.
        """
        rows, starts = shuffle.groups(records, self.by_score, self.uses)
        sizes = np.diff(starts, append=len(rows))
        is_small = np.repeat(sizes <= _SMALL_GROUP, sizes)
        group = np.repeat(np.arange(len(starts)), sizes)
        losers = [self._alike_in_groups(records, rows[is_small], group[is_small])]
        for number in np.flatnonzero(sizes > _SMALL_GROUP):
            large = slice(starts[number], starts[number] + sizes[number])
            losers.append(self._alike_in_one_group(records, rows[large]))
        lost, keepers = zip(*losers, strict=True)
        return np.concatenate(lost), np.concatenate(keepers)

    @property
    def _most_unequal(self) -> np.uint8:
        """Largest number of functions in which two similar pairs may differ."""
        return np.uint8(np.count_nonzero(self.threshold <= _LIKENESS) - 1)

    def _alike_in_groups(self, records: Words, rows: Indices, group: Indices) -> tuple[Indices, Indices]:
        """Compare many groups at once, with one leader of each group after the other."""
        lost, keepers, most = [rows[:0]], [rows[:0]], self._most_unequal
        while len(rows):
            first = np.ones(len(rows), np.bool_)
            first[1:] = group[1:] != group[:-1]
            leaders = rows[first][np.cumsum(first) - 1]
            signatures, others = records[rows, -_SIGNATURE_WORDS:], records[leaders, -_SIGNATURE_WORDS:]
            alike = ~first & (_unequal(signatures.T, others.T) <= most)
            lost.append(rows[alike])
            keepers.append(leaders[alike])
            rest = ~first & ~alike
            rows, group = rows[rest], group[rest]
        return np.concatenate(lost), np.concatenate(keepers)

    def _alike_in_one_group(self, records: Words, rows: Indices) -> tuple[Indices, Indices]:
        """Compare one group, several times as fast as `_alike_in_groups` if it is large, and slower if it is small."""
        lost, keepers, most = [rows[:0]], [rows[:0]], self._most_unequal
        signatures = np.ascontiguousarray(records[rows, -_SIGNATURE_WORDS:].T)
        while len(rows):
            leader, rows = rows[0], rows[1:]
            alike = _unequal(signatures[:, 1:], signatures[:, :1]) <= most
            signatures = signatures[:, 1:]
            if alike.any():
                lost.append(rows[alike])
                keepers.append(np.full(len(lost[-1]), leader))
                rows, signatures = rows[~alike], signatures[:, ~alike]
        return np.concatenate(lost), np.concatenate(keepers)


@dataclass(frozen=True)
class _Sign:
    shard: str
    drops: str
    rows: int
    by_score: bool
    salts: Words
    out: str


def run(
    shards: Sequence[str], drops: Sequence[str], band: Band, scratch: str, workers: Workers, salts: Words
) -> list[str]:
    """Find the near copies among the rows that are not dropped yet (see `shuffle.run`), with each band in turn.

    `salts` changes the words of each corpus (see `directions.salts_of`). Without corpora, there is one pair of
    languages, and the words of both sides differ.
    """
    signed = [f"{scratch}/near-signatures-{number:05d}.bin" for number in range(len(shards))]
    rows = rows_per_band(band.threshold)
    tasks = zip(shards, drops, signed, strict=True)
    shuffle.do(workers.map(_sign, (_Sign(shard, old, rows, band.by_score, salts, out) for shard, old, out in tasks)))
    for number in range(BANDS):
        drops = shuffle.run(replace(band, number=number), f"near-{number:02d}", signed, drops, scratch, workers)
    storage.remove(signed)
    return list(drops)


def rows_per_band(threshold: float) -> int:
    """Return the largest number of functions in a band with which pairs at the threshold almost always share a band."""
    for rows in range(_FUNCTIONS // BANDS, 1, -1):
        if 1 - (1 - threshold**rows) ** BANDS >= _RECALL_AT_THRESHOLD:
            return rows
    return 1


def likeness(signatures: Words, others: Words) -> NDArray[np.float64]:
    """Return the estimated Jaccard similarity of the pairs, column by column. Both signatures are (words, pairs)."""
    return _LIKENESS[_unequal(signatures, others)]


def _unequal(signatures: Words, others: Words) -> NDArray[np.uint8]:
    """Return the number of functions in which the pairs differ."""
    differing = signatures ^ others
    differing[:4] |= differing[4:]  # a function differs if one of its four bits does
    differing[:2] |= differing[2:4]
    counts: NDArray[np.uint8] = np.bitwise_count(differing[:2])
    together: NDArray[np.uint8] = counts[0] + counts[1]
    return together


def least_hashes(hashes: Words, starts: Indices) -> Words:
    """Return the lowest hash of each pair (column) for each function (row). The words of pair i begin at `starts[i]`.

    Every pair has at least one word.
    """
    least = np.empty((_FUNCTIONS, len(starts)), np.uint64)
    product = np.empty_like(hashes)
    for number, multiplier in enumerate(_MULTIPLIERS):
        np.multiply(hashes, multiplier, out=product)
        np.minimum.reduceat(product, starts, out=least[number])
    return least


def signatures_of(least: Words) -> Words:
    """Return four bits of each lowest hash, (pairs, words).

    The first bits of all functions come first, then the second bits, and so on. In this layout, one word shows for 64
    functions at once where two pairs differ.
    """
    bits = ((least * _MIX) >> np.uint64(64 - _BITS)).astype(np.uint8)
    planes = [np.packbits(bits >> number & 1, axis=0) for number in range(_BITS)]
    return np.ascontiguousarray(np.concatenate(planes).T).view(np.uint64)


def band_keys(least: Words, rows: int) -> Words:
    """Return a hash of the `rows` lowest hashes of each band, (bands, pairs)."""
    keys = np.zeros((BANDS, least.shape[1]), np.uint64)
    for values in least[: BANDS * rows].reshape(BANDS, rows, -1).swapaxes(0, 1):
        keys = (keys ^ values) * _MIX
        keys ^= keys >> np.uint64(32)
    return keys * _MIX


def _sign(task: _Sign) -> None:
    """Write the places, band keys and signatures of a shard's pairs. Pairs without words have no near copies."""
    columns = ["place", "source", "target", *(["score"] if task.by_score else [])]
    frame = storage.read(task.shard, columns)
    dropped = storage.read(task.drops, ["place"])["place"].to_numpy()
    frame = frame.filter(~np.isin(frame["place"].to_numpy(), dropped, assume_unique=True))
    places, scores, keys, signatures = [], [], [], []
    for part in frame.iter_slices(_PAIRS_AT_A_TIME):
        hashes, counts = _words(part, task.salts)
        some = counts > 0
        least = least_hashes(hashes, (np.cumsum(counts) - counts)[some])
        places.append(part["place"].to_numpy()[some])
        if task.by_score:
            scores.append(part["score"].to_numpy()[some].view(np.uint64))
        keys.append(band_keys(least, task.rows))
        signatures.append(signatures_of(least))
    nothing = np.empty(0, np.uint64)
    sections = [
        np.concatenate([nothing, *places]),
        np.concatenate([nothing, *scores]),
        *np.concatenate([np.empty((BANDS, 0), np.uint64), *keys], axis=1),
        np.concatenate([np.empty((0, _SIGNATURE_WORDS), np.uint64), *signatures]).ravel(),
    ]
    sizes = np.array([len(section) for section in sections])
    shuffle.write_sections(np.concatenate(sections)[:, None], sizes, task.out)


def _words(pairs: pl.DataFrame, salts: Words) -> tuple[Words, Indices]:
    """Return the hashes of the words of each pair, one pair after the other, and the number of words of each pair."""
    corpus = (pairs["place"].to_numpy() >> np.uint64(LINE_BITS)).astype(np.int64)
    changed = salts[corpus] if len(salts) else np.tile(_TWO_SIDES, (len(pairs), 1))
    source, target = (normalize.words(pl.col(side)).alias(side) for side in ("source", "target"))
    lists = pairs.select(source, target)
    sizes = [lists[side].list.len().to_numpy().astype(np.int64) for side in lists.columns]
    hashes = [_hashed(lists[side]) ^ np.repeat(changed[:, at], sizes[at]) for at, side in enumerate(lists.columns)]
    pair_of = np.concatenate([np.repeat(np.arange(len(size), dtype=np.uint16), size) for size in sizes])
    return np.concatenate(hashes)[np.argsort(pair_of, kind="stable")], sizes[0] + sizes[1]


def _hashed(lists: pl.Series) -> Words:
    words = lists.explode(empty_as_null=False).to_frame("word")
    return words.select(normalize.hashed(pl.col("word"))).to_series().to_numpy()
