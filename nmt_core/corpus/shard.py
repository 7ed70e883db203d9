"""Clean one shard, with two functions from paths to paths that any worker may run, alone and more than once.

`judge_shard` reads raw pairs and decides everything that needs no other shard. Copies can be in any shard, so
`duplicates/exact.py` compares the keys of all shards next. `finish_shard` then writes the kept and the dropped pairs.
"""

import functools
from dataclasses import dataclass
from typing import Literal

import polars as pl

from nmt_core.config import SIDES, TOKEN_COLUMNS, CleanConfig, LanguagesConfig, Side
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning import filters, language_id
from nmt_core.corpus.cleaning.thresholds import CleanRules
from nmt_core.corpus.duplicates import exact
from nmt_core.corpus.duplicates.directions import forward
from nmt_core.corpus.duplicates.shuffle import LINE_BITS
from nmt_core.corpus.funnel import Histograms, Tally
from nmt_core.corpus.held_out import decontaminate
from nmt_core.spelling import Spelling
from nmt_core.store import storage

_SAMPLED_PAIRS = 200
_SURE_OF_LANGUAGE = 0.5  # this judges a whole corpus, not one pair: doubtful pairs do not count
_SOURCE_WEIGHT = 0x9E3779B97F4A7C15  # odd, so that no bit of a key is lost

ROW_GROUP_PAIRS = 50_000
TRAIN_COLUMNS = ("source", "target", "corpus", "line", "licence")
DOCUMENT = "document"
"""Column for the number of a pair's document in its corpus, from 1. It exists if a corpus tells documents apart."""
DROPPED_COLUMNS = ("corpus", "line", "reason", "value", "source", "target")


def train_columns(languages: LanguagesConfig) -> tuple[str, ...]:
    """Return the columns of training text, with those that only text in many pairs of languages has."""
    return (*TRAIN_COLUMNS, *(("pair", TOKEN_COLUMNS[languages.tag_side]) if languages.pairs else ()))


@dataclass(frozen=True)
class RawShard:
    """Raw pairs, with the rules and the held-out text that they are judged by."""

    raw: str
    """Address of the raw pairs: columns source, target, line, fault, value."""
    passed: str
    """Address to write the pairs that are kept unless they are copies, with their keys."""
    dropped: str
    """Address to write the dropped pairs."""
    corpus: str
    position: int
    """Number of the corpus in the recipe, from 0."""
    held_out: str
    """Address of the pairs of all dev and test sets: columns name, source, target, and pair if there are many pairs of
    languages. Other text has another address."""
    rules: CleanRules
    pair: str = ""
    """First pair of languages of the corpus, which its files are in. Pairs of sentences are compared with others in the
    same languages only. Empty means the recipe's only pair."""


def judge_shard(shard: RawShard) -> tuple[RawShard, Tally]:
    """Normalise and filter the pairs of a shard, and find pairs that share text with held-out sets."""
    clean = shard.rules.clean
    table = _judged(storage.read(shard.raw).lazy(), shard).collect()
    is_dropped = pl.col("reason").is_not_null()
    dropped, passed = table.filter(is_dropped), table.filter(~is_dropped)
    keys = ["place", "pair_key", "source_key", "target_key", *(["score"] if clean.prefer == "best" else [])]
    scores = [name for name in table.columns if name.startswith("score_")]
    documents = [name for name in table.columns if name == DOCUMENT]
    columns = ["source", "target", "corpus", "line", *documents, *scores, "repaired", *keys]
    storage.write(passed.select(columns), shard.passed, level=1)
    storage.write(dropped.select(*DROPPED_COLUMNS, "place"), shard.dropped, level=1)
    tally = Tally(before=Histograms.of(table))
    tally.read[shard.corpus] = table.height
    tally.drop(dropped)
    tally.held_out.update(dropped.filter(reason=decontaminate.REASON)["value"])
    for side in SIDES:
        labels = table[f"{side}_language"].drop_nulls().value_counts(name="count")
        getattr(tally, f"{side}_languages").update(dict(labels.iter_rows()))
        refused = table.filter(pl.col("reason") == "wrong_language", pl.col("value").str.starts_with(f"{side} "))
        labels = refused[f"{side}_language"].value_counts(name="count")
        getattr(tally, f"{side}_refused").update(dict(labels.iter_rows()))
    least = [shard.rules.thresholds.limit("min_language_probability", side) for side in shard.rules.sides]
    if len(least) == len(SIDES) and all(least):
        tally.looked_at, tally.swapped = _swapped(table, shard.rules.languages)
    return shard, tally


