"""Batch translation as a Prefect flow, which runs the same job as `nmt translate`."""

import time
from collections.abc import Callable
from typing import Any, Literal

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.events import Event, Resource

from flows.display import reports
from flows.display.progress import Display, current_display
from flows.runs.endings import completed, ends_in_words
from flows.runs.run_names import Deployed, Parameters, unless_typed
from flows.servers.heartbeats import says_its_end
from flows.settings import Settings
from flows.translation.job import Report, translate_job
from flows.translation.request import TranslationRequest
from flows.translation.watching import DRIFTED, model_resource
from flows.watch import EventError, tell
from nmt_core.documents.document import Redo
from nmt_core.errors import ConfigError, counted, without_password
from nmt_core.jobs.pace import Progress

_SECONDS_BETWEEN_LINES = 30.0
_STEP = "translate"


def _name(parameters: Parameters, deployed: Deployed) -> str:
    return f"translate {without_password(str(parameters['source']))}"


@says_its_end
@flow(name="translate", flow_run_name=unless_typed(_name), persist_result=False)
@ends_in_words
def translate(
    model: str,
    source: str,
    target: str,
    column: str = "",
    job: str = "",
    beam_size: int = 0,
    long_lines: Literal["", "split", "cut"] = "",
    prefix_column: str = "",
    to: str = "",
    to_column: str = "",
    overrides: tuple[str, ...] = (),
    alignments: Literal["", "none", "words", "pieces"] = "",
    keep: tuple[str, ...] = (),
    glossary: str = "",
    keep_terms: str = "",
    inflected_terms: bool = False,
    redo: Redo = "none",
    for_review: bool = False,
    shadow: str = "",
    share: float = 0.05,
    review: int = 0,
) -> dict[str, Any]:
    """Translate files line by line. A run that was stopped resumes when it is started again.

    Args:
        model: Model, as models:/NAME@champion or as the folder of an exported model.
        source: File, folder, pattern or address to read: text, TSV, CSV, JSONL or Parquet, compressed or
            not, or documents (PO, XLIFF, TMX, HTML, Markdown, SRT, VTT, docx).
        target: File to write, in the format of its suffix. For a folder or pattern, a folder.
        column: Column of a table to translate. Give its name, or its number if the first row is not a header.
        job: Folder or address that all workers of the same job share. Leave empty for a folder beside the target.
        beam_size: Beam size. 0 means the model's own.
        long_lines: Treatment of lines that are too long for the model. Leave empty for the model's own setting.
        prefix_column: Column of a table with the text that each translation must begin with.
        to: Target language of a model for many languages, such as de, or a pair of languages, such as en-de.
        to_column: Column of a table with the target language of each row. Empty cells mean the value of `to`.
        overrides: Other search options, such as search.n_best=3.
        alignments: Alignments to write: of words, of vocabulary pieces, or none. Leave empty for the model's own
            setting.
        keep: Columns of the input that the output gets too, or all.
        glossary: TSV or CSV file with terms and the translations that they must have.
        keep_terms: File with terms that stay as they are, one on each line.
        inflected_terms: Find inflected forms of the terms too.
        redo: Translations in documents (PO, XLIFF, TMX) to replace: none, those marked as unfinished, or all.
        for_review: Mark new translations in documents for review: fuzzy in PO, needs-review-translation in XLIFF 1.2.
        shadow: Challenger that translates a share of the lines too, for a comparison. The output stays the same.
        share: Share of the lines that the challenger translates.
        review: Number of lines to write to OUTPUT.review.csv, for correction by a human.
    """
    parameters: dict[str, Any] = {**locals()}  # first of all, so that nothing else is in it
    return _translated(TranslationRequest(**parameters | {"beam_size": beam_size or None}))


def _translated(request: TranslationRequest) -> dict[str, Any]:
    source, target = request.source, request.target
    if not request.is_job:
        raise ConfigError(f"source={source!r}, target={target!r}: a flow has no standard input or output: give files")
    logger, display = get_run_logger(), current_display.get()
    display.begin(_STEP)
    report = translate_job(request, Settings.load(), _progress(display, logger.info), logger.warning, logger.info)
    display.end(_STEP, f"{counted(report['lines'], 'line')}")
    if report.get("drifts"):
        _tell_of_drift(report, logger.warning)
    create_markdown_artifact(reports.markdown(f"translated {source}", report), key="report-translate")
    return completed(f"{counted(report['lines'], 'line')}", report)


def _tell_of_drift(report: Report, warn: Callable[[str], None]) -> None:
    """Send the event of a drift, which may start a retraining. The translation is complete whatever happens."""
    warn(report["watched"])
    measures = [
        {name: row[name] for name in ("against", "measure", "psi", "p_value")}
        for row in report["drift"]
        if row["drifts"]
    ]
    payload = {name: report[name] for name in ("model", "model_version", "target", "lines", "watched")}
    resource = Resource({"prefect.resource.id": model_resource(report["model"])})
    try:
        event = Event(event=DRIFTED, resource=resource, payload=payload | {"measures": measures})
        tell(event, "the text of the job drifts", "start the retraining by hand if it is due")
    except EventError as error:
        warn(str(error))


def _progress(display: Display, info: Callable[[str], None]) -> Progress:
    """Return a callback that shows progress on a display at once, and in a log from time to time."""
    last_line = time.monotonic()

    def progress(done: float, total: float, note: str) -> None:
        nonlocal last_line
        display.progress(_STEP, done, total, note)
        if time.monotonic() - last_line >= _SECONDS_BETWEEN_LINES:
            last_line = time.monotonic()
            info(f"{done:,.0f} of {total:,.0f} lines, {note}" if total else note)

    return progress
