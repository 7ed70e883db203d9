"""Run the stage `split`: divide the text into training, dev and test text that share no sentence."""

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl
from pydantic import BaseModel, ConfigDict

from nmt_core.config import SIDES, TOKEN_COLUMNS, CleanConfig, LanguagesConfig, PipelineConfig, tag_of
from nmt_core.config.corpus import name_of_set
from nmt_core.config.section import later
from nmt_core.corpus import mix, normalize, reading
from nmt_core.corpus.clean import MONOLINGUAL_FILES, TRAIN_FILES
from nmt_core.corpus.held_out import decontaminate
from nmt_core.corpus.held_out.carve import HeldOutPairs, carve, too_little
from nmt_core.corpus.index import CorpusIndex
from nmt_core.corpus.reading import held_out_sets
from nmt_core.corpus.shard import DROPPED_COLUMNS, ROW_GROUP_PAIRS
from nmt_core.errors import StageError, counted
from nmt_core.stages.stage import Inputs, Job, StageReport, require_sum
from nmt_core.store import storage
from nmt_core.store.artifacts import Identity

SPLITS = "splits.json"
DEV = "dev.parquet"
CARVED = "held-out"
"""Name of the test set that is taken out of the training text."""

_SHARED = "shares_a_side"
_OPTIONS_OF_CLEAN = {"decontaminate", "ngram_words", "short_ngram_words"}


class MixedCorpus(BaseModel):
    """Amount of a corpus that is trained on."""

    model_config = ConfigDict(frozen=True)
    corpus: str
    clean: int
    """Number of clean pairs that came in."""
    times: float
    """Average number of times that each pair is trained on. Pairs above a cap are never trained on."""
    trained_on: int
    """Number of pairs in the training text, repetitions included."""
    tag: str
    pair: str = later("")
    """Pair of languages. Empty means the recipe's only pair."""


class MonolingualSplit(BaseModel):
    """Sentences of monolingual text that are kept apart from text taken out for dev and test."""

    model_config = ConfigDict(frozen=True)
    items_in: int
    items_out: int
    dropped: dict[str, int]
    """Number of dropped sentences by reason. `items_in` = `items_out` + their sum."""


class SplitReport(StageReport):
    """Sizes of the training, dev and test text."""

    dev: int
    tests: dict[str, int]
    dropped: dict[str, int]
    """Number of dropped pairs by reason.

    A pair is dropped if it shares a side, or a run of words, with a pair taken out for dev or test, or if the mix does
    not draw it.
    """
    held_out: dict[str, int]
    """Number of pairs that share a run of words with a held-out set, by the first such set."""
    mix: list[MixedCorpus]
    monolingual: MonolingualSplit | None = None
    """Number of sentences of monolingual text. None means that the recipe has none."""


@dataclass(frozen=True)
class _Shard:
    """One shard of the training text."""

    clean: str
    train: str
    """Path to write the training pairs."""
    dropped: str
    """Path to write the dropped pairs."""
    held_out: str
    """Address of the pairs taken out for dev and test, as `HeldOutPairs.to_frame` makes them. Empty means none.

    Other pairs have another address.
    """
    rules: CleanConfig
    """Rules about the runs of words that no pair may share with `held_out`."""
    languages: LanguagesConfig
    rates: Mapping[str, mix.Rate]
    seed: int
    directions: mix.Directions
    """Pairs of languages that each corpus serves. Empty means the recipe's only pair."""


