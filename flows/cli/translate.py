"""`nmt translate`: a job for files, a stream for pipes."""

from collections.abc import Mapping
from dataclasses import asdict

from rich.console import Console

from flows.cli.interruption import Stopped, interruptible
from flows.display.progress import shown_on, terminal
from flows.settings import Settings
from flows.translation.job import PIPE, Report, Wanted, translate_job, translate_pipe
from nmt_core.formats.rows import INVALID_UTF8

_STEP = "translate"


def translate(wanted: Wanted) -> None:
    """Translate, show how it goes, and say of which lines there is something to say.

    Raises:
        NmtError: it failed, for a reason that the message gives.
        Stopped: a signal stopped it; the same command goes on with a job.
    """
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
            report = _run(wanted, settings, console)
    except Stopped:
        if wanted.is_job:
            _say("What was translated is kept: the same command goes on from there.", console)
        raise
    did = "was translated before" if report["reused"] else f"{report['lines_per_second']:,.0f} lines/s"
    model = f"{report['model']} version {report['model_version']}"
    _say(f"{report['target']}: {report['lines']:,} lines by {model}, {did}", console)
    _tell(report["by_status"], console)


def _run(wanted: Wanted, settings: Settings, console: Console) -> Report:
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


def _tell(statuses: Mapping[str, int], console: Console) -> None:
    total = sum(statuses.values())
    for status, count in statuses.items():
        if status != "ok":
            _say(f"{count:,} of {total:,} lines: {status}", console)


def _say(message: str, console: Console) -> None:
    console.print(message, soft_wrap=True)
