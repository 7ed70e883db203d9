"""Translate one chunk of a job. This is the task of a worker, on any machine."""

from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from nmt_core.bundle.folder import BUNDLE_FILE, sha256_of
from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError, DataError, ModelError
from nmt_core.jobs.checks import checked
from nmt_core.jobs.claims import Claims
from nmt_core.jobs.folder import Parts, exists
from nmt_core.jobs.makers import MADE_BY, this_maker
from nmt_core.jobs.profiles import PROFILE, profile_chunk
from nmt_core.search.alignment import Alignment
from nmt_core.search.translation import Alternative, Translation
from nmt_core.store import storage
from nmt_core.terms.glossary import Term
from nmt_core.translator import Translator

SCHEMA = {"translation": pl.String, "score": pl.Float64, "status": pl.String}
"""Columns of every translated chunk. Scores are rounded to four decimals. They are null if the output has no column
for them and the search can do without."""
TERMS = {"terms": pl.Int64, "terms_kept": pl.Int64}
"""Further columns if there is a glossary: the number of terms of a line, and of those that are in its translation. They
are counted, and are not part of the output."""
TO = "to"
"""Column of the rows with the target language of each, see `formats.single.Cell`."""
UNKNOWN_TARGET = "unknown_target"
"""Status of a row whose target language the model does not know. Such a row is not translated."""
TOKENS = "tokens"
"""Further column: number of target tokens of a translation, without the end mark. They are counted, and are not part of
the output."""
JUDGE_PROBLEM = "judge_problem"
"""Further column if a judge chooses among candidates: the reason why it did not choose for a line, or null. The lines
are counted, and the column is not part of the output."""
ALIGNMENTS = {
    "none": (),
    "words": ("alignment",),
    "pieces": ("alignment", "source_pieces", "translation_pieces"),
}
"""Columns for each value of `search.alignments`. They hold links or pieces as text, separated by spaces."""


@dataclass(frozen=True)
class Bundle:
    """Model that a worker loads, and how it searches."""

    folder: str
    sha256: str
    """SHA-256 of the bundle's `config.json`."""
    search: SearchConfig
    threads: int
    scores: bool = True
    """True if the output holds scores. If False, the search need not compute them."""
    terms: tuple[Term, ...] = ()
    """Terms of the glossary."""
    to: str = ""
    """Target language, or pair of languages, of rows that name none. Empty means the model's only one."""


@dataclass(frozen=True)
class ChunkTask:
    """Chunk to translate."""

    number: int
    parts: Parts
    bundle: Bundle
    claims: Claims
    all_lines: int
    """Number of lines of the whole job."""


class ChunkResult(NamedTuple):
    """Result of a task."""

    number: int
    state: Literal["done", "there", "taken", "gone"]
    """State of the chunk: `done` (translated by this task), `there` (translated before), `taken` (another worker is
    translating it) or `gone` (its rows have been removed)."""


def translate_chunk(task: ChunkTask) -> ChunkResult:
    """Translate a chunk and publish the result, unless another worker has done so or is doing so.

    Raises:
        ModelError: the bundle is damaged, or is not the one with which the job began.
    """
    output = task.parts.output(task.number)
    if exists(output):
        return ChunkResult(task.number, "there")
    with task.claims.held(f"{task.number:07d}") as is_ours:
        if not is_ours:
            return ChunkResult(task.number, "taken")
        if exists(output):  # another worker has published it since
            return ChunkResult(task.number, "there")
        try:
            rows = storage.read(task.parts.input(task.number))
        except DataError:
            if exists(task.parts.input(task.number)):  # the file is damaged
                raise
            return ChunkResult(task.number, "gone")
        translator = _translator(task.bundle)
        translated = translate_rows(rows, translator)
        profile = profile_chunk(rows, translated, translator, task.number, task.all_lines)
        metadata = {MADE_BY: this_maker(), PROFILE: profile.model_dump_json()}
        with storage.published(output) as file:
            translated.write_parquet(file, compression="zstd", compression_level=3, metadata=metadata)
    return ChunkResult(task.number, "done")


def load(bundle: Bundle) -> None:
    """Load the model and keep it in this process.

    Raises:
        ConfigError: the model does not support the search; see `Translator.load`.
        ModelError: the bundle is damaged, or is not the one with which the job began.
    """
    _translator(bundle)


def unload() -> None:
    """Release the model that this process keeps, and its memory."""
    _translator.cache_clear()


