"""Figure of a comparison: BLEU by source length, a curve for each recipe (after Bahdanau et al. 2015, figure 2)."""

from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase

from flows.comparison.table import ComparedRecipe, length_scores
from flows.html_report.charts import curves
from flows.html_report.svg import COLOURS, FONT, Drawing, fitted, width_of
from nmt_core.errors import ConfigError, DataError

_MARGIN, _LINE, _DASH = 8, 16, 12
_WIDEST = 720  # pixels of the legend


def check_figure(file: Path, recipes: int) -> None:
    """Check that the figure can be drawn, before any run starts.

    Args:
        file: File to write. Its folder is created.
        recipes: Number of curves.

    Raises:
        ConfigError: The figure cannot be drawn or written there.
    """
    if file.suffix != ".svg":
        raise ConfigError(f"--figure {file}: the figure is SVG: give a name that ends in .svg")
    if recipes > COLOURS:
        raise ConfigError(
            f"--figure {file}: {recipes} recipes, but only {COLOURS} curves can be told apart: compare fewer, or drop "
            "--figure"
        )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--figure {file}: its folder cannot be created ({error.strerror}): choose another") from None


def write_figure(table: Sequence[ComparedRecipe], file: Path) -> bool:
    """Draw the figure, and return True if there was a run to draw.

    Raises:
        DataError: The file cannot be written.
    """
    drawing = length_figure(table)
    if drawing is None:
        return False
    try:
        file.write_bytes(drawing.file())
    except OSError as error:
        raise DataError(f"--figure {file}: cannot be written ({error.strerror}): choose another file") from None
    return True


def length_figure(table: Sequence[ComparedRecipe]) -> Drawing | None:
    """Draw BLEU by source length, or return None if no run was evaluated.

    Each point is the mean over the seeds, at the mean length of its sentences. Names of recipes may be longer than the
    chart is wide, so the curves have letters, which the lines below the chart explain.
    """
    buckets, scores = length_scores(table)
    if not scores:
        return None
    named = dict(zip(ascii_lowercase, scores.items(), strict=False))
    series = {
        letter: [(bucket.mean, spread.mean) for bucket, spread in zip(buckets, spreads, strict=True)]
        for letter, (_, spreads) in named.items()
    }
    x_title = f"mean source length, {buckets[0].unit}"
    chart = curves(f"BLEU, {buckets[0].test_set}", series, x_title, from_zero=True)
    keys = [f"{letter}: {recipe}" for letter, (recipe, _) in named.items()]
    width = max(chart.width, _DASH + 4 + min(_WIDEST, max(map(width_of, keys))))
    about = "BLEU by the length of the source, of each recipe"
    whole = Drawing(width + 2 * _MARGIN, chart.height + _LINE * len(keys) + 3 * _MARGIN, about)
    whole.put(chart, (_MARGIN, _MARGIN))
    for number, key in enumerate(keys):
        y = 2 * _MARGIN + chart.height + _LINE * number + FONT
        whole.line((_MARGIN, y - 4), (_MARGIN + _DASH, y - 4), f"line s{number}")
        whole.text((_MARGIN + _DASH + 4, y), fitted(key, _WIDEST))
    return whole
