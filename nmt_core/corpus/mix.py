"""Decide how often each pair is trained on: caps, temperature, weights, and tags on the source side.

A corpus of n pairs (after its cap) gets a share in proportion to weight * n^(1 / temperature) (Devlin et al. 2019,
"Multilingual BERT"; Arivazhagan et al. 2019, section 4). The total is the number of pairs without a temperature: large
corpora are sampled down, small ones up. A rate of 2.3 means that each pair appears twice, and three of ten pairs a
third time. A rate of 0.4 means that six of ten pairs are left out and listed. The draw depends on a hash of seed,
corpus and line, and not on shards or workers.

With many pairs of languages, the temperature evens out the pairs instead, by the number of sentence pairs that each has
after caps and weights of corpora (Arivazhagan et al. 2019, section 4). Within a pair, corpora keep their proportions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import polars as pl

from nmt_core.config import MixConfig, MixRule, PairRule
from nmt_core.corpus import normalize
from nmt_core.execution.pool import Workers
from nmt_core.store import storage

NOT_DRAWN = "not_drawn"
"""Reason of pairs that the mix leaves out."""

_CAP_BITS = 20
_RATE_BITS = 40
_NO_CAP = 1 << _CAP_BITS


@dataclass(frozen=True)
class Rate:
    """Sampling rate, cap and tag of one corpus."""

    times: float = 1.0
    """Average number of times that each pair under the cap is trained on."""
    under: int = _NO_CAP
    """Upper limit of the draw: a pair is under the cap if its draw, one of 2^20 equally likely values, is smaller."""
    tag: str = ""

    @property
    def changes_nothing(self) -> bool:
        """True if each pair appears once and unchanged."""
        return self == Rate()


Directions = Mapping[str, Sequence[str]]
"""Pairs of languages that each corpus serves, by its name. Empty means the recipe's only pair."""


def rates(
    config: MixConfig, shards: Sequence[str], workers: Workers, directions: Directions = MappingProxyType({})
) -> dict[str, Rate]:
    """Return the rate of each corpus in the shards (columns corpus, line).

    With many pairs of languages, return the rate of each corpus in each pair, by `key_of`.
    """
    counts: dict[str, np.ndarray] = {}
    capped = frozenset(rule.corpus for rule in config.corpora if rule.max_pairs)
    limited = {rule.pair for rule in config.pairs if rule.max_pairs}
    capped |= {corpus for corpus, pairs in directions.items() if limited.intersection(pairs)}
    for bins_by_corpus in workers.map(_count, [(shard, config.seed, capped) for shard in shards]):
        for corpus, bins in bins_by_corpus.items():
            counts[corpus] = counts.get(corpus, 0) + bins
    return rates_of_pairs(counts, config, directions) if directions else rates_of(counts, config)


def key_of(corpus: str, pair: str) -> str:
    """Return the key of a corpus in one of its pairs of languages. Names of corpora contain no space."""
    return f"{corpus} {pair}"


def corpus_and_pair(key: str) -> tuple[str, str]:
    """Return the corpus and the pair of languages of a key by `key_of`. The key of a corpus alone has an empty pair."""
    corpus, _, pair = key.partition(" ")
    return corpus, pair


def rates_of(counts: Mapping[str, np.ndarray], config: MixConfig) -> dict[str, Rate]:
    """Return the rate of each corpus, given its pairs.

    A corpus with a cap has its pairs counted by the high bits of their draw, any other corpus in a single number.
    """
    rules = {corpus: MixRule(corpus=corpus) for corpus in counts} | {rule.corpus: rule for rule in config.corpora}
    under = {corpus: _under_cap(bins, rules[corpus].max_pairs) for corpus, bins in counts.items()}
    pairs = {corpus: int(bins[: under[corpus]].sum()) for corpus, bins in counts.items()}
    gains = {corpus: count ** (1 / config.temperature - 1) for corpus, count in pairs.items() if count}
    weighted = {corpus: pairs[corpus] * rules[corpus].weight for corpus in gains}
    evened_out = sum(weighted[corpus] * gain for corpus, gain in gains.items())
    scale = sum(weighted.values()) / evened_out if evened_out else 1.0  # exactly 1.0 if the temperature is 1.0
    return {
        corpus: Rate(rules[corpus].weight * gains.get(corpus, 1.0) * scale, under[corpus], rules[corpus].tag)
        for corpus in counts
    }


