"""Run the stage `synthesise`: teachers translate text, and the pairs join the training text.

Everything of a killed run stays in the unfinished artifact: the sentences, and each translated chunk. The next run
resumes there and makes the same bytes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from nmt_core.config import PipelineConfig, SyntheticPart
from nmt_core.config.section import later
from nmt_core.corpus import mix
from nmt_core.corpus.joining import Joined, JoinedReport, MadeFiles, join, link_text
from nmt_core.errors import StageError
from nmt_core.jobs.chunk import unload
from nmt_core.stages.stage import Inputs, Job, require_sum
from nmt_core.store import storage
from nmt_core.store.artifacts import REPORT
from nmt_core.store.atomic import write_atomically
from nmt_core.synthesis.judge import Judged, MadeShard, judge_shard
from nmt_core.synthesis.teachers import Teacher, find_teachers
from nmt_core.synthesis.texts import write_texts
from nmt_core.synthesis.translations import MADE, Translations, keep, translated

WORK = ".work"
"""Folder of the sentences and of the translation jobs, in the unfinished artifact."""


_SAMPLES_OF_A_PART = 4


class PartReport(BaseModel):
    """Result of one synthetic corpus."""

    model_config = ConfigDict(frozen=True)
    part: str
    text: str
    teachers: list[str]
    translated: int
    """Number of sentences that the teachers translated."""
    dropped: int
    """Number of pairs that were dropped."""
    trained_on: int
    """Number of pairs in the training text, repetitions included."""
    times: float
    """Average number of times that each kept pair is trained on."""
    tag: str
    seconds: float
    """Seconds that the last attempt at the translations took, in whichever run made them."""
    pair: str = later("")
    """Pair of languages. Empty means the recipe's only pair."""


class TeacherReport(BaseModel):
    """Model that translated."""

    model_config = ConfigDict(frozen=True)
    part: str
    teacher: str
    """Short name of its artifact, or the folder of its bundle."""
    sha256: str
    """SHA-256 of the bundle's `config.json`, which holds the hashes of the other files."""
    sentences: int
    """Number of sentences that it translated."""
    tokens: int | None = None
    """Number of target tokens that it wrote, of the best translation of each sentence. None if they were not counted,
    as in an earlier version."""
    seconds: float
    """Seconds that the last attempt at the translations took, in whichever run made them."""
    translations: str = ""
    """Fingerprint of the translations, by which later artifacts reuse them. Empty in an earlier version."""
    reused_from: str = ""
    """Short name of the artifact that they were taken from. Empty means that they were made for this artifact."""


class Sample(BaseModel):
    """Pair of a synthetic corpus."""

    model_config = ConfigDict(frozen=True)
    part: str
    source: str
    target: str


class SynthesisReport(JoinedReport):
    """Sizes of the synthetic text, and of the training, dev and test text together with it."""

    tokens: int = 0
    """Number of target tokens that were translated for this artifact, without reused ones."""
    parallel: int
    """Number of pairs of parallel text in the training text, repetitions included."""
    parts: list[PartReport]
    teachers: list[TeacherReport]
    samples: list[Sample]


@dataclass
class _Made:
    """Progress of one part."""

    part: SyntheticPart
    teachers: list[TeacherReport] = field(default_factory=list)
    translations: list[Translations] = field(default_factory=list)
    shards: list[MadeShard] = field(default_factory=list)
    judged: Judged = field(default_factory=Judged)
    joined: Joined = field(default_factory=lambda: Joined(mix.Rate()))


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> SynthesisReport:
    """Translate the text of each part, and write a training text in the layout of `split`.

    The shards of the parallel text come first, unchanged. Synthetic pairs follow in further `train-NNNNN.parquet` with
    the same columns, and with their origin, teacher and score. `dropped-NNNNN.parquet` of the same number has the
    dropped pairs of a shard. `translations-NNNNN.parquet` has what the teachers wrote. Dev and test text is the
    same as in `split`.

    Raises:
        ConfigError: a teacher translates between other languages, or cannot run the search.
        ModelError: a teacher is not a bundle, or its files are damaged.
        StageError: a part has no sentence to translate, or none of its pairs is left.
    """
    if (out / REPORT).is_file():  # a run that was killed between the last shard and the publication
        storage.remove_folder(str(out / WORK))
        return SynthesisReport.model_validate_json((out / REPORT).read_bytes())
    split = inputs["split"]
    all_teachers = [
        find_teachers(part, f"synthesis.parts.{number}", config.languages.of(part.pair))
        for number, part in enumerate(config.synthesis.parts)
    ]
    shards = link_text(split.path, out, with_train=config.synthesis.train_on_parallel)
    made = []
    try:
        for part, teachers in zip(config.synthesis.parts, all_teachers, strict=True):
            made.append(_translated(part, teachers, config, split.path, out, job))
    finally:
        unload()  # later stages need its memory, and training needs the GPU
    _judge(made, job)
    _join(made, config, out, shards, job)
    keep([one for part in made for one in part.translations], out)
    before = split.report()
    report = _report(made, before, before["items_out"] if config.synthesis.train_on_parallel else 0)
    write_atomically(out / REPORT, report.model_dump_json(indent=1))
    storage.remove_folder(str(out / WORK))
    storage.sweep(str(out))
    return report


