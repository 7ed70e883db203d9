"""The stage `split`: what is trained on, validated on and scored on, no sentence in more than one of them."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from pydantic import BaseModel, ConfigDict

from nmt_core.artifacts import Identity
from nmt_core.config import PipelineConfig
from nmt_core.corpus import decontaminate, mix, normalize, storage
from nmt_core.corpus.carve import HeldOutPairs, carve, too_little
from nmt_core.corpus.clean import TRAIN_FILES
from nmt_core.corpus.reading import held_out_sets
from nmt_core.corpus.shard import DROPPED_COLUMNS, ROW_GROUP_PAIRS
from nmt_core.corpus.sources import SIDES
from nmt_core.errors import StageError
from nmt_core.stage import Inputs, Job, StageReport

SPLITS = "splits.json"
DEV = "dev.parquet"
CARVED = "held-out"
"""Name of the test set that is taken out of the training text."""

_SHARED = "shares_a_side"
_NOT_DRAWN = "not_drawn"
_KNOBS_OF_CLEAN = {"decontaminate", "ngram_words", "short_ngram_words"}


class MixedCorpus(BaseModel):
    """How much of a corpus is trained on."""

    model_config = ConfigDict(frozen=True)
    corpus: str
    clean: int
    """Pairs that came in."""
    times: float
    """How many times each is trained on, on average; pairs above a cap never are."""
    trained_on: int
    """Pairs in the training text, repeated ones as often as they stand there."""
    tag: str


class SplitReport(StageReport):
    """Sizes of the parts."""

    dev: int
    tests: dict[str, int]
    dropped: dict[str, int]
    """Pairs that share a side, or a run of words, with one that was taken out for dev or test, and pairs that the mix
    does not draw."""
    held_out: dict[str, int]
    """Those that share a run of words, by the first set that they share it with."""
    mix: list[MixedCorpus]


@dataclass(frozen=True)
class _Shard:
    """One shard of the training text."""

    clean: str
    train: str
    """To be written."""
    dropped: str
    """To be written."""
    held_out: HeldOutPairs | None
    leaks: decontaminate.HeldOut | None
    """What knows the runs of words of `held_out`; None: they may be shared."""
    rates: Mapping[str, mix.Rate]
    seed: int


def identity(config: PipelineConfig) -> Identity:
    """What decides the result: of `clean`, which decides its own artifact, only what is applied here as well."""
    values = {name: getattr(config, name).model_dump(mode="json") for name in ("split", "mix", "languages")}
    return values | {"clean": config.clean.model_dump(mode="json", include=_KNOBS_OF_CLEAN)}


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> SplitReport:
    """Write `train-NNNNN.parquet`, `dropped-NNNNN.parquet`, `dev.parquet` and a `test-<name>.parquet` for each set.

    Dev and test text is what the recipe names, unaltered; where it names none, it is taken out of the clean text, of
    corpora that are neither tagged nor left out by a weight of 0, unless there are no others. What shares a sentence
    with it, or a run of words as `clean` looks for them in named sets, is dropped. The training text is weighted,
    capped and tagged as `mix` says. `splits.json` lists the dev and test files.

    Raises:
        DataError: a dev or test file cannot be read.
        StageError: there is too little text to take some out, or nothing is left to train on.
    """
    devs, tests = (held_out_sets(inputs["download"], role, config.languages) for role in ("dev", "test"))
    shards = [str(path) for path in sorted(inputs["clean"].path.glob(TRAIN_FILES))]
    sizes = (0 if tests else config.split.test_pairs, 0 if devs else config.split.dev_pairs)
    rates = mix.rates(config.mix, shards, job.workers)
    genuine = [name for name, rate in rates.items() if rate.times and not rate.tag]  # not made by a model
    carved = carve(shards, sizes, config.split.seed, job.workers, genuine) if any(sizes) else None
    leaks = _leaks(carved, config) if carved and config.clean.decontaminate else None
    tasks = [
        _Shard(
            clean=shard,
            train=str(out / f"train-{number:05d}.parquet"),
            dropped=str(out / f"dropped-{number:05d}.parquet"),
            held_out=carved,
            leaks=leaks,
            rates=rates,
            seed=config.mix.seed,
        )
        for number, shard in enumerate(shards)
    ]
    clean, dropped, leaked, train = (Counter[str]() for _ in range(4))
    for number, counts in enumerate(job.workers.map(_split_shard, tasks)):
        for total, found in zip((clean, dropped, leaked, train), counts, strict=True):
            total.update(found)
        job.reporter.progress(number + 1, len(tasks), f"{train.total():,} pairs to train on")
    storage.sweep(str(out))
    if carved:
        left = clean.total() - dropped[_SHARED] - leaked.total() - sum(sizes)
        if left < sum(sizes):
            raise too_little(clean.total(), sizes, left)
        devs, tests = devs or {CARVED: carved.dev}, tests or {CARVED: carved.test}
    if not train:
        raise StageError("split: the mix draws no pair: raise the weights in mix.corpora")
    dev = pl.concat([corpus.select(SIDES) for corpus in devs.values()])
    _write_held_out(dev, tests, out)
    return SplitReport(
        items_in=clean.total(),
        items_out=train.total(),
        unit="pairs",
        dev=dev.height,
        tests={name: test.height for name, test in tests.items()},
        dropped=dict(sorted(dropped.items())),
        held_out=dict(sorted(leaked.items())),
        mix=[
            MixedCorpus(corpus=name, clean=clean[name], times=rate.times, trained_on=train[name], tag=rate.tag)
            for name, rate in rates.items()
        ],
    )


def _write_held_out(dev: pl.DataFrame, tests: Mapping[str, pl.DataFrame], out: Path) -> None:
    storage.write(dev, str(out / DEV))
    files = {name: f"test-{name}.parquet" for name in tests}
    for name, test in tests.items():
        storage.write(test.select(SIDES), str(out / files[name]))
    (out / SPLITS).write_text(json.dumps({"dev": DEV, "tests": files}, indent=1), encoding="utf-8")


def _leaks(carved: HeldOutPairs, config: PipelineConfig) -> decontaminate.HeldOut:
    sets = {f"dev/{CARVED}": carved.dev, f"test/{CARVED}": carved.test}
    taken_out = {name: pairs for name, pairs in sets.items() if pairs.height}
    return decontaminate.HeldOut(taken_out, config.clean, config.languages)


def _split_shard(shard: _Shard) -> tuple[Counter[str], Counter[str], Counter[str], Counter[str]]:
    """Write one shard; its clean pairs by corpus, the dropped ones by reason, those of them that share a run of words
    with a set by its name, and those to train on by corpus.
    """
    pairs = storage.read(shard.clean)
    train, sharing = shard.held_out.part(pairs) if shard.held_out else (pairs, pairs.clear())
    train, leaking = _without_leaks(train, shard.leaks)
    if train.height < pairs.height or not all(rate.changes_nothing for rate in shard.rates.values()):
        train, not_drawn = mix.mixed(train, shard.rates, shard.seed)
        storage.write(train, shard.train, row_group_pairs=ROW_GROUP_PAIRS)
    else:
        not_drawn = pairs.clear()
        storage.link(Path(shard.clean), Path(shard.train))
    nothing = pl.lit(None, pl.String)
    reasons = [
        (sharing, _SHARED, nothing),
        (leaking, decontaminate.REASON, pl.col("set")),
        (not_drawn, _NOT_DRAWN, nothing),
    ]
    listed = [
        rows.with_columns(reason=pl.lit(why), value=value).select(DROPPED_COLUMNS) for rows, why, value in reasons
    ]
    dropped = pl.concat(listed)
    storage.write(dropped, shard.dropped)
    return _counts(pairs["corpus"]), _counts(dropped["reason"]), _counts(leaking["set"]), _counts(train["corpus"])


def _without_leaks(pairs: pl.DataFrame, leaks: decontaminate.HeldOut | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The pairs that share no run of words with held-out text; and those that do, with the set's name as `set`."""
    if not leaks:
        return pairs, pairs.clear().with_columns(set=pl.lit(None, pl.String))
    found = leaks.find(pairs.with_columns(normalize.key(pl.col(side)).name.suffix("_key") for side in SIDES))
    return pairs.filter(found.is_null()), pairs.with_columns(set=found).filter(found.is_not_null())


def _counts(values: pl.Series) -> Counter[str]:
    return Counter(dict(values.value_counts(name="count").iter_rows()))
