"""`nmt explain`: a page that follows one sentence through a model."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.arguments import Beam, Debug, SearchOverrides
from nmt_core.errors import DataError


def explain(
    model: Annotated[
        str, typer.Argument(help="models:/NAME@champion, the folder of an exported model, or an export artifact.")
    ],
    sentence: Annotated[str, typer.Argument(help="What to translate.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("explain.html"),
    beam: Beam = None,
    overrides: SearchOverrides = None,
    debug: Debug = False,
) -> None:
    """Show how a model translates a sentence: tokens, attention, candidates and beam, as one HTML page."""
    from flows.registry.models import model_of
    from flows.settings import Settings
    from nmt_core.explain.explanation import explain
    from nmt_core.explain.page import page

    with model_of(model, Settings.load()) as found:
        explanation = explain(found.folder, sentence, found.search(beam, "", overrides or ()))
        text = page(explanation, f"{found.version.name} version {found.version.version}")
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error.strerror}): name another file with -o") from None
    typer.echo(f"{explanation.text}\n{output}")
