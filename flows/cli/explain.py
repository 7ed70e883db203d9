"""`nmt explain`: write a page that follows one sentence through a model."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.arguments import Beam, Debug, SearchOverrides
from nmt_core.errors import DataError


def explain(
    model: Annotated[
        str, typer.Argument(help="models:/NAME@champion, the folder of an exported model, or an export artifact.")
    ],
    sentence: Annotated[str, typer.Argument(help="Sentence to translate.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="HTML file to write.")] = Path(
        "explain.html"
    ),
    to: Annotated[
        str, typer.Option(metavar="LANGUAGE", help="Target language of a model for many languages, or a pair of them.")
    ] = "",
    beam: Beam = None,
    overrides: SearchOverrides = None,
    debug: Debug = False,
) -> None:
    """Show how a model translates a sentence, as one HTML page: tokens, attention, candidates and beam."""
    from flows.registry.models import model_of
    from flows.settings import Settings
    from nmt_core.explain.explanation import explain
    from nmt_core.explain.page import page

    with model_of(model, Settings.load()) as chosen:
        explanation = explain(chosen.folder, sentence, chosen.search(beam, "", overrides or ()), to)
        text = page(explanation, f"{chosen.version.name} version {chosen.version.version}")
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error.strerror}): name another file with -o") from None
    typer.echo(f"{explanation.text}\n{output}")
