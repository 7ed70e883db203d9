"""`nmt init`: write a recipe that fits text and this machine, each line with its reason."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.arguments import Debug
from nmt_core.errors import ConfigError, counted

if TYPE_CHECKING:
    from rich.console import Console

    from flows.settings import Settings
    from nmt_core.advice.corpora import Pair
    from nmt_core.advice.decisions import Ask, Question
    from nmt_core.advice.findings import Findings, Wishes
    from nmt_core.advice.machine import Machine

_PAIRS_OF_A_CPU, _PAIRS_OF_A_GPU = 1_000_000, 20_000_000
_SECONDS_WITHOUT_AN_ANSWER = 15.0


def init(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...",
            help="Your text: a table or another file with both sides, two files with a line for each sentence (the "
            "source first), a folder, or corpora of OPUS: `opus:en-ko`, `opus:Tatoeba/v2023-04-12`.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Recipe to write. By default named after the text, here."),
    ] = None,
    languages: Annotated[
        str,
        typer.Option(
            metavar="SOURCE-TARGET", help="Languages, as in en-de. By default the ones that files and text show."
        ),
    ] = "",
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask before each decision. An empty answer takes the advice. Works in a pipe.")
    ] = False,
    hours: Annotated[
        float, typer.Option(min=0, help="Hours that training may take. By default 12, or 24 with a GPU.")
    ] = 0.0,
    force: Annotated[bool, typer.Option("--force", help="Replace a recipe that exists.")] = False,
    source_column: Annotated[
        str, typer.Option(metavar="COLUMN", help="Source column of a table: name or number.")
    ] = "",
    target_column: Annotated[
        str, typer.Option(metavar="COLUMN", help="Target column of a table: name or number.")
    ] = "",
    encoding: Annotated[
        str, typer.Option(metavar="CHARSET", help="Charset of the files. By default UTF-8, or what they show.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample of large text.")] = 1,
    debug: Debug = False,
) -> None:
    """Look at your text for seconds, and write a recipe that fits it and this machine, each line with its reason."""
    from nmt_core.advice.findings import Wishes

    wishes = Wishes(_pair(languages), (source_column, target_column), encoding, seed)
    _init(places, wishes, output, hours, ask=ask, force=force)


def _init(places: list[str], wishes: "Wishes", output: Path | None, hours: float, *, ask: bool, force: bool) -> None:
    """Look at the text, decide, and write the recipe."""
    from flows.display.progress import terminal
    from flows.settings import Settings
    from nmt_core.advice import recipe
    from nmt_core.advice.decisions import decide

    machine, console = _machine(Settings.load()), terminal(to_stderr=True)
    console.print(f"looking at {', '.join(places)}", soft_wrap=True)
    findings = _look(places, wishes, machine)
    path = output or Path(f"{findings.name}.yaml")
    recipe.require_free(path, force=force)
    _report(findings, wishes.seed, console)
    parts = decide(findings, machine, prompting(console) if ask else _advised(hours))
    about = [
        f"Written by `{shlex.join(['nmt', 'init', *places])}`, for this machine: {machine.shown}. Above each value is "
        "its reason. Change what you know better",
        *(f"Note: {note}" for note in findings.notes),
    ]
    recipe.write(path, recipe.rendered(findings, parts, about), force=force)
    shown = shlex.quote(str(path))
    console.print(f"Wrote {path}. Next: `nmt plan {shown}` checks it, and `nmt run {shown}` trains.", soft_wrap=True)
    typer.echo(str(path))


def _pair(languages: str) -> "Pair | None":
    """Return the languages of `--languages`.

    Raises:
        ConfigError: the text is not a pair of languages.
    """
    from nmt_core.config.language_codes import is_code, parse_tag

    if not languages:
        return None
    tags = [parse_tag(part) for part in languages.replace(",", "-").split("-")]
    if len(tags) != 2 or not all(tag and is_code(tag.language) for tag in tags):
        raise ConfigError(f"--languages {languages}: must be two ISO 639 codes, the source first, as in en-de")
    source, target = (tag.language for tag in tags if tag)
    if source == target:
        raise ConfigError(
            f"--languages {languages}: names one language twice: name the source and the target, as in en-de"
        )
    return source, target


def _machine(settings: "Settings") -> "Machine":
    import psutil

    from nmt_core.advice.machine import Machine

    return Machine(settings.threads, psutil.virtual_memory().total, len(settings.gpus))


def _look(places: list[str], wishes: "Wishes", machine: "Machine") -> "Findings":
    """Look at text of this machine, or at the list of OPUS."""
    from nmt_core.advice import findings, opus

    of_opus = [place for place in places if opus.is_opus(place)]
    if not of_opus:
        return findings.look(places, wishes)
    if len(of_opus) < len(places):
        raise ConfigError(
            f"{of_opus[0]}: beside files: name either files or corpora of OPUS, and add the others by hand"
        )
    import tempfile

    from nmt_core.corpus.fetching.fetcher import Fetcher, Patience

    most = _PAIRS_OF_A_GPU if machine.gpus else _PAIRS_OF_A_CPU
    patience = Patience(attempts=2, timeout=_SECONDS_WITHOUT_AN_ANSWER)
    with tempfile.TemporaryDirectory() as folder, Fetcher(Path(folder), patience=patience) as fetcher:
        return opus.look(places, wishes, fetcher.json, most)


def _report(findings: "Findings", seed: int, console: "Console") -> None:
    source, target = findings.languages
    sample = findings.sample
    corpora = counted(len(findings.corpora), "corpus", "corpora")
    console.print(f"{findings.pairs:,} pairs, {source} to {target}, in {corpora}", soft_wrap=True)
    if sample:
        what = "all of it" if sample.is_whole else f"{sample.judged:,} of the first {sample.read:,} pairs (seed {seed})"
        console.print(
            f"looked at {what} in {findings.seconds:.1f} s; the filters would keep {sample.kept_share:.1%}",
            soft_wrap=True,
        )
    for note in findings.notes:
        console.print(f"note: {note}", soft_wrap=True)


def _advised(hours: float) -> "Ask":
    """Return a function that takes the advice, and the hours of the command line."""

    def answer(question: "Question") -> str:
        return f"{hours:g}" if hours and question.key == "hours" else question.default

    return answer


def prompting(console: "Console") -> "Ask":
    """Return a function that asks on the terminal, or reads a line of a pipe for each question.

    It raises ConfigError if the pipe ends, or if an answer of a pipe does not fit. A person is asked again.
    """

    def answer(question: "Question") -> str:
        console.print(f"\n{question.text} ({question.key})\n  {question.reason}", soft_wrap=True)
        if question.choices:
            console.print(f"  one of {', '.join(question.choices)}", soft_wrap=True)
        while True:
            console.print(f"  value [{question.default}]: ", end="", soft_wrap=True)
            given = sys.stdin.readline()
            if not given:
                raise ConfigError(
                    f"--ask: the answers ended before the question {question.key}: give a line for each, empty for the "
                    "advice, or leave out --ask"
                )
            try:
                return question.check(given)
            except ConfigError as error:
                if not sys.stdin.isatty():
                    raise
                console.print(f"  {error}", soft_wrap=True)

    return answer