@dataclass
class _Counts:
    """Counts of the pairs of one shard, or of many."""

    clean: Counter[str] = field(default_factory=Counter)
    """Pairs that came in, by corpus. With many pairs of languages, by `mix.key_of`, as in `train`."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Dropped pairs, by reason."""
    leaked: Counter[str] = field(default_factory=Counter)
    """Pairs that share a run of words with a held-out set, by the name of the set."""
    train: Counter[str] = field(default_factory=Counter)
    """Pairs to train on, by corpus, repetitions included."""
    trained_on: int = 0
    """Number of distinct pairs to train on."""
    alone: Counter[str] = field(default_factory=Counter)
    """Sentences of monolingual text that came in, by corpus."""
    alone_dropped: Counter[str] = field(default_factory=Counter)
    """Dropped sentences of monolingual text, by reason."""
    alone_kept: int = 0
    """Number of sentences of monolingual text that are left."""

    def add(self, other: "_Counts") -> None:
        """Add the counts of another shard."""
        for name in ("clean", "dropped", "leaked", "train", "alone", "alone_dropped"):
            getattr(self, name).update(getattr(other, name))
        self.trained_on += other.trained_on
        self.alone_kept += other.alone_kept


def identity(config: PipelineConfig) -> Identity:
    """Return the values that decide the result.

    Of `clean`, which decides its own artifact, only the options that are applied here too are included.
    """
    values = {name: getattr(config, name).model_dump(mode="json") for name in ("split", "mix", "languages")}
    made = {part.name for part in config.synthesis.parts} | {part.name for part in config.augmentation.parts}  # later
    values["mix"]["corpora"] = [rule for rule in values["mix"]["corpora"] if rule["corpus"] not in made]
    return values | {"clean": config.clean.model_dump(mode="json", include=_OPTIONS_OF_CLEAN)}


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> SplitReport:
    """Write `train-NNNNN.parquet`, `dropped-NNNNN.parquet`, `dev.parquet` and a `test-<name>.parquet` for each set.

    Monolingual text becomes `monolingual-NNNNN.parquet`, without sentences of dev and test text.

    With many pairs of languages, a row has its pair, and the token that names its target language in the column
    `source_token` or `target_token`. Text that serves both directions is written in both.

    Dev and test text named in the recipe is used unaltered. If the recipe names none, it is taken out of the clean
    text. Corpora that are tagged or have a weight of 0 are avoided unless there are no others. Pairs that share a
    sentence with it, or a run of words as defined by `clean`, are dropped. The training text is weighted, capped and
    tagged by `mix`. `splits.json` lists the dev and test files.

    Raises:
        DataError: a dev or test file cannot be read.
        StageError: there is too little text to take some out, or nothing is left to train on.
    """
    devs, tests = (held_out_sets(inputs["download"], role, config.languages) for role in ("dev", "test"))
    index = CorpusIndex.of(inputs["download"])
    directions = {corpus.name: corpus.pairs for corpus in index.of_role("train") if corpus.pairs}
    shards = [str(path) for path in sorted(inputs["clean"].path.glob(TRAIN_FILES))]
    sizes = (0 if tests else config.split.test_pairs, 0 if devs else config.split.dev_pairs)
    rates = mix.rates(config.mix, shards, job.workers, directions)
    genuine = [name for name, rate in rates.items() if rate.times and not rate.tag]  # not made by a model
    carved = (
        carve(shards, sizes, config.split.seed, job.workers, genuine, _codes(config.languages)) if any(sizes) else None
    )
    alone = [str(path) for path in sorted(inputs["clean"].path.glob(MONOLINGUAL_FILES))]
    total = _split(shards, alone, carved, (rates, directions), config, out, job)
    became = {"trained on": total.trained_on, "taken out": sum(sizes), "dropped": total.dropped.total()}
    require_sum("split", total.clean.total(), became)
    monolingual = _report_alone(total) if alone else None
    if carved:
        left = total.clean.total() - total.dropped[_SHARED] - total.leaked.total() - sum(sizes)
        if left < sum(sizes):
            raise too_little(total.clean.total(), sizes, left)
        devs, tests = devs or {CARVED: carved.dev}, tests or {CARVED: carved.test}
    if not total.train:
        raise StageError("split: the mix draws no pair: raise the weights in mix.corpora")
    if directions:
        dev, tests = _write_many_held_out(index, devs, tests, config.languages, out)
    else:
        dev = pl.concat([corpus.select(SIDES) for corpus in devs.values()])
        _write_held_out(dev, tests, out)
    return _report(total, rates, dev, tests, monolingual)


