"""Tables of a comparison: means and deviations over the seeds, BLEU by source length, and the Pareto front."""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import mean, stdev

from pydantic import BaseModel

from flows.comparison.contenders import ComparedRun
from flows.comparison.pareto import Point, pareto_table
from flows.display.markdown import plain
from flows.display.markdown import table as table_of
from nmt_core.evaluate.length_bucket import LengthBucket


class Spread(BaseModel):
    """Mean and deviation of a measure over the seeds."""

    mean: float
    deviation: float | None
    """Sample standard deviation. None for a single run."""


class ComparedRecipe(BaseModel):
    """Row of the table: a recipe with its runs."""

    recipe: str
    measures: dict[str, Spread]
    """Measures by their names in `ComparedRun`, without those that no run has."""
    runs: list[ComparedRun]

    @property
    def failed(self) -> int:
        """Number of runs that did not finish."""
        return sum(run.status != "finished" for run in self.runs)


MEASURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "parameters": ("parameters", "{:,.0f}".format),
    "updates": ("updates", "{:,.0f}".format),
    "trained_tokens": ("trained tokens", "{:,.0f}".format),
    "dev_perplexity": ("dev perplexity", "{:.2f}".format),
    "dev_bleu": ("dev BLEU", "{:.2f}".format),
    "bleu": ("BLEU", "{:.2f}".format),
    "chrf": ("chrF", "{:.2f}".format),
    "hours": ("hours", "{:.3g}".format),
    "bleu_morphemes": ("BLEU ko-mecab", "{:.2f}".format),
    "bleu_no_unk": ("BLEU no UNK", "{:.2f}".format),
    "pieces": ("target pieces", "{:,.0f}".format),
    "tokens_per_sentence": ("tokens a sentence", "{:.1f}".format),
    "unknown": ("<unk> in references", "{:.2%}".format),
}
"""Title and number format of each column, by its name in `ComparedRun`."""

_WHERE_ROWS_DIFFER = ("bleu_morphemes", "bleu_no_unk", "pieces", "tokens_per_sentence", "unknown")


def rows(runs: Sequence[ComparedRun]) -> list[ComparedRecipe]:
    """Return a row for each recipe, in the order of their first runs."""
    of: dict[str, list[ComparedRun]] = {}
    for run in runs:
        of.setdefault(run.recipe, []).append(run)
    return [ComparedRecipe(recipe=recipe, measures=_measures(own), runs=own) for recipe, own in of.items()]


def _measures(runs: Sequence[ComparedRun]) -> dict[str, Spread]:
    measures = {}
    for name in MEASURES:
        values = [value for run in runs if (value := getattr(run, name)) is not None]
        if values:
            measures[name] = spread_of(values)
    return measures


def spread_of(values: Sequence[float]) -> Spread:
    """Return the mean and deviation of at least one value."""
    return Spread(mean=mean(values), deviation=stdev(values) if len(values) > 1 else None)


def main_table(table: Sequence[ComparedRecipe]) -> list[list[str]]:
    """Return the titles, and a row for each recipe: measures, exported weights, and number of runs or failures.

    Measures of the text, and measures of some languages only, are included only if the rows differ in them.
    """
    names = [name for name in MEASURES if name not in _WHERE_ROWS_DIFFER or _differ(name, table)]
    lines = [["recipe", *(MEASURES[name][0] for name in names), "weights", "runs"]]
    for row in table:
        spreads = [(row.measures.get(name), MEASURES[name][1]) for name in names]
        runs = f"{row.failed} of {len(row.runs)} failed" if row.failed else str(len(row.runs))
        measures = (shown(spread, written) if spread else "-" for spread, written in spreads)
        lines.append([row.recipe, *measures, _weights(row), runs])
    return lines


def _weights(row: ComparedRecipe) -> str:
    """Return the exported weights, with counts if the seeds differ."""
    found = Counter(run.weights for run in row.runs if run.weights)
    if len(found) < 2:
        return "".join(found) or "-"
    return ", ".join(f"{weights} ({count})" for weights, count in found.most_common())


def _differ(name: str, table: Sequence[ComparedRecipe]) -> bool:
    return len({row.measures[name].mean for row in table if name in row.measures}) > 1


def shown(spread: Spread, written: Callable[[float], str]) -> str:
    """Return the mean, with the deviation if there is one."""
    mean = written(spread.mean)
    return f"{mean} ± {written(spread.deviation)}" if spread.deviation else mean


def tables(table: Sequence[ComparedRecipe]) -> list[list[list[str]]]:
    """Return the tables that have rows: the measures, BLEU by source length, and the Pareto front."""
    return [lines for lines in (main_table(table), by_length(table), pareto_table(points_of(table))) if lines]


def points_of(table: Sequence[ComparedRecipe]) -> list[Point]:
    """Return quality, speed and size of all models, as far as they were measured."""
    return [point for row in table for run in row.runs for point in run.points]


def by_length(table: Sequence[ComparedRecipe]) -> list[list[str]]:
    """Return BLEU by source length (after Bahdanau et al. 2015, figure 2): the titles, and a row for each recipe.

    Return an empty list if no run was evaluated. A recipe with another test set than the first has dashes.
    """
    buckets, scores = length_scores(table)
    if not buckets:
        return []
    lines = [[f"BLEU by {buckets[0].unit} of the source", *(f"{each.shortest}-{each.longest}" for each in buckets)]]
    for row in table:
        lines.append([row.recipe, *(shown(spread, "{:.1f}".format) for spread in scores.get(row.recipe, []))])
        lines[-1] += ["-"] * (len(lines[0]) - len(lines[-1]))
    return lines


def length_scores(table: Sequence[ComparedRecipe]) -> tuple[list[LengthBucket], dict[str, list[Spread]]]:
    """Return the length buckets of the first run that has any, and the BLEU in each bucket by recipe.

    Runs with other buckets are ignored.
    """
    buckets = next((run.by_length for row in table for run in row.runs if run.by_length), [])
    places = [*map(_place, buckets)]
    scores = {}
    for row in table:
        if found := [run.by_length for run in row.runs if run.by_length and [*map(_place, run.by_length)] == places]:
            same = zip(*found, strict=True)
            scores[row.recipe] = [spread_of([bucket.bleu for bucket in of_seeds]) for of_seeds in same]
    return buckets, scores


def _place(bucket: LengthBucket) -> tuple[str, int, int]:
    return bucket.test_set, bucket.shortest, bucket.longest


def markdown(table: Sequence[ComparedRecipe]) -> str:
    """Return the tables, with notes on their runs, as Markdown."""
    lines = [line for one in tables(table) for line in (*_markdown(one), "")]
    return "\n".join([*lines, *(f"- {plain(note)}" for note in notes(table))])


def _markdown(lines: Sequence[Sequence[str]]) -> list[str]:
    heading, _, *cells = table_of(lines[0], lines[1:]).splitlines()
    return [heading, f"| {' | '.join(['---', *['---:'] * (len(lines[0]) - 1)])} |", *cells]


def notes(table: Sequence[ComparedRecipe]) -> list[str]:
    """Return the runs behind the rows with their errors, and how the scores were computed."""
    runs = [run for row in table for run in row.runs]
    lines = [f"{run.recipe}, seed {run.seed}: {run.run_id}" + (f": {run.error}" if run.error else "") for run in runs]
    lines += dict.fromkeys(signature for run in runs for signature in run.signatures)
    lines.append(
        "Perplexity is per token of the dev set, so it compares only rows with the same tokenizer. Hours are hours of "
        "training."
    )
    return lines
