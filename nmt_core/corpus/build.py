"""The stages `download`, `clean` and `split`: from the files that a recipe names to train, dev and test text."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import polars as pl
from pydantic import BaseModel, ConfigDict

from nmt_core.artifacts import sha256_of_file
from nmt_core.config import PipelineConfig
from nmt_core.corpus import decontaminate, dedup, filters, formats, normalize, sources, toy
from nmt_core.corpus.sources import INDEX, SIDES, CorpusIndex, Resolver, Role, StoredCorpus, StoredFile
from nmt_core.corpus.split import carve
from nmt_core.errors import StageError
from nmt_core.stage import Inputs, Job, StageReport

SPLITS = "splits.json"
TRAIN = "train.parquet"
DROPPED = "dropped.parquet"
DEV = "dev.parquet"
CARVED = "held-out"
"""Name of the test set that `split` takes out of the training text."""

_SAMPLES_PER_REASON = 10
_SAMPLE_CHARACTERS = 200
_ROW_GROUP_PAIRS = 100_000


class DownloadReport(StageReport):
    """Files that were fetched, or made."""

    bytes: int
    planted: dict[str, int]
    """Rows of dirt in the toy corpus, by kind; empty for other corpora."""


class DroppedPair(BaseModel):
    """A dropped pair, its text cut to a length that one can look at."""

    model_config = ConfigDict(frozen=True)
    reason: str
    value: str | None
    """The measure that decided, such as the ratio, the held-out set, or where the first copy stands."""
    corpus: str
    line: int
    source: str
    target: str


class CleanReport(StageReport):
    """What was dropped, why, and what it looked like."""

    dropped: dict[str, int]
    """Pairs by reason, most first; `items_in` = `items_out` + their sum."""
    held_out: dict[str, int]
    """Pairs dropped because they share text with a dev or test set, by set."""
    repaired: int
    """Pairs that were kept and in which entities or mojibake were repaired."""
    samples: list[DroppedPair]
    """The first ten of each reason; the first of each come first."""


class SplitReport(StageReport):
    """Sizes of the three parts."""

    dev: int
    tests: dict[str, int]
    shared: int
    """Pairs that went because they share a side with a pair taken out for dev or test."""


def download(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> DownloadReport:
    """Fetch every file of the recipe as it is, or make the toy corpus, and list them in `corpora.json`.

    Raises:
        DataError: a file cannot be had, or is not what the recipe expects.
    """
    planted: dict[str, int] = {}
    if rules := config.corpus.toy:
        made = toy.generate(pairs=rules.pairs, seed=rules.seed, held_out=rules.held_out)
        planted = made.dirt
        corpora = [
            _store_toy(role, pairs, config.corpus.licence, out)
            for role, pairs in zip(sources.ROLES, (made.train, made.dev, made.test), strict=True)
        ]
    else:
        corpora = _fetch_all(config, out, job)
    (out / INDEX).write_text(CorpusIndex(corpora=tuple(corpora)).model_dump_json(indent=1), encoding="utf-8")
    files = [file for corpus in corpora for file in (corpus.source, corpus.target)]
    return DownloadReport(
        items_in=len(files),
        items_out=len(files),
        unit="files",
        bytes=sum(file.bytes for file in files),
        planted=planted,
    )


def _fetch_all(config: PipelineConfig, out: Path, job: Job) -> list[StoredCorpus]:
    resolver = Resolver(config.corpus.mirror)
    named = [(role, files) for role in sources.ROLES for files in sources.files_of(config.corpus, role)]
    corpora = []
    for position, (role, files) in enumerate(named):
        (out / role).mkdir(exist_ok=True)
        stored = {}
        for half, (side, wanted) in enumerate(sources.sides(files).items()):
            path = out / role / f"{files.name}.{side}"
            sha256 = resolver.fetch(wanted, path, _on_bytes(job, position + half / 2, len(named), wanted.label))
            path = path.rename(f"{path}{formats.suffix_by_content(path)}")
            stored[side] = StoredFile.of(path, sha256, wanted.address)
        corpora.append(StoredCorpus(role=role, name=files.name, licence=config.corpus.licence, **stored))
        job.reporter.progress(position + 1, len(named), f"corpus {files.name}")
    return corpora


def _on_bytes(job: Job, corpora_done: float, corpora: int, label: str) -> sources.OnBytes:
    def tell(done: int, total: int) -> None:
        share = done / total if total else 0.0
        job.reporter.progress(corpora_done + share / 2, corpora, f"{label}, {done / 1e6:,.1f} MB")

    return tell


def _store_toy(role: Role, pairs: list[tuple[str, str]], licence: str, out: Path) -> StoredCorpus:
    (out / role).mkdir()
    stored = {}
    for position, side in enumerate(SIDES):
        path = out / role / f"toy.{side}{formats.PLAIN}"
        path.write_bytes("".join(f"{pair[position]}\n" for pair in pairs).encode())
        stored[side] = StoredFile.of(path, sha256_of_file(path), "nmt_core.corpus.toy")
    return StoredCorpus(role=role, name="toy", licence=licence, **stored)


def clean(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> CleanReport:
    """Normalise, filter, deduplicate and decontaminate the training text; nothing vanishes.

    Writes `train.parquet` (source, target, corpus, line) and `dropped.parquet` (corpus, line, reason, value, source,
    target), the text normalised in both.

    Raises:
        DataError: a corpus cannot be read.
        StageError: nothing is left.
    """
    fetched, steps = inputs["download"], 3
    index = CorpusIndex.of(fetched)
    job.reporter.progress(0, steps, "reading")
    corpora = index.read(fetched, "train")
    held_out = {f"dev/{name}": pairs for name, pairs in index.read(fetched, "dev").items()}
    held_out |= {f"test/{name}": pairs for name, pairs in index.read(fetched, "test").items()}
    job.reporter.progress(1, steps, "filtering")
    kept, dropped = clean_pairs(config, corpora, held_out)
    job.reporter.progress(2, steps, "writing")
    pairs_in = sum(pairs.height for pairs in corpora.values())
    if kept.height + dropped.height != pairs_in:
        raise StageError(
            f"clean: {pairs_in:,} pairs came in, but {kept.height:,} were kept and {dropped.height:,} dropped: "
            "this is a fault of the program; please report it with the recipe"
        )
    report = _clean_report(kept, dropped)
    if kept.is_empty():
        raise StageError(_nothing_left(config, report))
    _write(kept.select("source", "target", "corpus", "line"), out / TRAIN)
    _write(dropped, out / DROPPED)
    job.reporter.progress(steps, steps, f"{kept.height:,} of {pairs_in:,} pairs kept")
    return report


def clean_pairs(
    config: PipelineConfig, corpora: Mapping[str, pl.DataFrame], held_out: Mapping[str, pl.DataFrame]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One lazy plan: normalise -> filters -> deduplicate -> decontaminate.

    Returns:
        The pairs to keep (source, target, corpus, line, repaired) and the dropped ones (corpus, line, reason, value,
        source, target), each in the order of the corpora and their lines.
    """
    rules = config.clean
    asked = filters.filters(rules, config.languages)
    leaks = decontaminate.HeldOut(held_out if rules.decontaminate else {}, rules, config.languages)
    table = (
        pl.concat([pairs.lazy().with_columns(corpus=pl.lit(name)) for name, pairs in corpora.items()])
        .with_columns(repaired=pl.any_horizontal(normalize.is_repaired(pl.col(side)) for side in SIDES))
        .with_columns(normalize.normalised(pl.col(side), rules.unicode_form) for side in SIDES)
        .with_columns(normalize.key(pl.col(side)).alias(f"{side}_key") for side in SIDES)
        .with_columns(reason=filters.reason(asked))
        .with_columns(is_repeat=dedup.is_repeat(rules.deduplicate), held_out=leaks.found())
        .with_columns(
            reason=pl.coalesce(
                "reason",
                pl.when("is_repeat").then(pl.lit(dedup.REASON)),
                pl.when(pl.col("held_out").is_not_null()).then(pl.lit(decontaminate.REASON)),
            )
        )
        .collect()
    )
    kept = table.filter(pl.col("reason").is_null())
    return kept.select("source", "target", "corpus", "line", "repaired"), _dropped(table, asked, rules.deduplicate)


