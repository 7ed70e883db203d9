"""Translate a share of a finished job by a challenger too, and compare it with the champion.

The output of the job is published before. The challenger runs in a process of its own, so that whatever happens to it,
it costs nothing else. The lines that it translates depend on the order alone.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import polars as pl

from nmt_core.errors import words_of
from nmt_core.execution.pool import LocalWorkers
from nmt_core.jobs.chunk import SCHEMA, TOKENS, Bundle, load_bundle, translate_rows
from nmt_core.jobs.folder import Parts, exists
from nmt_core.jobs.order import Shadow
from nmt_core.jobs.shadow_result import GOOD, ShadowResult, sign_test
from nmt_core.store import storage
from nmt_core.text.chrf import f_score, sentence_counts
from nmt_core.translator import Translator

_TIMED_LINES = 64
"""Lines on which the speeds of both models are compared."""


@dataclass(frozen=True)
class ShadowTask:
    """Chunk of which the challenger translates a share."""

    number: int
    parts: Parts
    challenger: Bundle
    share: float
    champion: Bundle | None = None
    """Champion whose speed is compared on this chunk, or None."""


def drawn(rows: pl.DataFrame, number: int, share: float) -> list[int]:
    """Return the places of the rows of a chunk that the challenger translates, in order.

    Args:
        rows: rows of the chunk (`staging.SCHEMA`). Rows with a fault and rows without text are not drawn.
        number: number of the chunk, which determines the draw.
        share: share of the rows.
    """
    has_text = pl.col("fault").is_null() & (pl.col("text").str.strip_chars() != "")
    places = rows.select(has_text).to_series().arg_true().to_list()
    draw = random.Random(f"shadow {number}")
    return [place for place in places if draw.random() < share]


def shadow_chunk(task: ShadowTask) -> float | None:
    """Translate a share of a chunk by the challenger, unless that is done.

    Returns:
        Speed of the challenger over the champion's, or None if it was not measured.

    Raises:
        ModelError: the bundle is damaged, or is not the one with which the job began.
    """
    if exists(task.parts.shadow(task.number)):
        return None
    rows = storage.read(task.parts.input(task.number))
    places = drawn(rows, task.number, task.share)
    sample, translator = rows[places], _challenger(task.challenger)
    translated = translate_rows(sample, translator).select(*SCHEMA, TOKENS)
    champion = storage.read(task.parts.output(task.number), ["translation"])["translation"].gather(places)
    pairs = zip(translated["translation"].to_list(), champion.to_list(), strict=True)
    agreement = [100.0 if own == other else f_score(sentence_counts(own, other)) for own, other in pairs]
    result = translated.with_columns(
        place=pl.Series(places, dtype=pl.Int64), agreement=pl.Series(agreement, dtype=pl.Float64).round(2)
    )
    with storage.published(task.parts.shadow(task.number)) as file:
        result.write_parquet(file, compression="zstd", compression_level=3)
    if not task.champion or not places:
        return None
    lines = sample["text"].to_list()[:_TIMED_LINES]
    alone = replace(task.champion, search=task.champion.search.without_judge)
    challenger_speed, champion_speed = _speed(translator, lines), _speed(load_bundle(alone), lines)
    return challenger_speed / champion_speed


@lru_cache(maxsize=1)
def _challenger(bundle: Bundle) -> Translator:
    return load_bundle(bundle)


def _speed(translator: Translator, lines: Sequence[str]) -> float:
    """Return the target tokens per second. The first line is translated before, which sets up the model."""
    translator.translate(lines[:1])
    started = time.monotonic()
    tokens = sum(one.tokens + 1 for one in translator.translate(lines))
    return tokens / max(time.monotonic() - started, 1e-9)


def run_shadow(shadow: Shadow, parts: Parts, chunks: int, champion: Bundle, folder: str) -> ShadowResult:
    """Translate the share of all chunks in a process of its own, and compare it with the champion.

    Args:
        shadow: challenger and share.
        parts: paths of the chunks.
        chunks: number of chunks.
        champion: bundle that translated the job.
        folder: folder of the challenger's bundle.
    """
    version = shadow.model
    challenger = Bundle(
        folder, version.sha256, shadow.search, champion.threads, champion.scores, champion.terms, shadow.to
    )
    named = ShadowResult(model=version.name, version=version.version, sha256=version.sha256, share=shadow.share)
    tasks = [
        ShadowTask(number, parts, challenger, shadow.share, None if number else champion) for number in range(chunks)
    ]
    try:
        with LocalWorkers(1, isolated=True) as workers:
            speeds = list(workers.map(shadow_chunk, tasks))
        return named.model_copy(update=_compared(parts, chunks) | {"speed": next(filter(None, speeds), None)})
    except Exception as error:  # whatever a challenger does, the job is done
        return named.model_copy(update={"problem": words_of(error)})


def shadowed(parts: Parts, number: int) -> pl.DataFrame:
    """Return the challenger's rows of a chunk, with the champion's translation, score and status beside them."""
    rows = storage.read(parts.shadow(number))
    champion = storage.read(parts.output(number), list(SCHEMA))[rows["place"].to_list()]
    return rows.with_columns(champion.rename({name: f"champion_{name}" for name in SCHEMA}))


def _compared(parts: Parts, chunks: int) -> dict[str, object]:
    statuses: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    alone, lines, identical, agreement = [0, 0], 0, 0, 0.0
    scores: list[list[float]] = [[], []]
    for rows in _each(parts, chunks):
        both = rows["champion_status"].to_list(), rows["status"].to_list()
        for counter, own in zip(statuses, both, strict=True):
            counter.update(own)
        bad = [[status not in GOOD for status in own] for own in both]
        alone[0] += sum(old and not new for old, new in zip(*bad, strict=True))
        alone[1] += sum(new and not old for old, new in zip(*bad, strict=True))
        lines += rows.height
        identical += int((rows["champion_translation"] == rows["translation"]).sum())
        agreement += float(rows["agreement"].sum())
        for total, name in zip(scores, ("champion_score", "score"), strict=True):
            total += rows[name].drop_nulls().to_list()
    means = [round(sum(own) / len(own), 4) if own else None for own in scores]
    return {
        "lines": lines,
        "champion_statuses": dict(sorted(statuses[0].items())),
        "challenger_statuses": dict(sorted(statuses[1].items())),
        "champion_bad_alone": alone[0],
        "challenger_bad_alone": alone[1],
        "p_value": sign_test(*alone),
        "agreement": round(agreement / max(lines, 1), 2),
        "identical": identical,
        "champion_score": means[0],
        "challenger_score": means[1],
    }


def _each(parts: Parts, chunks: int) -> Iterator[pl.DataFrame]:
    for number in range(chunks):
        yield shadowed(parts, number)