def _translated(
    part: SyntheticPart, teachers: Sequence[Teacher], config: PipelineConfig, split: Path, out: Path, job: Job
) -> _Made:
    """Translate the sentences of a part."""
    folder = out / WORK / part.name
    texts = write_texts(part, split, config.mix, folder)
    if not texts.sentences:
        raise StageError(
            f"synthesise: part {part.name} has no sentence to translate (text: {part.text}, corpora: "
            f"{', '.join(part.corpora) or 'all'}): `clean` or `split` dropped all of them, as their reports show; name "
            "more text, or remove the part"
        )
    made = _Made(part)
    for number, (teacher, files) in enumerate(zip(teachers, texts.files, strict=True)):
        if not files:
            continue
        own = translated(part, teacher, files, folder / str(number), out, job)
        made.translations.append(own)
        made.teachers.append(
            TeacherReport(
                part=part.name,
                teacher=teacher.name,
                sha256=teacher.sha256,
                sentences=own.sentences,
                tokens=own.tokens,
                seconds=own.seconds,
                translations=own.fingerprint,
                reused_from=own.reused_from,
            )
        )
        made.shards += _shards(part, teacher, files, config, split)
    return made


def _shards(
    part: SyntheticPart, teacher: Teacher, files: Sequence[Path], config: PipelineConfig, split: Path
) -> Iterator[MadeShard]:
    """Yield the translated shards of one teacher."""
    for file in files:
        own = file.parents[1]
        yield MadeShard(
            part=part,
            text=str(file),
            made=str(own / MADE / file.name),
            kept=str(own / "kept" / file.name),
            dropped=str(own / "dropped" / file.name),
            split=str(split),
            teacher=teacher.name,
            own=teacher.languages,
            rules=config.clean,
            languages=config.languages,
        )


def _judge(made: Sequence[_Made], job: Job) -> None:
    """Judge all translations."""
    tasks = [(one, shard) for one in made for shard in one.shards]
    found = job.workers.map(judge_shard, [shard for _, shard in tasks])
    for (one, _), judged in zip(tasks, found, strict=True):
        one.judged.add(judged)


def _join(made: Sequence[_Made], config: PipelineConfig, out: Path, first: int, job: Job) -> None:
    """Write the shards of synthetic training text, numbered from `first`."""
    for one in made:
        files = [MadeFiles(shard.kept, shard.dropped) for shard in one.shards]
        joined = join(one.part.name, files, config.mix, out, first, job.workers)
        if not joined:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(one.judged.dropped.items()))
            raise StageError(
                f"synthesise: none of the {one.judged.translated:,} pairs of part {one.part.name} is left ({reasons}): "
                "look at the teacher, or shorten the list synthesis.parts.drop of the part"
            )
        first += len(files)
        one.joined = joined
        one.judged.dropped.update({mix.NOT_DRAWN: joined.not_drawn} if joined.not_drawn else {})


def _report(made: Sequence[_Made], split: Mapping[str, Any], parallel: int) -> SynthesisReport:
    """Return the report, in which every translated sentence is accounted for."""
    dropped: Counter[str] = Counter()
    leaked: Counter[str] = Counter()
    by_part: dict[str, int] = {}
    for one in made:
        name, reasons = one.part.name, one.judged.dropped
        require_sum(
            f"synthesise, {name}", one.judged.translated, {"trained on": one.joined.drawn, "dropped": reasons.total()}
        )
        dropped.update(reasons)
        leaked.update(one.judged.leaked)
        by_part |= {f"{name}: {reason}": count for reason, count in sorted(reasons.items())}
    return SynthesisReport(
        items_in=parallel + sum(one.judged.translated for one in made),
        items_out=parallel + sum(one.joined.trained_on for one in made),
        unit="pairs",
        tokens=sum(one.tokens or 0 for part in made for one in part.translations if not one.reused_from),
        parallel=parallel,
        parts=[_part_report(one) for one in made],
        teachers=[teacher for one in made for teacher in one.teachers],
        dropped=dict(sorted(dropped.items())),
        dropped_by_part=by_part,
        held_out=dict(sorted(leaked.items())),
        dev=split["dev"],
        tests=split["tests"],
        samples=[Sample.model_validate(sample) for one in made for sample in one.judged.samples[:_SAMPLES_OF_A_PART]],
    )


def _part_report(one: _Made) -> PartReport:
    return PartReport(
        part=one.part.name,
        text=one.part.text,
        teachers=[teacher.teacher for teacher in one.teachers],
        translated=one.judged.translated,
        dropped=one.judged.dropped.total(),
        trained_on=one.joined.trained_on,
        times=one.joined.rate.times,
        tag=one.joined.rate.tag,
        seconds=round(sum(teacher.seconds for teacher in one.teachers), 2),
        pair=one.part.pair,
    )