def rates_of_pairs(counts: Mapping[str, np.ndarray], config: MixConfig, directions: Directions) -> dict[str, Rate]:
    """Return the rate of each corpus in each pair of languages, by `key_of`, given its pairs as for `rates_of`."""
    rules = {corpus: MixRule(corpus=corpus) for corpus in counts} | {rule.corpus: rule for rule in config.corpora}
    corpora_of: dict[str, list[str]] = {}
    for corpus in counts:
        for pair in directions[corpus]:
            corpora_of.setdefault(pair, []).append(corpus)
    pair_rules = {pair: PairRule(pair=pair) for pair in corpora_of} | {rule.pair: rule for rule in config.pairs}
    under, sizes = dict[str, int](), dict[str, float]()
    for pair, corpora in corpora_of.items():
        caps = {corpus: _under_cap(counts[corpus], rules[corpus].max_pairs) for corpus in corpora}
        if most := pair_rules[pair].max_pairs:
            left = sum(np.where(np.arange(_NO_CAP) < caps[corpus], counts[corpus], 0) for corpus in corpora)
            limit = _under_cap(np.asarray(left), most)
            caps = {corpus: min(cap, limit) for corpus, cap in caps.items()}
        under |= {key_of(corpus, pair): cap for corpus, cap in caps.items()}
        sizes[pair] = sum(int(counts[corpus][:cap].sum()) * rules[corpus].weight for corpus, cap in caps.items())
    gains = {pair: size ** (1 / config.temperature - 1) for pair, size in sizes.items() if size}
    weighted = {pair: sizes[pair] * pair_rules[pair].weight for pair in gains}
    evened_out = sum(weighted[pair] * gain for pair, gain in gains.items())
    scale = sum(weighted.values()) / evened_out if evened_out else 1.0
    return {
        key_of(corpus, pair): Rate(
            rules[corpus].weight * pair_rules[pair].weight * gains.get(pair, 1.0) * scale,
            under[key_of(corpus, pair)],
            rules[corpus].tag,
        )
        for pair, corpora in corpora_of.items()
        for corpus in corpora
    }


def mixed(
    pairs: pl.DataFrame, rates_by_corpus: Mapping[str, Rate], seed: int, by: str = "corpus"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the pairs to train on, with repeated pairs in adjacent rows, and the pairs that are not drawn.

    Args:
        pairs: columns source, target, corpus and line. Any other columns are passed through.
        rates_by_corpus: rate of each value of the column `by`.
        seed: seed of the draw.
        by: column that decides the rate.
    """
    names = list(rates_by_corpus)

    def of_corpus(values: Sequence[float | int | str], dtype: type[pl.DataType]) -> pl.Expr:
        return pl.col(by).replace_strict(names, list(values), return_dtype=dtype)

    draw = _draw(seed)
    times = of_corpus([rate.times for rate in rates_by_corpus.values()], pl.Float64)
    extra = (draw % (1 << _RATE_BITS)).cast(pl.Float64) / (1 << _RATE_BITS) < times % 1.0
    is_under = draw // (1 << (64 - _CAP_BITS)) < of_corpus([rate.under for rate in rates_by_corpus.values()], pl.UInt64)
    drawn = pairs.with_columns(
        copies=pl.when(is_under).then(times.floor().cast(pl.UInt32) + extra.cast(pl.UInt32)).otherwise(0),
        tag=of_corpus([f"{rate.tag} " if rate.tag else "" for rate in rates_by_corpus.values()], pl.String),
    )
    left_out = drawn.filter(copies=0).drop("copies", "tag")
    taken = drawn.filter(pl.col("copies") > 0).with_columns(source=pl.col("tag") + pl.col("source"))
    repeated = taken.select(pl.all().exclude("copies", "tag").repeat_by("copies").explode()) if taken.height else taken
    return repeated.select(pairs.columns), left_out


def _draw(seed: int) -> pl.Expr:
    """Return a UInt64 draw for each pair: the high bits decide about the cap, the low bits about repetition."""
    return normalize.hashed(pl.format("{}\t{}\t{}", pl.lit(seed), "corpus", "line"))


def _count(task: tuple[str, int, frozenset[str]]) -> dict[str, np.ndarray]:
    """Count the pairs of each corpus in a shard, by the high bits of their draw if the corpus has a cap."""
    shard, seed, capped = task
    table = storage.read(shard, ["corpus", "line"]).select("corpus", bin=_draw(seed) // (1 << (64 - _CAP_BITS)))
    return {
        str(corpus): np.bincount(rows["bin"].to_numpy(), minlength=_NO_CAP)
        if corpus in capped
        else np.array([rows.height])
        for (corpus,), rows in table.group_by("corpus", maintain_order=True)
    }


def _under_cap(bins: np.ndarray, max_pairs: int) -> int:
    """Return the number of bins, from the lowest draw, that hold at most `max_pairs` pairs. 0 means no cap."""
    return int(np.searchsorted(bins.cumsum(), max_pairs, side="right")) if max_pairs else _NO_CAP
