"""`nmt translate`: translate files as a resumable job, or a pipe as a stream."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.arguments import Beam, Debug, Quiet, SearchOverrides
from flows.cli.interruption import Stopped, interruptible
from nmt_core.errors import counted

if TYPE_CHECKING:
    from rich.console import Console

    from flows.display.progress import Detail
    from flows.settings import Settings
    from flows.translation.job import Report
    from flows.translation.request import TranslationRequest

_STEP = "translate"

_Input = Annotated[
    str,
    typer.Option(
        "--input",
        "-i",
        metavar="FILE",
        help="Text, TSV, CSV, JSONL or Parquet, also compressed, or documents (PO, XLIFF, TMX, HTML, Markdown, SRT, "
        "VTT, docx): a file, folder or pattern, as a path or an address such as s3://... By default stdin.",
    ),
]
_Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="File to write, in the format of its suffix. A folder if the input is a folder or pattern. By default "
        "stdout.",
    ),
]
_PrefixColumn = Annotated[
    str,
    typer.Option(help="Column of a table with the prefix that each translation must begin with. Cells can be empty."),
]
_To = Annotated[
    str,
    typer.Option(
        metavar="LANGUAGE",
        help="Target language of a model for many languages, such as de, or a pair of languages, such as en-de.",
    ),
]
_ToColumn = Annotated[
    str,
    typer.Option(help="Column of a table with the target language of each row. Empty cells mean the value of --to."),
]
_Alignments = Annotated[
    str,
    typer.Option(
        metavar="words|pieces", help="Output alignments of words, or of pieces of the vocabulary (0-0 1-2...)."
    ),
]
_Column = Annotated[
    str, typer.Option(help="Column of a table to translate: its name, or its number if the table has no header.")
]
_LongLines = Annotated[
    str,
    typer.Option(
        metavar="split|cut",
        help="Handling of lines longer than the model reads. The default is the model's own setting.",
    ),
]
_LineByLine = Annotated[
    bool,
    typer.Option(
        "--line-by-line",
        help="Write each translation before the next line is read, if input or output is a pipe. This is slower.",
    ),
]
_Job = Annotated[
    str,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the job. Commands with the same folder share the work. By default beside the output.",
    ),
]
_Glossary = Annotated[
    str,
    typer.Option(
        "--glossary",
        metavar="FILE",
        help="TSV or CSV with terms and the translations that they must have. A term without a translation stays as it "
        "is.",
    ),
]
_KeepTerms = Annotated[
    str, typer.Option("--keep-terms", metavar="FILE", help="Terms that stay as they are, one on each line.")
]
_InflectedTerms = Annotated[
    bool,
    typer.Option("--inflected-terms", help="Find inflected forms of the terms too. Needs `nmt-pipeline[forms]`."),
]
_Keep = Annotated[
    str,
    typer.Option(metavar="NAME,NAME...|all", help="Columns of the input that the output gets too, with their types."),
]
_Redo = Annotated[
    str,
    typer.Option(
        metavar="none|fuzzy|all",
        help="Translations in PO, XLIFF and TMX to replace: none, those marked as unfinished, or all.",
    ),
]
_ForReview = Annotated[
    bool,
    typer.Option(
        "--for-review", help="Mark new translations for review: fuzzy in PO, needs-review-translation in XLIFF 1.2."
    ),
]
_Shadow = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="Challenger that translates a share of the lines too, for a comparison. The output stays the same.",
    ),
]
_Share = Annotated[float, typer.Option(metavar="NUMBER", help="Share of the lines that the challenger translates.")]
_Review = Annotated[
    int,
    typer.Option(
        metavar="LINES",
        help="Write this many lines that a human should correct to OUTPUT.review.csv, the most doubtful first.",
    ),
]


def translate(
    model: Annotated[str, typer.Option(help="models:/NAME@champion, or the folder of an exported model.")],
    source: _Input = "-",
    target: _Output = "-",
    column: _Column = "",
    job: _Job = "",
    beam: Beam = None,
    long_lines: _LongLines = "",
    prefix_column: _PrefixColumn = "",
    to: _To = "",
    to_column: _ToColumn = "",
    alignments: _Alignments = "",
    keep: _Keep = "",
    glossary: _Glossary = "",
    keep_terms: _KeepTerms = "",
    inflected_terms: _InflectedTerms = False,
    redo: _Redo = "none",
    for_review: _ForReview = False,
    shadow: _Shadow = "",
    share: _Share = 0.05,
    review: _Review = 0,
    line_by_line: _LineByLine = False,
    overrides: SearchOverrides = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Translate text line by line. Files are translated as a job: repeat the command to resume it."""
    from flows.settings import allow_code_of_its_owner
    from flows.translation.request import TranslationRequest

    allow_code_of_its_owner()
    request = TranslationRequest(
        model,
        source,
        target,
        column=column,
        job=job,
        beam_size=beam,
        long_lines=long_lines,
        prefix_column=prefix_column,
        to=to,
        to_column=to_column,
        overrides=tuple(overrides or ()),
        alignments=alignments,
        line_by_line=line_by_line,
        keep=tuple(name.strip() for name in keep.split(",") if name.strip()),
        glossary=glossary,
        keep_terms=keep_terms,
        inflected_terms=inflected_terms,
        redo=redo,
        for_review=for_review,
        shadow=shadow,
        share=share,
        review=review,
    )
    run_translation(request, "quiet" if quiet else "normal")