def _report(
    total: "_Counts",
    rates: Mapping[str, mix.Rate],
    dev: pl.DataFrame,
    tests: Mapping[str, pl.DataFrame],
    monolingual: MonolingualSplit | None,
) -> SplitReport:
    return SplitReport(
        items_in=total.clean.total(),
        items_out=total.train.total(),
        unit="pairs",
        dev=dev.height,
        tests={name: test.height for name, test in tests.items()},
        dropped=dict(sorted(total.dropped.items())),
        held_out=dict(sorted(total.leaked.items())),
        mix=[
            MixedCorpus(
                corpus=corpus,
                clean=total.clean[key],
                times=rate.times,
                trained_on=total.train[key],
                tag=rate.tag,
                pair=pair,
            )
            for key, rate in rates.items()
            for corpus, pair in [mix.corpus_and_pair(key)]
        ],
        monolingual=monolingual,
    )


def _report_alone(total: "_Counts") -> MonolingualSplit:
    """Return the report on monolingual text, whose sentences are all accounted for."""
    came, left, dropped = total.alone.total(), total.alone_kept, total.alone_dropped
    require_sum("split, monolingual text", came, {"kept": left, "dropped": dropped.total()})
    return MonolingualSplit(items_in=came, items_out=left, dropped=dict(sorted(dropped.items())))


def _split(
    shards: Sequence[str],
    alone: Sequence[str],
    carved: HeldOutPairs | None,
    mixing: tuple[Mapping[str, mix.Rate], mix.Directions],
    config: PipelineConfig,
    out: Path,
    job: Job,
) -> _Counts:
    """Write the training text and the dropped pairs, shard by shard."""
    scratch, held_out, total = job.resources.scratch_for(out), "", _Counts()
    try:
        if carved:
            table = carved.to_frame()
            # Named by its content: a worker that outlives the run caches it, and must not mix it up with other text.
            held_out = f"{scratch}/held-out-{hashlib.sha256(table.write_json().encode()).hexdigest()[:32]}.parquet"
            storage.write(table, held_out)
        tasks = [
            _Shard(
                clean=shard,
                train=str(out / f"train-{number:05d}.parquet"),
                dropped=str(out / f"dropped-{number:05d}.parquet"),
                held_out=held_out,
                rules=config.clean,
                languages=config.languages,
                rates=mixing[0],
                seed=config.mix.seed,
                directions=mixing[1],
            )
            for number, shard in enumerate(shards)
        ]
        tasks_alone = [
            replace(
                tasks[0],
                clean=shard,
                train=str(out / f"monolingual-{number:05d}.parquet"),
                dropped=str(out / f"monolingual-dropped-{number:05d}.parquet"),
            )
            for number, shard in enumerate(alone)
        ]
        for number, part in enumerate(job.workers.map(_split_shard, tasks)):
            total.add(part)
            job.reporter.progress(number + 1, len(tasks), f"{counted(total.train.total(), 'pair')} to train on")
        for part in job.workers.map(_split_alone, tasks_alone):
            total.add(part)
    finally:
        storage.remove_folder(scratch)
    storage.sweep(str(out))
    if mixing[1]:
        _require_text_of_each_pair(config.languages, total.clean)
    return total


def _write_held_out(dev: pl.DataFrame, tests: Mapping[str, pl.DataFrame], out: Path) -> None:
    storage.write(dev, str(out / DEV))
    files = {name: f"test-{name}.parquet" for name in tests}
    for name, test in tests.items():
        storage.write(test.select(SIDES), str(out / files[name]))
    (out / SPLITS).write_text(json.dumps({"dev": DEV, "tests": files}, indent=1), encoding="utf-8")


