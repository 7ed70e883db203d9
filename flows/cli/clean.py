"""`nmt clean`: preview what the stage `clean` would drop."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.arguments import Debug, Overrides, Recipe, read_config
from nmt_core.errors import DataError


def clean(
    recipe: Recipe,
    sample: Annotated[
        int, typer.Option("--sample", min=100, max=200_000, metavar="PAIRS", help="Number of pairs to judge.")
    ] = 10_000,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="HTML file to write.")] = Path(
        "cleaning.html"
    ),
    overrides: Overrides = None,
    debug: Debug = False,
) -> None:
    """Preview what `clean` would drop, on a page where thresholds can be moved. `nmt stage clean` cleans all text."""
    from flows.display.progress import terminal
    from flows.settings import Settings, allow_code_of_its_owner
    from nmt_core.corpus.cleaning import scorers
    from nmt_core.corpus.preview.judgement import judge
    from nmt_core.corpus.preview.page import page
    from nmt_core.corpus.preview.sample import draw
    from nmt_core.stages.stage import Job, SilentReporter, run_stage
    from nmt_core.stages.table import STAGES

    allow_code_of_its_owner()
    config = read_config(recipe, overrides, debug=debug)
    settings = Settings.load()
    if not settings.allow_code:
        scorers.require_allowed(config.clean)
    job = Job(SilentReporter(), settings.resources)
    download = run_stage(STAGES["download"], config, settings.store, {}, job).artifact
    pairs, read = draw(config, download, sample)
    preview = judge(config, download, pairs, read)
    try:
        output.write_text(page(preview, config.name), encoding="utf-8")
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error.strerror}): name another file with -o") from None
    kept = preview.kept
    terminal(to_stderr=False).print(f"{kept:,} of {pairs.height:,} sampled pairs would be kept", soft_wrap=True)
    typer.echo(str(output))
