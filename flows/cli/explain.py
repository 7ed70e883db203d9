"""`nmt explain`: a page that follows one sentence through a model."""

from collections.abc import Sequence
from pathlib import Path

import typer

from flows.registry.models import model_of
from flows.settings import Settings
from nmt_core.errors import DataError


def write_page(model: str, sentence: str, target: Path, beam_size: int | None, overrides: Sequence[str]) -> None:
    """Write the page, and say where it is.

    Raises:
        NmtError: the model cannot be read, the sentence is too long, or the page cannot be written.
    """
    from nmt_core.explain.explanation import explain
    from nmt_core.explain.page import page

    with model_of(model, Settings.load()) as found:
        explanation = explain(found.folder, sentence, found.search(beam_size, "", overrides))
        text = page(explanation, f"{found.version.name} version {found.version.version}")
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{target}: cannot be written ({error.strerror}): name another file with -o") from None
    typer.echo(f"{explanation.text}\n{target}")
