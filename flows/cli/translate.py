"""`nmt translate`: a job for files, a stream for pipes."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.arguments import Beam, Debug, SearchOverrides
from flows.cli.interruption import Stopped, interruptible

if TYPE_CHECKING:
    from rich.console import Console

    from flows.settings import Settings
    from flows.translation.job import Report, Wanted

_STEP = "translate"

_Input = Annotated[
    str,
    typer.Option(
        "--input",
        "-i",
        metavar="FILE",
        help="Text, TSV, CSV, JSONL or Parquet, packed or not; a folder or pattern of them, here or as s3://...; "
        "left out: stdin.",
    ),
]
_Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="File to write, in the format of its suffix; a folder, if the input is one; left out: stdout.",
    ),
]
_PrefixColumn = Annotated[
    str,
    typer.Option(help="Column of a table with what each translation has to begin with; empty where it is free."),
]
_Alignments = Annotated[
    str,
    typer.Option(
        metavar="words|pieces", help="Say which words, or pieces of the vocabulary, belong together (0-0 1-2...)."
    ),
]


def translate(
    model: Annotated[str, typer.Option(help="models:/NAME@champion, or the folder of an exported model.")],
    source: _Input = "-",
    target: _Output = "-",
    column: Annotated[
        str, typer.Option(help="Column of a table: its name, or its number if the first row holds no names.")
    ] = "",
    job: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where the job is kept; several commands that name one share it.")
    ] = "",
    beam: Beam = None,
    long_lines: Annotated[
        str, typer.Option(metavar="split|cut", help="Lines longer than the model reads, if not as the model says.")
    ] = "",
    prefix_column: _PrefixColumn = "",
    alignments: _Alignments = "",
    overrides: SearchOverrides = None,
    debug: Debug = False,
) -> None:
    """Translate text: one line out for each line in. Files are a job: the same command goes on after any death."""
    from flows.translation.job import Wanted

    wanted = Wanted(
        model,
        source,
        target,
        column=column,
        job=job,
        beam_size=beam,
        long_lines=long_lines,
        prefix_column=prefix_column,
        overrides=tuple(overrides or ()),
        alignments=alignments,
    )
    run_translation(wanted)


def run_translation(wanted: "Wanted") -> None:
    """Translate, show how it goes, and say of which lines there is something to say.

    Raises:
        NmtError: it failed, for a reason that the message gives.
        Stopped: a signal stopped it; the same command goes on with a job.
    """
    from flows.display.progress import terminal
    from flows.settings import Settings
    from flows.translation.job import PIPE, translate_pipe
    from nmt_core.formats.rows import INVALID_UTF8

    settings = Settings.load()
    console = terminal(to_stderr=True)
    try:
        with interruptible():
            if not wanted.is_job:
                statuses = translate_pipe(wanted, settings)
                _tell(statuses, console)
                if statuses[INVALID_UTF8] and wanted.target == PIPE:
                    _say("Bytes that are not UTF-8 are kept beside a file alone: name one with --output.", console)
                return
            report = _run_job(wanted, settings, console)
    except Stopped:
        if wanted.is_job:
            _say("What was translated is kept: the same command goes on from there.", console)
        raise
    did = "was translated before" if report["reused"] else f"{report['lines_per_second']:,.0f} lines/s"
    model = f"{report['model']} version {report['model_version']}"
    _say(f"{report['target']}: {report['lines']:,} lines by {model}, {did}", console)
    _tell(report["by_status"], console)


def _run_job(wanted: "Wanted", settings: "Settings", console: "Console") -> "Report":
    from flows.display.progress import shown_on
    from flows.translation.job import translate_job

    with shown_on(console) as display:
        if settings.workers == "local":
            display.begin(_STEP)

            def progress(done: float, total: float, note: str) -> None:
                display.progress(_STEP, done, total, note)

            report = translate_job(wanted, settings, progress, display.say)
            display.end(_STEP, f"{report['seconds']:.1f} s")
            return report
        settings.prepare()  # tasks of a cluster are Prefect's
        from flows.servers.servers import PrefectApi

        with PrefectApi(settings).connected() as api:
            from flows.translate import translate as flow

            api.wait()
            made: Report = flow(**asdict(wanted))
            return made


def _tell(statuses: Mapping[str, int], console: "Console") -> None:
    total = sum(statuses.values())
    for status, count in statuses.items():
        if status != "ok":
            _say(f"{count:,} of {total:,} lines: {status}", console)


def _say(message: str, console: "Console") -> None:
    console.print(message, soft_wrap=True)
