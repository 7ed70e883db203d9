"""Figure of a comparison: BLEU by source length, a curve for each recipe (after Bahdanau et al. 2015, figure 2)."""

from collections.abc import Sequence
from pathlib import Path

from flows.comparison.table import ComparedRecipe, length_scores
from flows.html_report.charts import curves
from flows.html_report.svg import COLOURS, FONT, Drawing, fitted
from nmt_core.errors import ConfigError, DataError

_MARGIN, _LINE, _DASH = 8, 16, 12
_WIDTH, _HEIGHT = 720, 400
"""Size of the chart in pixels, with which its text is readable in a paper and on the page of a repository."""


def check_figure(file: Path, recipes: int, option: str = "--figure") -> None:
    """Check that a figure can be drawn, before any run starts.

    Args:
        file: File to write. Its folder is created.
        recipes: Number of recipes, each with a colour of its own.
        option: Option of the command that names the file.

    Raises:
        ConfigError: The figure cannot be drawn or written there.
    """
    if file.suffix != ".svg":
        raise ConfigError(f"{option} {file}: the figure is SVG: give a name that ends in .svg")
    if recipes > COLOURS:
        raise ConfigError(
            f"{option} {file}: {recipes} recipes, but only {COLOURS} colours can be told apart: compare fewer, or drop "
            f"{option}"
        )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{option} {file}: its folder cannot be created ({error.strerror}): choose another") from None


def write_figure(drawing: Drawing | None, file: Path, option: str = "--figure") -> bool:
    """Write a figure, and return True if there was a run to draw.

    Raises:
        DataError: The file cannot be written.
    """
    if drawing is None:
        return False
    try:
        file.write_bytes(drawing.file())
    except OSError as error:
        raise DataError(f"{option} {file}: cannot be written ({error.strerror}): choose another file") from None
    return True


def length_figure(table: Sequence[ComparedRecipe]) -> Drawing | None:
    """Draw BLEU by source length, or return None if no run was evaluated.

    Each point is the mean over the seeds, at the mean length of its sentences. The curves are named below the chart,
    one in a line, because names of recipes may be as long as the chart is wide.
    """
    buckets, scores = length_scores(table)
    if not scores:
        return None
    series = {
        recipe: [(bucket.mean, spread.mean) for bucket, spread in zip(buckets, spreads, strict=True)]
        for recipe, spreads in scores.items()
    }
    x_title = f"mean source length, {buckets[0].unit}"
    title = f"BLEU, {buckets[0].test_set}"
    chart = curves(title, series, x_title, from_zero=True, size=(_WIDTH, _HEIGHT), is_explained=False)
    about = "BLEU by the length of the source, of each recipe"
    whole = Drawing(_WIDTH + 2 * _MARGIN, _HEIGHT + _LINE * len(series) + 3 * _MARGIN, about)
    whole.put(chart, (_MARGIN, _MARGIN))
    for number, recipe in enumerate(series):
        y = 2 * _MARGIN + _HEIGHT + _LINE * number + FONT
        whole.line((_MARGIN, y - 4), (_MARGIN + _DASH, y - 4), f"line s{number}")
        whole.text((_MARGIN + _DASH + 4, y), fitted(recipe, _WIDTH - _DASH - 4))
    return whole
