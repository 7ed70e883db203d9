"""Join pairs that are made from the text of `split` to it, by the same layout, the same mix and the same protection.

Such pairs are kept apart from dev and test text again: what is made from clean text may still equal a test sentence.
"""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nmt_core.config import SIDES, CleanConfig, LanguagesConfig, MixConfig
from nmt_core.corpus import mix, normalize
from nmt_core.corpus.clean import TRAIN_FILES
from nmt_core.corpus.held_out import decontaminate
from nmt_core.corpus.shard import DROPPED_COLUMNS, ROW_GROUP_PAIRS
from nmt_core.corpus.split import DEV, SPLITS
from nmt_core.execution.pool import Workers
from nmt_core.stages.stage import StageReport
from nmt_core.store import storage

FROM = ("from_corpus", "from_line")
"""Columns of made pairs that other training text lacks: the place of the pair from which they were made."""


class JoinedReport(StageReport):
    """Report of a stage that joins made pairs, in parts, to the training text."""

    dropped: dict[str, int]
    """Number of dropped pairs of all parts, by reason."""
    dropped_by_part: dict[str, int]
    """Number of dropped pairs, by part and reason, as `part: reason`."""
    held_out: dict[str, int]
    """Number of dropped pairs that share text with a held-out set, by the first such set."""
    dev: int
    """Number of pairs of the dev set."""
    tests: dict[str, int]
    """Number of pairs of each test set."""


def link_text(split: Path, out: Path, *, with_train: bool = True) -> int:
    """Link the text of `split`, and return the number of shards of training text."""
    train = sorted(split.glob(TRAIN_FILES)) if with_train else []
    for file in [split / SPLITS, split / DEV, *split.glob("test-*.parquet"), *train]:
        storage.link(file, out / file.name)
    return len(train)


def originals(rows: pl.DataFrame, config: MixConfig) -> pl.DataFrame:
    """Return the rows of a shard of training text as they were before the mix, without its repetitions and tags."""
    place = [name for name in ("corpus", "line", "pair") if name in rows.columns]
    rows = rows.unique(place, keep="first", maintain_order=True)
    tags = {rule.corpus: f"{rule.tag} " for rule in config.corpora if rule.tag}
    tag = pl.col("corpus").replace_strict(tags, default="", return_dtype=pl.String)
    return rows.with_columns(source=pl.col("source").str.strip_prefix(tag))


def by_pair(rows: pl.DataFrame, languages: LanguagesConfig) -> Iterator[tuple[LanguagesConfig, pl.DataFrame]]:
    """Yield the rows of each pair of languages, with its languages. A recipe for one pair has all rows in it."""
    if not languages.pairs:
        yield languages, rows
        return
    for (pair,), own in rows.group_by("pair", maintain_order=True):
        yield languages.of(str(pair)), own


def leaks(pairs: pl.DataFrame, split: str, rules: CleanConfig, languages: LanguagesConfig) -> pl.Series:
    """Return the name of the dev or test set with which each pair shares text, or null.

    Args:
        pairs: columns source and target, normalised.
        split: folder with the dev and test text.
        rules: options of decontamination. If it is off, no pair is a leak.
        languages: languages of the pair. With many pairs of languages, each side is compared with the held-out text of
            all pairs in its language.
    """
    keyed = pairs.with_columns(normalize.key(pl.col(side)).name.suffix("_key") for side in SIDES)
    return _held_out(split, rules, languages).find(keyed)


@functools.lru_cache(maxsize=32)
def _held_out(split: str, rules: CleanConfig, languages: LanguagesConfig) -> decontaminate.HeldOut:
    """Prepare the lookup of dev and test text. All shards use the same text, so a worker prepares it once a pair."""
    files = json.loads((Path(split) / SPLITS).read_text(encoding="utf-8"))
    tests = {f"test/{name}": storage.read(f"{split}/{file}", SIDES) for name, file in files["tests"].items()}
    dev = storage.read(f"{split}/{files['dev']}")
    if "pairs" not in files:
        return decontaminate.HeldOut({"dev": dev} | tests if rules.decontaminate else {}, rules, languages)
    devs = {f"dev/{pair}": own for (pair,), own in dev.group_by("pair", maintain_order=True)}
    pairs = {name: name.removeprefix("dev/") for name in devs}
    pairs |= {f"test/{name}": pair for name, pair in files["pairs"].items()}
    languages_of = {name: languages.of(pair) for name, pair in pairs.items()}
    return decontaminate.HeldOut(devs | tests if rules.decontaminate else {}, rules, languages, languages_of)


@dataclass(frozen=True)
class MadeFiles:
    """Files of the pairs of one shard of a made corpus."""

    kept: str
    dropped: str


@dataclass
class Joined:
    """Counts of a made corpus in the training text."""

    rate: mix.Rate
    trained_on: int = 0
    """Number of rows to train on, repetitions included."""
    drawn: int = 0
    """Number of distinct pairs among them."""
    not_drawn: int = 0
    """Number of pairs that the mix leaves out."""


def join(
    name: str, made: Sequence[MadeFiles], config: MixConfig, out: Path, first: int, workers: Workers
) -> Joined | None:
    """Write a made corpus as shards of training text, by the rules of the mix.

    Args:
        name: name of the corpus.
        made: files of its pairs.
        config: rules of the mix. Its temperature does not apply: the size of a made corpus is chosen, not found.
        out: folder of the training text.
        first: number of the first new shard.
        workers: workers that write the shards.

    Returns:
        The counts, or None if there is no pair.
    """
    rates = mix.rates(config.model_copy(update={"temperature": 1.0}), [files.kept for files in made], workers)
    if not rates:
        return None
    joined, tasks = Joined(rates[name]), []
    for number, files in enumerate(made, first):
        train, dropped = (str(out / f"{kind}-{number:05d}.parquet") for kind in ("train", "dropped"))
        tasks.append(_Shard(files, train, dropped, rates, config.seed))
    for rows, drawn, not_drawn in workers.map(_mix_shard, tasks):
        joined.trained_on += rows
        joined.drawn += drawn
        joined.not_drawn += not_drawn
    return joined


@dataclass(frozen=True)
class _Shard:
    made: MadeFiles
    train: str
    dropped: str
    rates: Mapping[str, mix.Rate]
    seed: int


def _mix_shard(shard: _Shard) -> tuple[int, int, int]:
    """Write the pairs to train on, and all dropped pairs. Return the counts of `Joined`."""
    pairs = storage.read(shard.made.kept)
    train, left_out = mix.mixed(pairs, shard.rates, shard.seed)
    storage.write(train, shard.train, row_group_pairs=ROW_GROUP_PAIRS)
    left_out = left_out.with_columns(reason=pl.lit(mix.NOT_DRAWN), value=pl.lit(None, pl.String))
    dropped = pl.concat([storage.read(shard.made.dropped), left_out.select(DROPPED_COLUMNS)])
    storage.write(dropped, shard.dropped, row_group_pairs=ROW_GROUP_PAIRS)
    return train.height, pairs.height - left_out.height, left_out.height
