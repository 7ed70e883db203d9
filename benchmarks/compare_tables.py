"""Make the tables of `compare.py` beside the table of `nmt compare`: the paper's numbers, and gains from averaging."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flows.comparison.table import ComparedRecipe, Spread, shown, spread_of

TWO_DIGITS = "{:.2f}".format


@dataclass(frozen=True)
class Variation:
    """A row of Table 3 of Vaswani et al. 2017, in the proportions of a smaller model."""

    family: str
    """Family of the paper, A to E. F is a change that the paper does not have."""
    change: str
    """Change of the smaller model, as `nmt compare` takes it."""
    published: str = ""
    """Nearest row of the paper. Empty if there is none."""
    perplexity: float = math.nan
    """The paper's, per wordpiece of newstest2013."""
    bleu: float = math.nan
    """The paper's, of newstest2013."""


BASE = Variation("", "", "base", 4.92, 25.8)
TABLE_3 = (
    Variation("A", "model.num_heads=1", "h 8 → 1", 5.29, 24.9),
    Variation("A", "model.num_heads=2", "h 8 → 4", 5.00, 25.5),
    Variation("A", "model.num_heads=8", "h 8 → 16", 4.91, 25.8),
    Variation("A", "model.num_heads=16", "h 8 → 32", 5.01, 25.4),
    Variation("B", "model.key_width=8", "d_k 64 → 16", 5.16, 25.1),
    Variation("B", "model.key_width=16", "d_k 64 → 32", 5.01, 25.4),
    Variation("C", "model.encoder_layers=1+model.decoder_layers=1", "N 6 → 2", 6.11, 23.7),
    Variation("C", "model.encoder_layers=2+model.decoder_layers=2", "N 6 → 4", 5.19, 25.3),
    Variation("C", "model.encoder_layers=6+model.decoder_layers=6", "N 6 → 8", 4.88, 25.5),
    Variation("C", "model.d_model=64", "d_model 512 → 256", 5.75, 24.5),
    Variation("C", "model.d_model=256", "d_model 512 → 1024", 4.66, 26.0),
    Variation("C", "model.d_ff=128", "d_ff 2048 → 1024", 5.12, 25.4),
    Variation("C", "model.d_ff=512", "d_ff 2048 → 4096", 4.75, 26.2),
    Variation("D", "model.dropout=0", "dropout 0.1 → 0.0", 5.77, 24.6),
    Variation("D", "model.dropout=0.2", "dropout 0.1 → 0.2", 4.95, 25.5),
    Variation("D", "train.label_smoothing=0", "smoothing 0.1 → 0.0", 4.67, 25.3),
    Variation("D", "train.label_smoothing=0.2", "smoothing 0.1 → 0.2", 5.47, 25.7),
    Variation("E", "model.positions=learned", "learned positions", 4.92, 25.7),
    Variation("F", "model.positions=rotary"),
)
"""Rows with the paper's numbers. Its base has 8 heads and the smaller model 4, and so on, so the directions of changes
can be compared, and not their sizes."""


def beside_the_paper(table: Sequence[ComparedRecipe], variations: Mapping[str, Variation]) -> list[str]:
    """Return a Markdown table of the differences from the base row, the paper's and ours, and which way they go.

    Args:
        table: ours, of one recipe's variations.
        variations: the rows of the paper by the names of ours; `BASE` is among them.
    """
    base = next((row for row in table if variations.get(row.recipe) is BASE), None)
    if base is None:
        return []
    headings = ["row", "in the paper", "its perplexity", "its BLEU", "our dev perplexity", "our dev BLEU", "same way"]
    lines = _head(headings)
    for row in table:
        variation = variations[row.recipe]
        if variation is BASE:
            cells = [_absolute(row, "dev_perplexity"), _absolute(row, "dev_bleu"), ""]
            theirs = [TWO_DIGITS(BASE.perplexity), f"{BASE.bleu:.1f}"]
        else:
            theirs, cells = _differences(variation, row, base)
        name = f"{variation.family} {variation.change}" if variation.change else "base"
        lines.append(_line([name.strip(), variation.published or "-", *theirs, *cells]))
    return lines


def _differences(variation: Variation, row: ComparedRecipe, base: ComparedRecipe) -> tuple[list[str], list[str]]:
    """Return the cells of the paper, and ours with a mark if they go the same way."""
    theirs, ours, ways = [], [], []
    for name, published, of_base in (
        ("dev_perplexity", variation.perplexity, BASE.perplexity),
        ("dev_bleu", variation.bleu, BASE.bleu),
    ):
        difference = round(published - of_base, 2)
        higher_is_better = name == "dev_bleu"
        their_way = _way(difference, 0, higher_is_better=higher_is_better)
        theirs.append("-" if math.isnan(published) else f"{difference:+.2f} ({their_way})")
        values = _by_seed(row, base, name)
        if not values:
            ours.append("-")
            continue
        spread = spread_of(values)
        way = _way(spread.mean, spread.deviation or 0, higher_is_better=higher_is_better)
        ours.append(f"{_signed(spread)} ({way})")
        if not math.isnan(published):
            ways.append(way == their_way)
    return theirs, [*ours, ", ".join("yes" if same else "no" for same in ways) or "-"]


def _by_seed(row: ComparedRecipe, base: ComparedRecipe, name: str) -> list[float]:
    """Differences from base of each seed that both have: one order of the text for both, whose luck drops out."""
    of_base = {run.seed: value for run in base.runs if (value := getattr(run, name)) is not None}
    return [
        value - of_base[run.seed]
        for run in row.runs
        if run.seed in of_base and (value := getattr(run, name)) is not None
    ]


def _way(difference: float, spread: float, *, higher_is_better: bool) -> str:
    """Return better or worse, or even if the difference is not larger than its spread over the seeds."""
    if abs(difference) <= spread:
        return "even"
    return "better" if (difference > 0) == higher_is_better else "worse"


def _absolute(row: ComparedRecipe, name: str) -> str:
    measured = row.measures.get(name)
    return shown(measured, TWO_DIGITS) if measured else "-"


def averages(table: Sequence[ComparedRecipe]) -> list[str]:
    """Return a Markdown table: how well the average of each row predicts the dev set, and the best checkpoint alone."""
    lines = _head(["row", "the average's dev perplexity", "the best checkpoint's", "difference", "exported"])
    for row in table:
        scores = [
            (run.averaged_dev_perplexity, run.best_single_dev_perplexity, run.weights)
            for run in row.runs
            if run.averaged_dev_perplexity is not None and run.best_single_dev_perplexity is not None
        ]
        if scores:
            averaged, single = (spread_of([one[side] for one in scores]) for side in (0, 1))
            difference = spread_of([one[0] - one[1] for one in scores])
            cells = [shown(averaged, TWO_DIGITS), shown(single, TWO_DIGITS), _signed(difference)]
            lines.append(_line([row.recipe, *cells, ", ".join(dict.fromkeys(one[2] for one in scores))]))
    return lines


def _signed(spread: Spread) -> str:
    mean = f"{spread.mean:+.2f}"
    return f"{mean} ± {spread.deviation:.2f}" if spread.deviation else mean


def _head(headings: Sequence[str]) -> list[str]:
    return [_line(headings), _line(["---", *["---:"] * (len(headings) - 1)])]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