def _dropped(table: pl.DataFrame, asked: list[filters.Filter], mode: dedup.Mode) -> pl.DataFrame:
    """The rows that have a reason, with the value that decided."""
    passed = pl.col("reason").is_null() | pl.col("reason").is_in([dedup.REASON, decontaminate.REASON])
    dropped = table.filter(pl.col("reason").is_not_null())
    first_copies = dedup.first_copies(table.filter(passed), dropped, mode)
    value = pl.coalesce(
        filters.value(asked),
        pl.when(reason=decontaminate.REASON).then("held_out"),
        pl.when(reason=dedup.REASON).then(first_copies),
    )
    return dropped.with_columns(value=value).select("corpus", "line", "reason", "value", "source", "target")


def _clean_report(kept: pl.DataFrame, dropped: pl.DataFrame) -> CleanReport:
    samples = dropped.with_columns(rank=pl.int_range(pl.len()).over("reason")).sort("rank", maintain_order=True)
    samples = samples.filter(pl.col("rank") < _SAMPLES_PER_REASON).drop("rank")
    samples = samples.with_columns(pl.col(SIDES).str.head(_SAMPLE_CHARACTERS))
    return CleanReport(
        items_in=kept.height + dropped.height,
        items_out=kept.height,
        unit="pairs",
        dropped=_counts(dropped["reason"]),
        held_out=_counts(dropped.filter(reason=decontaminate.REASON)["value"]),
        repaired=kept["repaired"].sum(),
        samples=[DroppedPair.model_validate(row) for row in samples.iter_rows(named=True)],
    )