def run_translation(request: "TranslationRequest", detail: "Detail" = "normal") -> None:
    """Translate, show progress, and report how many lines have a status other than "ok".

    Args:
        request: model, text, and how to translate it.
        detail: `quiet` shows no progress, and no line about a job that went well.

    Raises:
        NmtError: the model, the text or the target cannot be used.
        Stopped: a signal arrived. The same command resumes a job.
    """
    from flows.display.progress import terminal
    from flows.settings import Settings
    from flows.translation.pipe import translate_pipe
    from flows.translation.request import PIPE
    from nmt_core.formats.rows import INVALID_UTF8
    from nmt_core.jobs.inputs import UNREADABLE

    settings = Settings.load()
    console = terminal(to_stderr=True)
    try:
        with interruptible():
            if not request.is_job:
                terms = Counter[str]()
                statuses = translate_pipe(request, settings, lambda message: _print(message, console), terms)
                _report_statuses(statuses, console)
                _report_terms(terms, console)
                if statuses[INVALID_UTF8] and request.target == PIPE:
                    _print(
                        "Bytes that are not UTF-8 are kept only with an output file: name one with --output.", console
                    )
                return
            report = _run_job(request, settings, console, detail)
    except Stopped:
        if request.is_job:
            _print("Translated lines are kept: repeat the command to resume.", console)
        raise
    did = "was translated before" if report["reused"] else f"{report['lines_per_second']:,.0f} lines/s"
    model = f"{report['model']} version {report['model_version']}"
    if detail != "quiet":
        _print(f"{report['target']}: {counted(report['lines'], 'line')} by {model}, {did}", console)
    _report_statuses(report["by_status"], console)
    if report["by_status"].get(INVALID_UTF8):
        _print(
            f"Lines that are not UTF-8 are not translated, and their bytes are in {report['target']}{UNREADABLE}. If "
            "the text has another charset, convert it: `iconv --from-code=windows-1252 --to-code=utf-8 OLD > NEW`.",
            console,
        )
    _report_terms(report, console)
    _report_watching(report, request, console, detail)


def _report_watching(report: "Report", request: "TranslationRequest", console: "Console", detail: "Detail") -> None:
    """Print what differs from earlier text, the comparison with a challenger, and the file for correction."""
    if report.get("watched") and (report["drifts"] or detail != "quiet"):
        _print(report["watched"], console)
    if report.get("drifts"):
        _print(f"histograms: {request.job or f'{request.target}.job'}/drift.html", console)
    if "shadow" in report:
        _print(report["shadow"]["in_words"], console)
    if "review" in report:
        number = counted(report["review"], "line")
        _print(f"{request.target.rstrip('/')}.review.csv: {number} for correction", console)


def _run_job(request: "TranslationRequest", settings: "Settings", console: "Console", detail: "Detail") -> "Report":
    from flows.display.progress import shown_on
    from flows.translation.job import translate_job

    with shown_on(console, detail) as display:
        if settings.workers == "local":
            display.begin(_STEP)

            def progress(done: float, total: float, note: str) -> None:
                display.progress(_STEP, done, total, note)

            report = translate_job(request, settings, progress, display.note)
            display.end(_STEP, f"{report['seconds']:.1f} s")
            return report
        settings.prepare()  # a cluster runs tasks of Prefect
        from flows.servers.servers import PrefectApi

        with PrefectApi(settings).connected() as api:
            from flows.translate import translate as flow

            api.wait()
            result: Report = flow(**{name: value for name, value in asdict(request).items() if name != "line_by_line"})
            return result


def _report_statuses(statuses: Mapping[str, int], console: "Console") -> None:
    total = sum(statuses.values())
    for status, count in statuses.items():
        if status != "ok":
            _print(f"{count:,} of {counted(total, 'line')}: {status}", console)


def _report_terms(counts: Mapping[str, Any], console: "Console") -> None:
    if counts.get("terms"):
        terms, kept = counts["terms"], counts["terms_kept"]
        _print(f"terms with their translation: {kept:,} of {terms:,} ({kept / terms:.1%})", console)


def _print(message: str, console: "Console") -> None:
    console.print(message, soft_wrap=True)
