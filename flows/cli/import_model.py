"""`nmt import`: turn a model of another program into a bundle."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.arguments import Debug, Quiet
from nmt_core.errors import ConfigError, counted

if TYPE_CHECKING:
    from nmt_core.importing.importer import Imported


def import_model(
    address: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Folder of an OPUS-MT, M2M100 or NLLB model of Hugging Face's transformers, or `model.npz` of Marian.",
        ),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Folder of the bundle to make.")],
    text: Annotated[
        Path,
        typer.Option(
            "--text",
            metavar="FILE",
            help="Sentences of the source language, one a line, with which the precisions are measured.",
        ),
    ],
    references: Annotated[
        Path | None,
        typer.Option(
            "--references",
            metavar="FILE",
            help="Their translations. Without them, int8 and fp16 are measured against the translations in fp32.",
        ),
    ] = None,
    languages: Annotated[
        str,
        typer.Option(
            metavar="SOURCE-TARGET",
            help="Languages, as in en-de, or eng_Latn-deu_Latn for NLLB. By default those that the model's files name.",
        ),
    ] = "",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Turn a model of another program into a bundle, which translates, teaches, and can be trained further."""
    from flows.settings import Settings
    from nmt_core.config import ExportConfig
    from nmt_core.export.dev import Dev
    from nmt_core.importing.importer import import_model as run
    from nmt_core.importing.importer import read_model
    from nmt_core.stages.stage import SilentReporter

    source, separator, target = languages.partition("-")
    if languages and not (source and separator and target):
        raise ConfigError(f"--languages={languages}: name two languages, as in en-de")
    foreign = read_model(address, (source, target))
    dev = Dev.of_files(text, references)
    done = run(foreign, to, dev, ExportConfig(), Settings.load().resources.threads, SilentReporter())
    if not quiet:
        _print(done, has_references=references is not None)
    typer.echo(str(to))


def _print(done: "Imported", *, has_references: bool) -> None:
    """Print what the gates found, and what they left out."""
    from flows.display.progress import terminal

    console, of = terminal(to_stderr=False), "" if has_references else " against fp32"
    rows = [
        f"{counted(done.parameters, 'parameter')}, {done.languages.tag('source')} into {done.languages.tag('target')}",
        f"{done.parity.identical:,} of {counted(done.parity.sentences, 'sentence')} with the beams of PyTorch",
        f"BLEU{of} " + ", ".join(f"{name} {score:.2f}" for name, score in done.bleu.items()),
        *done.costs,
    ]
    for row in rows:
        console.print(row, soft_wrap=True)


import_model.__name__ = "import"  # a word of Python, so no function can be defined by this name