def _counts(values: pl.Series) -> dict[str, int]:
    """How often each value occurs, most often first, equal counts by name."""
    counts = values.alias("value").value_counts(name="count").sort("count", "value", descending=[True, False])
    return dict(counts.iter_rows())


def _nothing_left(config: PipelineConfig, report: CleanReport) -> str:
    reason, count = next(iter(report.dropped.items()))
    knobs = {rule.reason: rule.knob for rule in filters.filters(config.clean, config.languages)}
    knobs |= {dedup.REASON: dedup.KNOB, decontaminate.REASON: decontaminate.KNOB}
    sample = next(sample for sample in report.samples if sample.reason == reason)
    return (
        f"clean: none of the {report.items_in:,} pairs is left; {reason!r} dropped most ({count:,}), as in corpus "
        f"{sample.corpus}, line {sample.line:,}: change {knobs[reason]}, or check corpus.train and languages"
    )


def split(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> SplitReport:
    """Lay out `train.parquet`, `dev.parquet` and a `test-<name>.parquet` for each test set, listed in `splits.json`.

    Dev and test text is what the recipe names, unaltered; where it names none, it is taken out of the clean text.

    Raises:
        DataError: a dev or test file cannot be read.
        StageError: there is too little text to take some out.
    """
    fetched, train_file = inputs["download"], inputs["clean"].path / TRAIN
    index = CorpusIndex.of(fetched)
    devs, tests = index.read(fetched, "dev"), index.read(fetched, "test")
    pairs = train = pl.read_parquet(train_file)
    shared = 0
    if devs and tests:
        _link(train_file, out / TRAIN)
    else:
        carved = carve(
            pairs,
            test_pairs=0 if tests else config.split.test_pairs,
            dev_pairs=0 if devs else config.split.dev_pairs,
            seed=config.split.seed,
        )
        train, shared = carved.train, carved.shared
        _write(train, out / TRAIN)
        devs, tests = devs or {CARVED: carved.dev}, tests or {CARVED: carved.test}
    dev = pl.concat([corpus.select(SIDES) for corpus in devs.values()])
    _write(dev, out / DEV)
    files = {name: f"test-{name}.parquet" for name in tests}
    for name, test in tests.items():
        _write(test.select(SIDES), out / files[name])
    (out / SPLITS).write_text(json.dumps({"dev": DEV, "tests": files}, indent=1), encoding="utf-8")
    job.reporter.progress(1, 1, f"{train.height:,} pairs to train on")
    return SplitReport(
        items_in=pairs.height,
        items_out=train.height,
        unit="pairs",
        dev=dev.height,
        tests={name: test.height for name, test in tests.items()},
        shared=shared,
    )


def _write(table: pl.DataFrame, path: Path) -> None:
    table.write_parquet(path, compression="zstd", row_group_size=_ROW_GROUP_PAIRS)


def _link(file: Path, to: Path) -> None:
    """A second name for the same bytes; a copy where the file system knows no hard links."""
    try:
        os.link(file, to)
    except OSError:
        shutil.copyfile(file, to)
