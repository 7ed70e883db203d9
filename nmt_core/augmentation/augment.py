"""Run the stage `augment`: changed copies of training pairs join the training text.

Which pairs are copied, and how each is changed, depends on the seed and on the place of the pair in its corpus, and on
the pair of languages if there are many. It does not depend on shards, workers or processes.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
from pydantic import BaseModel, ConfigDict

from nmt_core.augmentation.changes import CHANGES
from nmt_core.augmentation.draw import Draw, Pair
from nmt_core.config import SIDES, AugmentedPart, CleanConfig, LanguagesConfig, MixConfig, PipelineConfig
from nmt_core.corpus import mix, normalize
from nmt_core.corpus.clean import TRAIN_FILES
from nmt_core.corpus.held_out import decontaminate
from nmt_core.corpus.joining import FROM, Joined, JoinedReport, MadeFiles, by_pair, join, leaks, link_text, originals
from nmt_core.corpus.shard import DROPPED_COLUMNS, ROW_GROUP_PAIRS, train_columns
from nmt_core.errors import StageError
from nmt_core.spelling import Spelling
from nmt_core.stages.stage import Inputs, Job, require_sum
from nmt_core.store import storage
from nmt_core.store.artifacts import Identity

UNCHANGED = "nothing_to_change"
"""Reason of copies that a change leaves as they are, such as text without diacritics."""
WORK = ".work"
"""Folder of the changed pairs before the mix, in the unfinished artifact."""

_OF_CLEAN = {"decontaminate", "ngram_words", "short_ngram_words", "unicode_form", "punctuation"}
_OTHERS = 2
"""Number of following pairs that a change may use."""
_SAMPLES = 4


class PartReport(BaseModel):
    """Result of one part."""

    model_config = ConfigDict(frozen=True)
    part: str
    changes: list[str]
    copied: int
    """Number of pairs that were drawn to be changed."""
    dropped: int
    """Number of copies that were dropped."""
    trained_on: int
    """Number of pairs in the training text, repetitions included."""
    times: float
    """Average number of times that each kept copy is trained on."""
    tag: str


class Sample(BaseModel):
    """Copy and the pair from which it was made."""

    model_config = ConfigDict(frozen=True)
    part: str
    source: str
    target: str
    before: str
    """Source of the pair before the change."""


class AugmentReport(JoinedReport):
    """Sizes of the changed copies, and of the training, dev and test text together with them."""

    unchanged: int
    """Number of pairs of the training text without the copies, repetitions included."""
    parts: list[PartReport]
    samples: list[Sample]


@dataclass(frozen=True)
class ShardTask:
    """Shard of training text, of which one part copies and changes some pairs."""

    part: AugmentedPart
    text: str
    split: str
    """Folder with the dev and test text."""
    first: int
    """Number of rows of the shards before."""
    kept: str
    dropped: str
    seed: int
    mix: MixConfig
    rules: CleanConfig
    languages: LanguagesConfig


@dataclass
class Changed:
    """Counts and samples of one shard, or of many."""

    copied: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    leaked: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)

    def add(self, other: "Changed") -> None:
        """Add the counts of another shard."""
        self.copied += other.copied
        self.dropped.update(other.dropped)
        self.leaked.update(other.leaked)
        self.samples = (self.samples + other.samples)[:_SAMPLES]


@dataclass
class _Made:
    part: AugmentedPart
    changed: Changed
    joined: Joined


def identity(config: PipelineConfig) -> Identity:
    """Return the values that decide the copies.

    Of `mix`, the rules of the augmented corpora count, and the tags of all others, which are removed from the copies.
    Of `clean`, only the options count that are applied here too.
    """
    names = {part.name for part in config.augmentation.parts}
    rules = [rule.model_dump(mode="json") for rule in config.mix.corpora if rule.corpus in names]
    tags = {rule.corpus: rule.tag for rule in config.mix.corpora if rule.tag and rule.corpus not in names}
    return {
        "augmentation": config.augmentation.model_dump(mode="json"),
        "mix": {"corpora": rules, "seed": config.mix.seed, "tags": tags},
        "languages": config.languages.model_dump(mode="json"),
        "clean": config.clean.model_dump(mode="json", include=_OF_CLEAN),
    }


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> AugmentReport:
    """Change copies of training pairs, and write a training text in the layout of `split`.

    The shards of the text come first, unchanged. The copies of each part follow in further `train-NNNNN.parquet`, with
    the place of their origin, and `dropped-NNNNN.parquet` of the same number has the copies that were dropped. Dev and
    test text is the same as before.

    Raises:
        StageError: no copy of a part is left.
    """
    split = inputs["split"]
    shards = sorted(split.path.glob(TRAIN_FILES))
    number, made = link_text(split.path, out), []
    for part in config.augmentation.parts:
        tasks = list(_tasks(part, shards, config, split.path, out))
        changed = Changed()
        for done, one in enumerate(job.workers.map(change_shard, tasks), 1):
            changed.add(one)
            job.reporter.progress(done, len(tasks), f"shards for {part.name}")
        files = [MadeFiles(task.kept, task.dropped) for task in tasks]
        joined = join(part.name, files, config.mix, out, number, job.workers)
        if not joined:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(changed.dropped.items()))
            raise StageError(
                f"augment: none of the {changed.copied:,} copies of part {part.name} is left ({reasons or 'no pair'}): "
                f"name other changes than {', '.join(part.changes)}, a larger share, or remove the part"
            )
        number += len(files)
        changed.dropped.update({mix.NOT_DRAWN: joined.not_drawn} if joined.not_drawn else {})
        made.append(_Made(part, changed, joined))
    storage.remove_folder(str(out / WORK))
    storage.sweep(str(out))
    before = split.report()
    return _report(made, before["items_out"], before["dev"], before["tests"])


def _tasks(
    part: AugmentedPart, shards: Sequence[Path], config: PipelineConfig, split: Path, out: Path
) -> Iterator[ShardTask]:
    first = 0
    for shard in shards:
        yield ShardTask(
            part=part,
            text=str(shard),
            split=str(split),
            first=first,
            kept=str(out / WORK / part.name / "kept" / shard.name),
            dropped=str(out / WORK / part.name / "dropped" / shard.name),
            seed=config.augmentation.seed,
            mix=config.mix,
            rules=config.clean,
            languages=config.languages,
        )
        first += int(pl.scan_parquet(shard, glob=False).select(pl.len()).collect().item())


def change_shard(task: ShardTask) -> Changed:
    """Write the changed copies of a shard, and the copies that are dropped, each with its reason."""
    columns = train_columns(task.languages)
    text = storage.read(task.text, columns).with_row_index("row", task.first + 1)
    rows = originals(text, task.mix)
    if task.part.corpora:
        rows = rows.filter(pl.col("corpus").is_in(task.part.corpora))
    if task.part.pairs:
        rows = rows.filter(pl.col("pair").is_in(task.part.pairs))
    place = ("corpus", "line", *(["pair"] if task.languages.pairs else []))
    drawn_by = [pl.lit(task.seed), pl.lit(task.part.name), *map(pl.col, place)]
    rows = rows.with_columns(draw=normalize.hashed(pl.format("\t".join("{}" for _ in drawn_by), *drawn_by)))
    parts = [_judged(task, own, languages) for languages, own in by_pair(rows, task.languages)]
    copies = pl.concat(parts) if parts else _judged(task, rows, task.languages)
    kept, dropped = copies.filter(pl.col("reason").is_null()), copies.filter(pl.col("reason").is_not_null())
    storage.write(kept.select(*columns, *FROM), task.kept, row_group_pairs=ROW_GROUP_PAIRS)
    storage.write(dropped.select(DROPPED_COLUMNS), task.dropped, row_group_pairs=ROW_GROUP_PAIRS)
    samples = kept.head(_SAMPLES).select(part="corpus", source="source", target="target", before="source_before")
    return Changed(
        copied=copies.height,
        dropped=Counter(dict(dropped["reason"].value_counts(name="count").iter_rows())),
        leaked=Counter(dropped["value"].drop_nulls().to_list()),
        samples=[Sample.model_validate(sample) for sample in samples.to_dicts()],
    )


def _judged(task: ShardTask, rows: pl.DataFrame, languages: LanguagesConfig) -> pl.DataFrame:
    """Return the changed copies of the pairs that are drawn, with the reason why a copy is dropped, or null.

    Args:
        task: shard and part.
        rows: pairs in these languages, with their draws.
        languages: source and target language of the pairs.
    """
    limit = pl.lit(min(2**64 - 1, int(task.part.share * 2**64)), pl.UInt64)
    chosen = rows.select((pl.col("draw") <= limit).arg_true()).to_series()
    codes = (languages.source, languages.target)
    copies = rows[chosen].with_columns(_copied(task.part, rows, chosen.to_list(), codes))
    copies = copies.with_columns(
        normalize.normalised(pl.col(side), *Spelling.of(task.rules, code))
        for side, code in zip(SIDES, codes, strict=True)
    ).rename({"corpus": FROM[0], "line": FROM[1], "row": "line"})
    copies = copies.with_columns(corpus=pl.lit(task.part.name), line=pl.col("line").cast(pl.Int64))
    is_same = pl.all_horizontal(pl.col(side) == pl.col(f"{side}_before") for side in SIDES)
    is_empty = pl.any_horizontal(pl.col(side) == "" for side in SIDES)
    unchanged, changed = copies.filter(is_same | is_empty), copies.filter(~(is_same | is_empty))
    leaked = leaks(changed, task.split, task.rules, languages)
    reason = pl.when(leaked.is_not_null()).then(pl.lit(decontaminate.REASON))
    return pl.concat(
        [
            unchanged.with_columns(reason=pl.lit(UNCHANGED), value=pl.lit(None, pl.String)),
            changed.with_columns(reason=reason, value=leaked),
        ]
    )


def _copied(part: AugmentedPart, rows: pl.DataFrame, chosen: Sequence[int], languages: Pair) -> list[pl.Series]:
    """Return both sides of the chosen pairs, before and after their changes."""
    pairs: list[Pair] = list(zip(*(rows[side].to_list() for side in SIDES), strict=True))
    draws = rows["draw"].to_list()
    before, after = [pairs[row] for row in chosen], []
    for row, pair in zip(chosen, before, strict=True):
        draw = Draw(random.Random(draws[row]), languages, part.strength, pairs[row + 1 : row + 1 + _OTHERS])
        for change in part.changes:
            pair = CHANGES[change](pair, draw)
        after.append(pair)
    return [
        pl.Series(f"{side}{name}", [pair[number] for pair in texts], dtype=pl.String)
        for name, texts in (("_before", before), ("", after))
        for number, side in enumerate(SIDES)
    ]


def _report(made: Sequence[_Made], pairs: int, dev: int, tests: dict[str, int]) -> AugmentReport:
    """Return the report, in which every copy is accounted for."""
    dropped: Counter[str] = Counter()
    leaked: Counter[str] = Counter()
    by_part: dict[str, int] = {}
    for one in made:
        name, reasons = one.part.name, one.changed.dropped
        parts = {"trained on": one.joined.drawn, "dropped": reasons.total()}
        require_sum(f"augment, {name}", one.changed.copied, parts)
        dropped.update(reasons)
        leaked.update(one.changed.leaked)
        by_part |= {f"{name}: {reason}": count for reason, count in sorted(reasons.items())}
    return AugmentReport(
        items_in=pairs,
        items_out=pairs + sum(one.joined.trained_on for one in made),
        unit="pairs",
        unchanged=pairs,
        parts=[
            PartReport(
                part=one.part.name,
                changes=list(one.part.changes),
                copied=one.changed.copied,
                dropped=one.changed.dropped.total(),
                trained_on=one.joined.trained_on,
                times=one.joined.rate.times,
                tag=one.joined.rate.tag,
            )
            for one in made
        ],
        dropped=dict(sorted(dropped.items())),
        dropped_by_part=by_part,
        held_out=dict(sorted(leaked.items())),
        dev=dev,
        tests=tests,
        samples=[sample for one in made for sample in one.changed.samples],
    )
