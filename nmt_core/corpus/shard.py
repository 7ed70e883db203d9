"""Cleaning one shard: two functions from paths to paths, which any worker may do, alone and more than once.

`judge_shard` reads raw pairs and decides what can be decided without other shards. Copies can be in any shard, so
`duplicates/exact.py` compares the keys of all shards next. `finish_shard` then writes the kept and the dropped pairs.
"""

import functools
from dataclasses import dataclass
from typing import Literal

import polars as pl

from nmt_core.config import SIDES, CleanConfig, LanguagesConfig
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning import filters, language_id
from nmt_core.corpus.cleaning.thresholds import CleanRules
from nmt_core.corpus.duplicates import exact
from nmt_core.corpus.funnel import Histograms, Tally
from nmt_core.corpus.held_out import decontaminate
from nmt_core.spelling import Spelling
from nmt_core.store import storage

LINE_BITS = 40
"""A pair's place is one number, corpus << 40 | line: it rises in the order of the recipe's corpora and their lines."""

_SAMPLED_PAIRS = 200
_SURE_OF_LANGUAGE = 0.5  # this is about all of a corpus, not about one pair: what is doubtful says nothing
_SOURCE_WEIGHT = 0x9E3779B97F4A7C15  # odd, so that nothing of a key is lost

ROW_GROUP_PAIRS = 50_000
TRAIN_COLUMNS = ("source", "target", "corpus", "line", "licence")
DROPPED_COLUMNS = ("corpus", "line", "reason", "value", "source", "target")


@dataclass(frozen=True)
class RawShard:
    """Pairs as they were read, and what they are to be judged by."""

    raw: str
    """Columns source, target, line, fault, value."""
    passed: str
    """To be written: pairs that are kept unless they are copies, with their keys."""
    dropped: str
    """To be written: pairs that are dropped."""
    corpus: str
    position: int
    """Number of the corpus in the recipe, from 0."""
    held_out: str
    """Pairs of all dev and test sets: columns name, source, target. Other pairs have another address."""
    rules: CleanRules


def judge_shard(shard: RawShard) -> tuple[RawShard, Tally]:
    """Normalise, filter, and look for held-out text."""
    clean = shard.rules.clean
    table = _judged(storage.read(shard.raw).lazy(), shard).collect()
    is_dropped = pl.col("reason").is_not_null()
    dropped, passed = table.filter(is_dropped), table.filter(~is_dropped)
    keys = ["place", "pair_key", "source_key", "target_key", *(["score"] if clean.prefer == "best" else [])]
    scores = [name for name in table.columns if name.startswith("score_")]
    storage.write(
        passed.select("source", "target", "corpus", "line", *scores, "repaired", *keys), shard.passed, level=1
    )
    storage.write(dropped.select(*DROPPED_COLUMNS, "place"), shard.dropped, level=1)
    tally = Tally(before=Histograms.of(table))
    tally.read[shard.corpus] = table.height
    tally.drop(dropped)
    tally.held_out.update(dropped.filter(reason=decontaminate.REASON)["value"])
    for side in SIDES:
        labels = table[f"{side}_language"].drop_nulls().value_counts(name="count")
        getattr(tally, f"{side}_languages").update(dict(labels.iter_rows()))
    if shard.rules.thresholds.min_language_probability:
        tally.looked_at, tally.swapped = _swapped(table, shard.rules.languages)
    return shard, tally