def _swapped(pairs: pl.DataFrame, pair: LanguagesConfig) -> tuple[int, int]:
    """Return two counts of a sample: the pairs that could be judged, and the pairs whose languages are swapped.

    Filters would drop swapped pairs one by one, each for its own reason. Together they are one mistake in the recipe.
    """
    if not _are_told_apart(pair):
        return 0, 0
    sample = pairs.filter(pl.all_horizontal(pl.col(SIDES) != "")).gather_every(max(1, pairs.height // _SAMPLED_PAIRS))

    def passes(side: str, expected: str, other: str) -> pl.Series:
        identifier = language_id.Identifier(expected, other, _SURE_OF_LANGUAGE)
        return identifier.identify(sample[side]).struct.field("is_expected")

    straight = passes("source", pair.source, pair.target) | passes("target", pair.target, pair.source)
    swapped = passes("source", pair.target, pair.source) & passes("target", pair.source, pair.target)
    return sample.height, sample.filter(swapped & ~straight).height


def _are_told_apart(pair: LanguagesConfig) -> bool:
    """Return True if identification may decide in both languages, and does not accept one for the other."""
    codes = (pair.source, pair.target)
    if not all(map(language_id.is_known, codes)):
        return False
    return all(
        not language_id.known_language(code).near & language_id.alike(other)
        for code, other in zip(codes, reversed(codes), strict=True)
    )


def _judged(raw: pl.LazyFrame, shard: RawShard) -> pl.LazyFrame:
    """Return the query plan: normalise -> filters -> decontaminate -> keys."""
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
            pair_key=_pair_key(clean.deduplicate, shard.pair),
            **({"score": pl.col("score_0")} if clean.prefer == "best" else {}),
        )
        .with_columns(_apart(shard.pair))
    )


def _apart(pair: str) -> list[pl.Expr]:
    """Return the keys by which copies are found, changed so that text in other languages has no copies."""
    if not pair:
        return []
    languages = {"pair_key": forward(pair), "source_key": pair, "target_key": pair}
    salts = {key: pl.select(normalize.hashed(pl.lit(said))).item() for key, said in languages.items()}
    return [pl.col(key) ^ pl.lit(salt, pl.UInt64) for key, salt in salts.items()]


def _pair_key(mode: Literal["none", "exact", "normalised"], pair: str) -> pl.Expr:
    """Return a UInt64 that is equal for copies: equal pairs, or pairs with equal keys (see `normalize.key`).

    With many pairs of languages, it is the same whichever of two languages the source is in.
    """
    sides = SIDES if pair == forward(pair) else SIDES[::-1]
    if mode == "exact":
        keys = [normalize.hashed(pl.col(side)) for side in sides]
    else:
        keys = [pl.col(f"{side}_key") for side in sides]
    return keys[0] * pl.lit(_SOURCE_WEIGHT, pl.UInt64) + keys[1]  # modulo 2^64: swapped sides give another key


@functools.lru_cache(maxsize=8)
def _held_out(pairs: str, clean: CleanConfig, languages: LanguagesConfig) -> decontaminate.HeldOut:
    """Prepare the held-out text. All shards use the same text, so a worker prepares it only once."""
    table = storage.read(pairs)
    sets = {str(name): rows for (name,), rows in table.group_by("name", maintain_order=True)}
    has_pairs = "pair" in table.columns
    languages_of = {name: languages.of(str(rows["pair"][0])) for name, rows in sets.items()} if has_pairs else None
    return decontaminate.HeldOut(sets if clean.decontaminate else {}, clean, languages, languages_of)


@dataclass(frozen=True)
class JudgedShard:
    """Result of `judge_shard`, with the copies that were found among all shards."""

    passed: str
    dropped: str
    drops: str
    """Address of the places of the copies to drop."""
    licence: str
    corpora: tuple[str, ...]
    """Names of the corpora by number, to report the corpus and line of the copy that was kept."""
    train: str
    """Address to write the kept pairs."""
    all_dropped: str
    """Address to write all dropped pairs, whatever the reason."""
    side: Side | None = None
    """Side of monolingual text. None means pairs."""
    language: str = ""
    """Language of monolingual text, if there are many pairs of languages."""


def finish_shard(shard: JudgedShard) -> Tally:
    """Write the kept and the dropped pairs, each in line order."""
    passed, drops = storage.read(shard.passed), exact.read_drops(shard.drops)
    scores = [name for name in passed.columns if name.startswith("score_")]
    train = passed.join(drops, on="place", how="anti", maintain_order="left").with_columns(
        licence=pl.lit(shard.licence)
    )
    copies = passed.join(drops, on="place", how="inner", maintain_order="left").with_columns(
        value=_where("keeper", shard.corpora)
    )
    dropped = pl.concat([storage.read(shard.dropped), copies.select(*DROPPED_COLUMNS, "place")]).sort("place")
    if shard.side:
        alone = train.select(
            text=pl.col(shard.side), side=pl.lit(shard.side), corpus="corpus", line="line", licence="licence"
        )
        alone = alone.with_columns(language=pl.lit(shard.language)) if shard.language else alone
        storage.write(alone, shard.train, row_group_pairs=ROW_GROUP_PAIRS)
    else:
        documents = [name for name in train.columns if name == DOCUMENT]
        storage.write(train.select(*TRAIN_COLUMNS, *documents, *scores), shard.train, row_group_pairs=ROW_GROUP_PAIRS)
    storage.write(dropped.select(DROPPED_COLUMNS), shard.all_dropped, row_group_pairs=ROW_GROUP_PAIRS)
    tally = Tally(after=Histograms.of(train), repaired=train.filter("repaired").height)
    tally.kept.update(dict(train["corpus"].value_counts(name="count").iter_rows()))
    tally.drop(copies)
    return tally


def _where(place: str, corpora: tuple[str, ...]) -> pl.Expr:
    """Return a place as "corpus:line"."""
    number, line = pl.col(place) // (1 << LINE_BITS), pl.col(place) % (1 << LINE_BITS)
    return pl.format("{}:{}", number.replace_strict(dict(enumerate(corpora)), return_dtype=pl.String), line)
