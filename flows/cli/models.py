"""Commands of `nmt` that use a model that is there: what they take. What they need is imported when they are called."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.arguments import Debug

_Beam = Annotated[int | None, typer.Option("--beam", help="Beam size, if not the model's own; 1 is the fastest.")]
_Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="search.KEY=VALUE", help="Change how the model searches. May be repeated."),
]
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


def translate(
    model: Annotated[str, typer.Option(help="models:/NAME@champion, or the folder of an exported model.")],
    source: _Input = "-",
    target: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write, in the format of its suffix; a folder, if the input is one; left out: stdout.",
        ),
    ] = "-",
    column: Annotated[
        str, typer.Option(help="Column of a table: its name, or its number if the first row holds no names.")
    ] = "",
    job: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where the job is kept; several commands that name one share it.")
    ] = "",
    beam: _Beam = None,
    long_lines: Annotated[
        str, typer.Option(metavar="split|cut", help="Lines longer than the model reads, if not as the model says.")
    ] = "",
    prefix_column: Annotated[
        str,
        typer.Option(help="Column of a table with what each translation has to begin with; empty where it is free."),
    ] = "",
    alignments: Annotated[
        str,
        typer.Option(
            metavar="words|pieces", help="Say which words, or pieces of the vocabulary, belong together (0-0 1-2...)."
        ),
    ] = "",
    overrides: _Overrides = None,
    debug: Debug = False,
) -> None:
    """Translate text: one line out for each line in. Files are a job: the same command goes on after any death."""
    from flows.cli.translate import translate
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
    translate(wanted)


def explain(
    model: Annotated[
        str, typer.Argument(help="models:/NAME@champion, the folder of an exported model, or an export artifact.")
    ],
    sentence: Annotated[str, typer.Argument(help="What to translate.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("explain.html"),
    beam: _Beam = None,
    overrides: _Overrides = None,
    debug: Debug = False,
) -> None:
    """Show how a model translates a sentence: tokens, attention, candidates and beam, as one HTML page."""
    from flows.cli.explain import write_page

    write_page(model, sentence, output, beam, overrides or ())