def translate_rows(rows: pl.DataFrame, translator: Translator) -> pl.DataFrame:
    """Return one translated row for each row. A row with a fault is not translated, and its status is the fault.

    A translation with a fault has it as its status, see `checks`. `search.retry` looks for another one. The rows
    have the column `TOKENS` too, the columns `TERMS` if the translator has a glossary, and the column `JUDGE_PROBLEM`
    if a judge chooses.

    A row that names a target language is translated into it. If the model does not know it, or knows several and the
    row names none, the row has the fault `UNKNOWN_TARGET`.
    """
    languages = rows[TO].fill_null("").str.strip_chars() if TO in rows.columns else pl.Series([""])
    if languages.unique().to_list() == [""] and not translator.needs_language:
        return _translate_rows(rows, translator)
    placed = rows.with_columns(languages).with_row_index("place")
    parts = []
    for (language,), own in placed.group_by(TO, maintain_order=True):
        directed = _into(translator, str(language))
        if directed is None:
            own = own.with_columns(fault=pl.coalesce("fault", pl.lit(UNKNOWN_TARGET)))
            directed = translator.into(translator.all_languages.pair if translator.all_languages else "")
        parts.append(_translate_rows(own, directed).with_columns(own["place"]))
    return pl.concat(parts).sort("place").drop("place")


def _into(translator: Translator, language: str) -> Translator | None:
    """Return the translator for the target language that a row names, or None if the model does not know it."""
    if not language and not translator.needs_language:
        return translator
    try:
        return translator.into(language)
    except ConfigError:
        return None


def _translate_rows(rows: pl.DataFrame, translator: Translator) -> pl.DataFrame:
    """Return one translated row for each row, all in the language of the translator."""
    faults = rows["fault"].to_list()
    lines = ["" if fault else text for text, fault in zip(rows["text"].to_list(), faults, strict=True)]
    search, prefixes = translator.search, rows["prefix"].to_list()
    translations, statuses = checked(lines, translator.translate(lines, prefixes), prefixes, translator)
    records = [
        _row(one, search) | {"status": fault or status}
        for one, fault, status in zip(translations, faults, statuses, strict=True)
    ]
    if search.n_best > 1:
        for row, one in zip(records, translations, strict=True):
            row["alternatives"] = [_row(other, search) for other in one.alternatives]
    tokens = pl.Series(TOKENS, [one.tokens for one in translations], dtype=pl.Int64)
    rows = pl.DataFrame(records, schema=schema_of(search)).with_columns(tokens)
    if search.judge:
        problems = [one.judge_problem or None for one in translations]
        rows = rows.with_columns(pl.Series(JUDGE_PROBLEM, problems, dtype=pl.String))
    if not translator.has_terms:
        return rows
    counts = {"terms": [one.terms for one in translations], "terms_kept": [one.terms_kept for one in translations]}
    return rows.with_columns(**{name: pl.Series(values, dtype=TERMS[name]) for name, values in counts.items()})


def schema_of(search: SearchConfig) -> dict[str, Any]:
    """Return the columns of a translated chunk, with their types."""
    alignments = dict.fromkeys(ALIGNMENTS[search.alignments], pl.String)
    alternative = {"translation": pl.String, "score": pl.Float64} | alignments
    alternatives = {"alternatives": pl.List(pl.Struct(alternative))} if search.n_best > 1 else {}
    return SCHEMA | alignments | alternatives


def _row(translation: Translation | Alternative, search: SearchConfig) -> dict[str, Any]:
    alignment = translation.alignment or Alignment()
    values = (alignment.pharaoh, " ".join(alignment.source), " ".join(alignment.target))
    columns = ALIGNMENTS[search.alignments]
    return {
        "translation": translation.text,
        "score": None if isnan(translation.score) else round(translation.score, 4),
    } | dict(zip(columns, values, strict=False))


@lru_cache(maxsize=1)
def _translator(bundle: Bundle) -> Translator:
    """Return the translator, loaded once in each process."""
    return load_bundle(bundle)


def load_bundle(bundle: Bundle) -> Translator:
    """Load the translator of a bundle.

    Raises:
        ConfigError: the model does not support the search; see `Translator.load`.
        ModelError: the bundle is damaged, or is not the one with which the job began.
    """
    digest = sha256_of(Path(bundle.folder, BUNDLE_FILE))
    if digest != bundle.sha256:
        raise ModelError(
            f"{bundle.folder}: is not the model with which the job began (sha256 of {BUNDLE_FILE} is {digest[:12]}, "
            f"not {bundle.sha256[:12]}): restore that model, or name another folder for the job"
        )
    translator = Translator.load(Path(bundle.folder), bundle.search, bundle.threads, scores=bundle.scores)
    translator = translator.with_glossary(bundle.terms)
    if bundle.search.judge:
        from nmt_core.judges.reranking import with_its_judge  # loads metrics, which other jobs do not need

        translator = with_its_judge(translator)
    return translator.into(bundle.to) if bundle.to else translator