def _require_text_of_each_pair(languages: LanguagesConfig, clean: Mapping[str, int]) -> None:
    """Check that clean text is left for each pair of languages, given the number of rows by `mix.key_of`.

    Raises:
        StageError: a pair has no text, for example because its corpora were skipped.
    """
    with_text = {mix.corpus_and_pair(key)[1] for key, count in clean.items() if count}
    if missing := [pair for pair in languages.pairs if pair not in with_text]:
        raise StageError(
            f"split: no text is left for the pair {missing[0]} of languages.pairs, because `clean` skipped or dropped "
            "all of it: see the report of clean, name other text in corpus.train, or remove the pair"
        )


def _write_many_held_out(
    index: CorpusIndex,
    devs: Mapping[str, pl.DataFrame],
    tests: Mapping[str, pl.DataFrame],
    languages: LanguagesConfig,
    out: Path,
) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """Write dev and test text of many pairs of languages, and return it.

    The dev set holds the text of all pairs, each row with its pair and its token. A test set is in one pair.
    """
    directed = {
        (corpus.role, name_of_set(corpus.name, corpus.pairs, pair)): (pair, rows)
        for role, sets in (("dev", devs), ("test", tests))
        for corpus in index.corpora
        if corpus.role == role
        for pair, rows in reading.in_each_direction(sets[corpus.name], corpus.pairs)
    }
    dev = pl.concat(
        [
            rows.select(*SIDES, pl.lit(pair).alias("pair")).with_columns(token_of_pair(languages))
            for (role, _), (pair, rows) in directed.items()
            if role == "dev"
        ]
    )
    pairs = {name: pair for (role, name), (pair, _) in directed.items() if role == "test"}
    sets = {name: rows for (role, name), (_, rows) in directed.items() if role == "test"}
    _write_held_out(dev, sets, out)
    content = json.loads((out / SPLITS).read_text(encoding="utf-8"))
    unseen = [name for name, pair in pairs.items() if pair not in languages.pairs]
    content |= {"pairs": pairs, "zero_shot": unseen}
    (out / SPLITS).write_text(json.dumps(content, indent=1), encoding="utf-8")
    return dev, sets


def token_of_pair(languages: LanguagesConfig) -> pl.Expr:
    """Return the token that names the target language of each row's pair, as a column such as `source_token`."""
    tokens = {pair: tag_of(pair.split("-")[1]) for pair in languages.known_pairs}
    return pl.col("pair").replace_strict(tokens, return_dtype=pl.String).alias(TOKEN_COLUMNS[languages.tag_side])


def _in_all_directions(pairs: pl.DataFrame, directions: mix.Directions) -> pl.DataFrame:
    """Return the rows of a shard in each pair of languages of their corpus, with the columns pair and mixed_as."""
    parts = [
        rows.with_columns(pair=pl.lit(pair), mixed_as=pl.lit(mix.key_of(corpus, pair)))
        for (corpus,), part in pairs.group_by("corpus", maintain_order=True)
        for pair, rows in reading.in_each_direction(part, directions[corpus])
    ]
    columns = [pl.lit("").alias(name) for name in ("pair", "mixed_as")]
    return pl.concat(parts) if parts else pairs.with_columns(columns)


@functools.lru_cache(maxsize=2)
def _held_out(url: str) -> HeldOutPairs:
    """Read the held-out pairs. All shards use the same pairs, so a worker reads them only once."""
    return HeldOutPairs.from_frame(storage.read(url))


@functools.lru_cache(maxsize=2)
def _leaks(url: str, rules: CleanConfig, languages: LanguagesConfig) -> decontaminate.HeldOut:
    """Prepare the lookup for the runs of words of the held-out pairs."""
    carved = _held_out(url)
    sets = {f"dev/{CARVED}": carved.dev, f"test/{CARVED}": carved.test}
    taken_out = {name: pairs for name, pairs in sets.items() if pairs.height}
    return decontaminate.HeldOut(taken_out, rules, languages)


