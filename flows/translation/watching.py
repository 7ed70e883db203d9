"""Watch what a model translates: compare each job with the training text and with the model's earlier jobs."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from flows.settings import Settings
from nmt_core.drift.comparison import Drift, compare
from nmt_core.drift.page import Compared, page
from nmt_core.drift.profile import Profile, merged
from nmt_core.drift.training import read_training_profile
from nmt_core.errors import ModelError, words_of
from nmt_core.jobs.folder import Done, JobFolder
from nmt_core.store import storage
from nmt_core.store.atomic import write_atomically

DRIFTED = "nmt.translation.drift"
"""Prefect event of a job whose text differs from the training text or from earlier jobs."""
PAGE_FILE = "drift.html"
"""File of a job's folder with the histograms."""

_EARLIER_JOBS = 20
"""Jobs that are kept, and with which a job is compared."""
_OF_ONE_VERSION = ("score", "translation_tokens", "status")
"""Measures of translations, which depend on the version of the model."""


def model_resource(model: str) -> str:
    """Return the name of a registered model in Prefect's events."""
    return f"nmt.model.{model}"


class Watched(BaseModel):
    """Profile of an earlier job, in a file of its own."""

    model_config = ConfigDict(frozen=True)
    model: str
    version: str
    profile: Profile


@dataclass(frozen=True)
class Watch:
    """Result for one job."""

    profile: Profile
    drifts: tuple[Drift, ...]
    notes: tuple[str, ...]
    """Reasons why the job was not compared with something."""
    page: str
    """HTML page with the histograms."""

    def report(self) -> dict[str, Any]:
        """Return the part of the job's report: a line in words, the drift as a table, and the unknown share."""
        rows = [
            {"against": drift.against, **difference.model_dump()}
            for drift in self.drifts
            for difference in drift.differences
        ]
        return {
            "watched": "; ".join([*(drift.in_words() for drift in self.drifts), *self.notes]),
            "drifts": any(drift.drifting for drift in self.drifts),
            "unknown_token_share": round(self.profile.unknown_token_share, 6),
            "drift": rows,
        }


def watch_job(
    folder: JobFolder, done: Done, bundle: Path, settings: Settings, title: str, warn: Callable[[str], None]
) -> Watch | None:
    """Compare a finished job, write its page, and keep its profile for the jobs after it.

    The job is finished whatever happens here: what cannot be read or written is a warning.

    Args:
        folder: Folder of the job.
        done: Result of the job.
        bundle: Folder of the model.
        settings: Settings of this machine, whose home keeps the profiles.
        title: Title of the page.
        warn: Callback that shows a warning to the user.

    Returns:
        The result, or None if the job has no profile because an earlier version translated a part of it, or because it
        holds no text.
    """
    profile = folder.profile()
    if not profile:
        return None
    compared, notes = [], []
    plan = folder.plan()
    pair = plan.order.to if plan else ""
    try:
        training = read_training_profile(bundle, pair)
    except ModelError as error:
        training = None
        warn(f"not compared with the training text: {error}")
    if training:
        compared.append(Compared(compare(profile, training, "training text"), training))
    else:
        notes.append("not compared with the training text, because the model has no profile of it: export it again")
    kept = _folder_of(settings, done.model, pair)
    name = f"{done.fingerprint[:16]}-{done.number}.json"
    earlier = earlier_jobs(kept, done.model_version, name)
    if earlier.lines:
        compared.append(Compared(compare(profile, earlier, "earlier jobs"), earlier))
    html = page(title, profile, compared)
    try:
        _keep(kept, name, Watched(model=done.model, version=done.model_version, profile=profile))
        storage.write_bytes([html.encode()], f"{folder.url}/{PAGE_FILE}")
    except Exception as error:  # a full disk, or a store that fails in its own way
        warn(f"the translation is complete, but the page or the profile of the job is not stored: {words_of(error)}")
    return Watch(profile, tuple(one.drift for one in compared), tuple(notes), html)


def earlier_jobs(kept: Path, version: str, but: str) -> Profile:
    """Return the profile of the earlier jobs of a model together.

    Translations of other versions do not count, and neither does an earlier attempt at the same job.

    Args:
        kept: Folder of the profiles.
        version: Version of the model.
        but: Name of the job that is left out, without its time.
    """
    profiles = []
    for file in _files(kept):
        if file.name.partition("-")[2] == but:
            continue
        try:
            job = Watched.model_validate_json(file.read_bytes())
        except (OSError, ValidationError):  # removed meanwhile, or of another version
            continue
        profiles.append(job.profile if job.version == version else _text_alone(job.profile))
    return merged(profiles)


def _text_alone(profile: Profile) -> Profile:
    return profile.model_copy(
        update={
            "histograms": {name: own for name, own in profile.histograms.items() if name not in _OF_ONE_VERSION},
            "categories": {name: own for name, own in profile.categories.items() if name not in _OF_ONE_VERSION},
        }
    )


def _folder_of(settings: Settings, model: str, pair: str) -> Path:
    """Return the folder of a model's earlier jobs with a pair of languages. A model may be named by any path."""
    name = f"{model} {pair}" if pair else model
    return settings.home / "translated" / hashlib.sha256(name.encode()).hexdigest()[:16]


def _files(folder: Path) -> Sequence[Path]:
    """Return the profiles of earlier jobs, the oldest first. Their names begin with the time."""
    return sorted(folder.glob("*.json"))


def _keep(folder: Path, name: str, job: Watched) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob(f"*-{name}"):
        file.unlink(missing_ok=True)
    write_atomically(folder / f"{time.time_ns():020d}-{name}", job.model_dump_json())
    for file in _files(folder)[:-_EARLIER_JOBS]:
        file.unlink(missing_ok=True)