def _swapped(pairs: pl.DataFrame, pair: LanguagesConfig) -> tuple[int, int]:
    """Of a sample: the pairs that could be looked at, and those that have their languages the wrong way round.

    Filters would drop them one by one, each for a reason of its own; all together they are one mistake in the recipe.
    """
    if not (language_id.is_known(pair.source) and language_id.is_known(pair.target)):
        return 0, 0
    sample = pairs.filter(pl.all_horizontal(pl.col(SIDES) != "")).gather_every(max(1, pairs.height // _SAMPLED_PAIRS))

    def passes(side: str, expected: str, other: str) -> pl.Series:
        identifier = language_id.Identifier(expected, other, _SURE_OF_LANGUAGE)
        return identifier.identify(sample[side]).struct.field("is_expected")

    straight = passes("source", pair.source, pair.target) | passes("target", pair.target, pair.source)
    swapped = passes("source", pair.target, pair.source) & passes("target", pair.source, pair.target)
    return sample.height, sample.filter(swapped & ~straight).height


def _judged(raw: pl.LazyFrame, shard: RawShard) -> pl.LazyFrame:
    """The plan: normalise -> filters -> decontaminate -> keys."""
    clean = shard.rules.clean
    text = [pl.col(side) for side in SIDES]
    codes = (shard.rules.languages.source, shard.rules.languages.target)
    normalised = [normalize.normalised(side, *Spelling.of(clean, code)) for side, code in zip(text, codes, strict=True)]
    return (
        raw.rename({"value": "fault_value"})
        .with_columns(pl.col(SIDES).fill_null(""))
        .with_columns(
            corpus=pl.lit(shard.corpus),
            place=pl.col("line").cast(pl.UInt64) + pl.lit(shard.position << LINE_BITS, pl.UInt64),
            repaired=pl.any_horizontal(normalize.is_repaired(side) for side in text),
        )
        .with_columns(normalised)
        .with_columns(normalize.key(side).name.suffix("_key") for side in text)
        .pipe(filters.judge, shard.rules)
        .with_columns(held_out=_held_out(shard.held_out, clean, shard.rules.languages).found())
        .with_columns(
            reason=pl.coalesce("reason", pl.when(pl.col("held_out").is_not_null()).then(pl.lit(decontaminate.REASON))),
            value=pl.coalesce("value", "held_out"),
            pair_key=_pair_key(clean.deduplicate),
            **({"score": pl.col("score_0")} if clean.prefer == "best" else {}),
        )
    )


def _pair_key(mode: Literal["none", "exact", "normalised"]) -> pl.Expr:
    """UInt64 that is equal for copies of a pair: equal ones, or equal but for case, punctuation and spaces."""
    if mode == "exact":
        keys = [normalize.hashed(pl.col(side)) for side in SIDES]
    else:
        keys = [pl.col(f"{side}_key") for side in SIDES]
    return keys[0] * pl.lit(_SOURCE_WEIGHT, pl.UInt64) + keys[1]  # modulo 2^64; the sides are not interchangeable


@functools.lru_cache(maxsize=8)
def _held_out(pairs: str, clean: CleanConfig, languages: LanguagesConfig) -> decontaminate.HeldOut:
    """Every shard asks for the same: a worker prepares it once."""
    table = storage.read(pairs)
    sets = {str(name): rows for (name,), rows in table.group_by("name", maintain_order=True)}
    return decontaminate.HeldOut(sets if clean.decontaminate else {}, clean, languages)


@dataclass(frozen=True)
class JudgedShard:
    """What `judge_shard` left, and what the look at all shards said about it."""

    passed: str
    dropped: str
    drops: str
    """Places of the copies that go."""
    licence: str
    corpora: tuple[str, ...]
    """Names by number, to say where the copy stands that was kept."""
    train: str
    """To be written: the pairs that stay."""
    all_dropped: str
    """To be written: the pairs that go, whatever the reason."""


def finish_shard(shard: JudgedShard) -> Tally:
    """Write what stays and what goes, each in the order of the lines."""
    passed, drops = storage.read(shard.passed), exact.read_drops(shard.drops)
    scores = [name for name in passed.columns if name.startswith("score_")]
    train = passed.join(drops, on="place", how="anti", maintain_order="left").with_columns(
        licence=pl.lit(shard.licence)
    )
    copies = passed.join(drops, on="place", how="inner", maintain_order="left").with_columns(
        value=_where("keeper", shard.corpora)
    )
    dropped = pl.concat([storage.read(shard.dropped), copies.select(*DROPPED_COLUMNS, "place")]).sort("place")
    storage.write(train.select(*TRAIN_COLUMNS, *scores), shard.train, row_group_pairs=ROW_GROUP_PAIRS)
    storage.write(dropped.select(DROPPED_COLUMNS), shard.all_dropped, row_group_pairs=ROW_GROUP_PAIRS)
    tally = Tally(after=Histograms.of(train), repaired=train.filter("repaired").height)
    tally.kept.update(dict(train["corpus"].value_counts(name="count").iter_rows()))
    tally.drop(copies)
    return tally


def _where(place: str, corpora: tuple[str, ...]) -> pl.Expr:
    """A place as "corpus:line"."""
    number, line = pl.col(place) // (1 << LINE_BITS), pl.col(place) % (1 << LINE_BITS)
    return pl.format("{}:{}", number.replace_strict(dict(enumerate(corpora)), return_dtype=pl.String), line)