def _split_shard(shard: _Shard) -> _Counts:
    """Write one shard."""
    if shard.directions:
        return _split_directed(shard)
    pairs = storage.read(shard.clean)
    train, sharing = (
        _held_out(shard.held_out).part(pairs, _codes(shard.languages)) if shard.held_out else (pairs, pairs.clear())
    )
    is_looked_for = shard.held_out and shard.rules.decontaminate
    leaks = _leaks(shard.held_out, shard.rules, shard.languages) if is_looked_for else None
    train, leaking = _without_leaks(train, leaks)
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
        (not_drawn, mix.NOT_DRAWN, nothing),
    ]
    listed = [
        rows.with_columns(reason=pl.lit(why), value=value).select(DROPPED_COLUMNS) for rows, why, value in reasons
    ]
    dropped = pl.concat(listed)
    storage.write(dropped, shard.dropped)
    return _Counts(
        clean=_counts(pairs["corpus"]),
        dropped=_counts(dropped["reason"]),
        leaked=_counts(leaking["set"]),
        train=_counts(train["corpus"]),
        trained_on=train.select("corpus", "line").n_unique(),
    )


def _split_directed(shard: _Shard) -> _Counts:
    """Write one shard in all its pairs of languages. No text was taken out of it."""
    pairs = _in_all_directions(storage.read(shard.clean), shard.directions)
    train, not_drawn = mix.mixed(pairs, shard.rates, shard.seed, by="mixed_as")
    written = train.drop("mixed_as").with_columns(token_of_pair(shard.languages))
    storage.write(written, shard.train, row_group_pairs=ROW_GROUP_PAIRS)
    dropped = not_drawn.with_columns(reason=pl.lit(mix.NOT_DRAWN), value="pair").select(DROPPED_COLUMNS)
    storage.write(dropped, shard.dropped)
    return _Counts(
        clean=_counts(pairs["mixed_as"]),
        dropped=_counts(dropped["reason"]),
        train=_counts(train["mixed_as"]),
        trained_on=train.select("mixed_as", "line").n_unique(),
    )


def _split_alone(shard: _Shard) -> _Counts:
    """Write one shard of monolingual text."""
    text = storage.read(shard.clean)
    if not shard.held_out:
        storage.link(Path(shard.clean), Path(shard.train))
        storage.write(pl.DataFrame(schema=dict.fromkeys(DROPPED_COLUMNS, pl.String)), shard.dropped)
        return _Counts(alone=_counts(text["corpus"]), alone_kept=text.height)
    # The other side is empty, and no held-out sentence is.
    sides = [pl.when(pl.col("side") == side).then("text").otherwise(pl.lit("")).alias(side) for side in SIDES]
    pairs = text.with_columns(sides)
    kept, sharing = _held_out(shard.held_out).part(pairs, _codes(shard.languages))
    leaks = _leaks(shard.held_out, shard.rules, shard.languages) if shard.rules.decontaminate else None
    kept, leaking = _without_leaks(kept, leaks)
    reasons = [(sharing, _SHARED, pl.lit(None, pl.String)), (leaking, decontaminate.REASON, pl.col("set"))]
    dropped = pl.concat(
        [rows.with_columns(reason=pl.lit(why), value=value).select(DROPPED_COLUMNS) for rows, why, value in reasons]
    )
    storage.write(kept.select(text.columns), shard.train, row_group_pairs=ROW_GROUP_PAIRS)
    storage.write(dropped, shard.dropped)
    return _Counts(alone=_counts(text["corpus"]), alone_dropped=_counts(dropped["reason"]), alone_kept=kept.height)


def _codes(languages: LanguagesConfig) -> tuple[str, str]:
    return languages.source, languages.target


def _without_leaks(pairs: pl.DataFrame, leaks: decontaminate.HeldOut | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split off the pairs that share a run of words with held-out text, with the name of the set as a column `set`."""
    if not leaks:
        return pairs, pairs.clear().with_columns(set=pl.lit(None, pl.String))
    leaking = leaks.find(pairs.with_columns(normalize.key(pl.col(side)).name.suffix("_key") for side in SIDES))
    return pairs.filter(leaking.is_null()), pairs.with_columns(set=leaking).filter(leaking.is_not_null())


def _counts(values: pl.Series) -> Counter[str]:
    return Counter(dict(values.value_counts(name="count").iter_rows()))
