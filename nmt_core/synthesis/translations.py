"""Translate the sentences of a part by one teacher, or reuse the translations of an earlier artifact.

What a teacher writes depends on the model, the search and the sentences, and on nothing else of a recipe. So
translations have a fingerprint of their own. An artifact keeps them as the teachers wrote them, before anything is
chosen or dropped, and a later one with another tag, weight or filter takes them from there.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nmt_core.config import SearchConfig, SyntheticPart
from nmt_core.errors import ArtifactError, counted
from nmt_core.execution.pool import InProcess, LocalWorkers
from nmt_core.jobs.folder import JobFolder
from nmt_core.jobs.inputs import identity as file_identity
from nmt_core.jobs.order import JobRequest, Order
from nmt_core.jobs.run import Means, Outcome, run_job
from nmt_core.stages.stage import Job
from nmt_core.store import storage
from nmt_core.store.artifacts import Artifact, Store, fingerprint_of
from nmt_core.store.atomic import write_atomically
from nmt_core.store.digests import sha256_of
from nmt_core.synthesis.teachers import Teacher

INDEX = "translations.json"
"""File of an artifact that names the files of its translations, by fingerprint."""
MADE = "made"
"""Folder of the translations of a teacher, within its unfinished work."""

_SECONDS = "seconds.txt"
_VERSION = 1
"""Version of translations. It must be raised by any change of the search that writes other translations."""


@dataclass(frozen=True)
class Translations:
    """Translations of a teacher's share of a part, one file for each file of sentences."""

    fingerprint: str
    files: tuple[Path, ...]
    sentences: int
    tokens: int | None
    """Number of target tokens. None if an earlier version, which did not count them, translated a part."""
    seconds: float
    """Seconds that the last attempt at the translations took, in whichever run made them."""
    reused_from: str = ""
    """Short name of the artifact that they were taken from. Empty means that they were made now."""


def translated(
    part: SyntheticPart, teacher: Teacher, files: Sequence[Path], folder: Path, out: Path, job: Job
) -> Translations:
    """Return the translations of a teacher's sentences.

    Args:
        part: synthetic corpus.
        teacher: model that translates.
        files: files of the sentences.
        folder: folder of the teacher's unfinished work, in which the translations are written.
        out: folder of the unfinished artifact. Earlier artifacts are beside it.
        job: reporter, resources and workers.
    """
    sentences = [_Sentences.of(file) for file in files]
    fingerprint = _fingerprint(teacher, part.search, sentences)
    own = [folder / MADE / file.name for file in files]
    if not job.anew:
        for artifact in _earlier(out):
            if taken := _taken(artifact, fingerprint, own):
                job.reporter.log(f"{part.name}: the translations by {teacher.name} are reused from {artifact.short}")
                return taken
    job.reporter.log(
        f"{part.name}: {teacher.name} translates {counted(sum(one.lines for one in sentences), 'sentence')}"
    )
    order = Order(
        model=teacher.version,
        search=part.search,
        inputs=tuple(found for file in files if (found := file_identity(str(file), file.name))),
        target=str(folder / MADE),
        into_folder=True,
        column="text",
        to=teacher.to,
    )
    means = Means(
        bundle=str(teacher.folder),
        threads=job.resources.threads,
        workers=InProcess() if isinstance(job.workers, LocalWorkers) else job.workers,  # threads share one model
        progress=lambda done, total, note: job.reporter.progress(done, total, f"{part.name}: {note}"),
        say=job.reporter.log,
    )
    # Another order, such as after the home was moved in between, has a folder of its own.
    job_folder = folder / f"job-{order.fingerprint}"
    outcome = run_job(JobRequest(teacher.name), order, JobFolder(str(job_folder)), means)
    done = outcome.done
    return Translations(fingerprint, tuple(own), done.lines, done.tokens, _seconds(outcome, job_folder))


def keep(translations: Sequence[Translations], out: Path) -> None:
    """Put translations into the artifact, for later ones.

    Args:
        translations: translations of all parts and teachers.
        out: folder of the artifact.
    """
    index: dict[str, list[str]] = {}
    number = 0
    for one in translations:
        names = index.setdefault(one.fingerprint, [])
        if names:  # two parts may differ in their filters alone
            continue
        for file in one.files:
            names.append(f"translations-{number:05d}.parquet")
            storage.link(file, out / names[-1])
            number += 1
    write_atomically(out / INDEX, json.dumps(index, indent=1))


def _seconds(outcome: Outcome, job_folder: Path) -> float:
    """Return the seconds of the attempt that finished the job, which may have been an earlier one."""
    file = job_folder / _SECONDS
    if not outcome.reused:
        write_atomically(file, f"{outcome.seconds:.2f}")
    return float(file.read_text(encoding="utf-8")) if file.is_file() else 0.0


class _Sentences(NamedTuple):
    """Sentences of one file."""

    sha256: str
    """Hash of the sentences alone, whatever corpora and lines they come from."""
    lines: int

    @classmethod
    def of(cls, file: Path) -> "_Sentences":
        sentences = storage.read(str(file), ["text"])["text"].to_list()
        text = json.dumps(sentences, ensure_ascii=False)
        return cls(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), len(sentences))


def _fingerprint(teacher: Teacher, search: SearchConfig, sentences: Sequence[_Sentences]) -> str:
    """Return the fingerprint of everything that decides the translations."""
    return fingerprint_of(
        {
            "version": _VERSION,
            "model": teacher.sha256,
            "search": search.model_dump(mode="json"),
            "sentences": [one.sha256 for one in sentences],
        }
        | ({"to": teacher.to} if teacher.to else {})
    )


def _earlier(out: Path) -> Iterator[Artifact]:
    """Yield the artifacts of the same stage and store that have translations."""
    return (one for one in Store(out.parents[1]).published(out.parent.name) if (one.path / INDEX).is_file())


def _taken(artifact: Artifact, fingerprint: str, own: Sequence[Path]) -> Translations | None:
    """Link the translations of an artifact to these paths. Return None if it lacks them, or if they are damaged."""
    with suppress(ArtifactError, KeyError, OSError, ValueError):
        names = json.loads((artifact.path / INDEX).read_text(encoding="utf-8")).get(fingerprint, [])
        if len(names) != len(own):
            return None
        outputs = artifact.manifest().outputs
        if any(name not in outputs or sha256_of(artifact.path / name) != outputs[name].sha256 for name in names):
            return None
        for name, file in zip(names, own, strict=True):
            file.parent.mkdir(parents=True, exist_ok=True)
            storage.link(artifact.path / name, file)
        (about,) = [one for one in artifact.report()["teachers"] if one["translations"] == fingerprint][:1]
        return Translations(
            fingerprint, tuple(own), about["sentences"], about["tokens"], about["seconds"], artifact.short
        )
    return None
