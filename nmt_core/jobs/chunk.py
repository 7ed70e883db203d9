"""One chunk of a job: the task of a worker, wherever it runs."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from nmt_core.config import SearchConfig
from nmt_core.corpus import storage
from nmt_core.errors import ModelError
from nmt_core.jobs.claims import Claims
from nmt_core.jobs.folder import Parts, exists
from nmt_core.translator import BUNDLE_FILE, Translation, Translator, sha256_of

SCHEMA = {"translation": pl.String, "score": pl.Float64, "status": pl.String}
"""What is known of each row of a chunk when it is done. Scores have four decimals."""


@dataclass(frozen=True)
class Bundle:
    """The model, as a worker loads it."""

    folder: str
    sha256: str
    """Of its `config.json`."""
    search: SearchConfig
    threads: int


@dataclass(frozen=True)
class ChunkTask:
    """A chunk that has to be done."""

    number: int
    parts: Parts
    bundle: Bundle
    claims: Claims


class ChunkResult(NamedTuple):
    """What became of a task."""

    number: int
    state: Literal["done", "there", "taken", "gone"]
    """done: by us; there: by somebody, before; taken: somebody is at it; gone: its rows are not there any more."""


def translate_chunk(task: ChunkTask) -> ChunkResult:
    """Translate a chunk, unless that is done or being done, and publish the result.

    Raises:
        ModelError: the bundle is damaged, or not the one with which the job began.
    """
    output = task.parts.output(task.number)
    if exists(output):
        return ChunkResult(task.number, "there")
    with task.claims.held(f"{task.number:07d}") as is_ours:
        if not is_ours:
            return ChunkResult(task.number, "taken")
        if exists(output):  # by now
            return ChunkResult(task.number, "there")
        if not exists(task.parts.input(task.number)):
            return ChunkResult(task.number, "gone")
        rows = storage.read(task.parts.input(task.number))
        translated = translate_rows(rows, _translator(task.bundle))
        with storage.published(output) as file:
            translated.write_parquet(file, compression="zstd", compression_level=3)
    return ChunkResult(task.number, "done")


def translate_rows(rows: pl.DataFrame, translator: Translator) -> pl.DataFrame:
    """A row for each row; one with a fault is not translated, and the fault is its status."""
    faults = rows["fault"].to_list()
    lines = ["" if fault else text for text, fault in zip(rows["text"].to_list(), faults, strict=True)]
    found = [_row(one, fault) for one, fault in zip(translator.translate(lines), faults, strict=True)]
    return pl.DataFrame(found, schema=SCHEMA, orient="row")


def _row(translation: Translation, fault: str | None) -> tuple[str, float, str]:
    return translation.text, round(translation.score, 4), fault or translation.status


@lru_cache(maxsize=1)
def _translator(bundle: Bundle) -> Translator:
    """Loaded once in each process."""
    found = sha256_of(Path(bundle.folder, BUNDLE_FILE))
    if found != bundle.sha256:
        raise ModelError(
            f"{bundle.folder}: is not the model with which the job began (sha256 of {BUNDLE_FILE} {found[:12]}, not "
            f"{bundle.sha256[:12]}): put that back, or begin anew in another folder for the job"
        )
    return Translator.load(Path(bundle.folder), bundle.search, bundle.threads)
