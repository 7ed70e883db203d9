"""One chunk of a job: the task of a worker, wherever it runs."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from nmt_core.bundle import BUNDLE_FILE, sha256_of
from nmt_core.config import SearchConfig
from nmt_core.corpus import storage
from nmt_core.errors import DataError, ModelError
from nmt_core.jobs.claims import Claims
from nmt_core.jobs.folder import Parts, exists
from nmt_core.search.translation import Translation
from nmt_core.translator import Translator

SCHEMA = {"translation": pl.String, "score": pl.Float64, "status": pl.String}
"""What is known of each row of a chunk when it is done. Scores have four decimals."""
ALTERNATIVES = pl.List(pl.Struct({"translation": pl.String, "score": pl.Float64}))
"""Of the column `alternatives`, which is there if several translations of a line are wanted."""


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
        try:
            rows = storage.read(task.parts.input(task.number))
        except DataError:
            if exists(task.parts.input(task.number)):  # it is damaged
                raise
            return ChunkResult(task.number, "gone")
        translated = translate_rows(rows, _translator(task.bundle))
        with storage.published(output) as file:
            translated.write_parquet(file, compression="zstd", compression_level=3)
    return ChunkResult(task.number, "done")


def translate_rows(rows: pl.DataFrame, translator: Translator) -> pl.DataFrame:
    """A row for each row; one with a fault is not translated, and the fault is its status."""
    faults = rows["fault"].to_list()
    lines = ["" if fault else text for text, fault in zip(rows["text"].to_list(), faults, strict=True)]
    translations = translator.translate(lines, rows["prefix"].to_list())
    found = [_row(one, fault) for one, fault in zip(translations, faults, strict=True)]
    table = pl.DataFrame(found, schema=SCHEMA, orient="row")
    if translator.search.n_best == 1:
        return table
    alternatives = [
        [{"translation": other.text, "score": round(other.score, 4)} for other in one.alternatives]
        for one in translations
    ]
    return table.with_columns(alternatives=pl.Series(alternatives, dtype=ALTERNATIVES))


def columns_of(search: SearchConfig) -> list[str]:
    """Columns of a chunk that is done."""
    return [*SCHEMA, "alternatives"] if search.n_best > 1 else [*SCHEMA]


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
