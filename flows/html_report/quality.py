"""Report sections about quality: verdict, scores beside the champion's, BLEU by length, and translations."""

from collections.abc import Sequence
from typing import Any

import polars

from flows.html_report.blocks import Block, Charts, Marked, Run, Section, Sentences, Table, Text, duration, number
from flows.html_report.charts import curves
from flows.html_report.differences import with_differences
from flows.registry import verdicts
from nmt_core.config import PipelineConfig
from nmt_core.errors import counted
from nmt_core.evaluate.sentences import read_sentences
from nmt_core.evaluate.verdict import Verdict, interval
from nmt_core.judges.impartial import partial_judges

_SAMPLES = 20
_HARDEST = 10
_HARDEST_OF_OTHERS = 5
_LEAST_SURE = 5
_SEARCHED = 500
_STEEP = 0.7

CHALLENGER, CHAMPION = "challenger", "champion"


def verdict(run: Run) -> Section:
    """Show if the model became the champion, and the checks that decided it."""
    model = run.summary.model
    if model is None:
        return Section("Verdict", [run.missing("register")])
    message = f"{model.name} version {model.version} ({', '.join(model.aliases) or 'no alias'}): {model.verdict}."
    return Section("Verdict", [Text(message), *(_checks(model.gate) if model.gate else [])])


def _checks(found: Verdict) -> list[Block]:
    if not found.checks:
        return []
    columns: Sequence[str] = ["Check", *verdicts.columns(found)[1:], "Reason"]
    rows = [
        [
            check.name,
            "passed" if check.passed else "FAILED",
            number(check.champion),
            number(check.challenger),
            number(check.difference),
            "" if check.low is None or check.high is None else interval(check.low, check.high),
            number(check.p_value, 3),
            check.why,
        ]
        for check in found.checks
    ]
    used = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    cells = [[row[place] for place in used] for row in rows]
    return [Table([columns[place] for place in used], cells, is_stacked=True)]


def scores(run: Run) -> Section:
    """Show every score with its confidence interval and signature, beside the champion's."""
    report = run.report("evaluate")
    if report is None:
        return Section("Scores", [run.missing("evaluate")])
    theirs = {(row["test_set"], row["metric"]): row for row in _of_champions(run, "scores", report)}
    metrics = run.config.get("evaluate", {}).get("metrics", ())
    lower = {"TER", *(metric["name"] for metric in metrics if metric.get("lower_is_better"))}
    rows = []
    for score in report["scores"]:
        champion = theirs.get((score["test_set"], score["metric"]))
        same = champion if champion and champion["signature"] == score["signature"] else None
        rows.append(
            [score["test_set"], _metric(score["metric"], lower), number(score["score"]), _interval(score)]
            + ([number(same["score"]) if same else "", _interval(same or {})] if theirs else [])
            + [score["signature"]]
        )
    columns = ["Test set", "Metric", "Score", "95% interval"]
    columns += ["Champion's score", "95% interval"] if theirs else []
    table = Table([*columns, "Signature"], rows, is_stacked=True)
    blocks = [
        *_about_the_champion(run),
        *_partial(run),
        *_not_judged(report),
        table,
        *_suites(report),
        *_not_scored(report),
    ]
    return Section("Scores", blocks)


def _partial(run: Run) -> list[Block]:
    """Return a warning for each metric that favours the model."""
    return [Text(f"Warning: {sentence}.") for sentence in partial_judges(PipelineConfig.model_validate(run.config))]


def _not_judged(report: dict[str, Any]) -> list[Block]:
    """Return a warning if the judge that chooses among candidates failed on some sentences."""
    count = report.get("not_judged", 0)
    text = (
        f"Warning: the judge of search.judge did not choose for {counted(count, 'sentence')}. The log has the reason."
    )
    return [Text(text)] if count else []


def _suites(report: dict[str, Any]) -> list[Block]:
    """Return a table of the suites: their sizes, and chrF with and without the change that their rules make."""
    rows = [
        [
            row["suite"],
            f"{row['sentences']:,} of {row['total']:,}",
            number(row["chrf"]),
            number(row["chrf_unchanged"]),
            row["not_scored"],
        ]
        for row in report.get("suites", [])
    ]
    about = Text("Suites are made from the main test set by rules. Unchanged: the same sentences before the change.")
    columns = ["Suite", "Sentences", "chrF", "chrF unchanged", "Not scored because"]
    used = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    cells = [[row[place] for place in used] for row in rows]
    return [about, Table([columns[place] for place in used], cells, is_stacked=True)] if rows else []


def _metric(name: str, lower: set[str]) -> str:
    """Return the name of a metric, with a note if a lower score is better."""
    return f"{name} (lower is better)" if name in lower else name


def _not_scored(report: dict[str, Any]) -> list[Block]:
    """Return a table of the metrics that were left out, with their reasons."""
    rows = [[name, reason] for name, reason in report.get("not_scored", {}).items()]
    return [Text("These metrics were left out:"), Table(["Metric", "Reason"], rows, is_stacked=True)] if rows else []


def rounds(run: Run) -> Section:
    """Show the models of a run with rounds, and what each round brought in each direction."""
    models = [
        [str(row.round), row.direction, row.model or "not registered", duration(row.seconds), row.verdict]
        for row in run.summary.rounds
    ]
    if run.summary.status != "finished":
        models[-1][-1] = f"this run: {run.summary.status}"
    by_score: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in run.summary.rounds:
        for score in row.scores:
            by_score.setdefault((row.direction, score.test_set, score.metric), {})[row.round] = score.score
    numbers = sorted({row.round for row in run.summary.rounds})
    scores = [[*key, *(_with_gain(found, each) for each in numbers)] for key, found in by_score.items()]
    about = "Each model made synthetic text for the next one. In parentheses: the gain over the round before."
    columns = ["Direction", "Test set", "Metric", *(f"Round {each}" for each in numbers)]
    table_of_models = Table(["Round", "Direction", "Model", "Time", "Verdict"], models, is_stacked=True)
    return Section("Rounds", [Text(about), Table(columns, scores), table_of_models])


def _with_gain(by_round: dict[int, float], round_number: int) -> str:
    """Return the score of a round, with its gain over the round before if there is one."""
    if round_number not in by_round:
        return ""
    score, before = by_round[round_number], by_round.get(round_number - 1)
    return number(score) + (f" ({score - before:+.2f})" if before is not None else "")


def _interval(score: dict[str, Any]) -> str:
    low, high = score.get("low"), score.get("high")
    return "" if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _about_the_champion(run: Run) -> list[Block]:
    own, pairs = run.summary.champions_of_pairs, run.config.get("languages", {}).get("pairs", ())
    champions = [(f" for {pair}", champion) for pair, champion in own.items()]
    if run.summary.champion and (not own or own.keys() < set(pairs)):
        champions.append((" for all other pairs" if own else "", run.summary.champion))
    if not champions:
        return [Text("There was no champion to compare with.")] if run.summary.model else []
    return [
        Text(
            f"The champion{of_pair} was version {champion.version} when this model was registered."
            if run.evaluation_of(champion)
            else f"The champion{of_pair} was version {champion.version}. Its translations are no longer in the store."
        )
        for of_pair, champion in champions
    ]


def _of_champions(run: Run, field: str, report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a field of the evaluation of each test set's champion."""
    rows = []
    for test_set in dict.fromkeys(row["test_set"] for row in report.get(field, [])):
        champion = run.champion_of(test_set)
        found = champion.report().get(field, []) if champion else []
        rows += [row for row in found if row["test_set"] == test_set]
    return rows


def by_length(run: Run) -> Section:
    """Show the BLEU of both models over the length of the source (after Bahdanau et al. 2015, figure 2)."""
    title = "BLEU by sentence length"
    report = run.report("evaluate")
    if report is None:
        return Section(title, [run.missing("evaluate")])
    ours = _points(report.get("by_length", []))
    theirs = _points(_of_champions(run, "by_length", report))
    drawings = []
    for (test_set, unit), points in ours.items():
        series = {CHALLENGER: points}
        others = theirs.get((test_set, unit), [])
        if [x for x, _ in others] == [x for x, _ in points]:  # the same sentences, in the same buckets
            series[CHAMPION] = others
        every = [bleu for curve in series.values() for _, bleu in curve]
        is_steep = min(every) < _STEEP * max(every)  # otherwise a scale from 0 would hide the difference
        title_of_x = f"mean source length, {unit}"
        drawings.append(curves(f"BLEU, {test_set}", series, title_of_x, from_zero=is_steep))
    rows = [
        [
            row["test_set"],
            _length(row),
            f"{row['sentences']:,}",
            number(row["bleu"]),
        ]
        for row in report.get("by_length", [])
    ]
    width = run.config["evaluate"].get("length_bucket", 0)
    size = f"A group is {width} words wide." if width else "All groups are of about the same size."
    explained = f"Each point is the BLEU of a group of sentences, at their mean length. {size}"
    return Section(title, [Text(explained), Charts(drawings), Table(["Test set", "Length", "Sentences", "BLEU"], rows)])


def _length(row: dict[str, Any]) -> str:
    shortest, longest = row["shortest"], row["longest"]
    return f"{shortest} {row['unit']}" if shortest == longest else f"{shortest} to {longest} {row['unit']}"


def _points(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        found.setdefault((row["test_set"], row["unit"]), []).append((row["mean"], row["bleu"]))
    return found


def translations(run: Run) -> Section:
    """Show translations: evenly spaced samples, the hardest ones, and those with the lowest model score."""
    title = "Translations"
    report, artifact = run.report("evaluate"), run.artifact("evaluate")
    if report is None or artifact is None:
        return Section(title, [run.missing("evaluate")])
    rows = main_sentences(run)
    if rows is None:
        return Section(title, [Text("An earlier version of nmt-pipeline made this evaluation, and kept no sentences.")])
    places = [place * rows.height // _SAMPLES for place in range(_SAMPLES)] if rows.height > _SAMPLES else None
    sure = rows.with_columns(per_token=polars.col("model_score") / polars.col("tokens").clip(1))
    about = "Marked words are not in the reference, or, in the reference, not in the new model's translation."
    samples, hardest = rows[places] if places else rows, rows.sort("chrf").head(_HARDEST)
    least_sure = _items(sure.sort("per_token", nulls_last=True).head(_LEAST_SURE))
    return Section(
        title,
        [
            Text(about),
            Sentences("Evenly spaced samples of the main test set", _items(samples), is_open=True),
            Sentences("Hardest sentences: lowest chrF", _items(hardest), is_open=True),
            Sentences("Least certain translations: lowest model score per token", least_sure),
            _all_of(rows),
            *_hardest_of_others(run),
        ],
    )


def _hardest_of_others(run: Run) -> list[Sentences]:
    """Return the hardest sentences of each test set but the main one and the suites that are made from them."""
    report = run.report("evaluate") or {"scores": []}
    suites = {row["suite"] for row in report.get("suites", [])}
    names = dict.fromkeys(score["test_set"] for score in report["scores"] if score["test_set"] not in suites)
    found = [(name, _sentences(run, name)) for name in list(names)[1:]]
    return [
        Sentences(f"Hardest sentences of {name}: lowest chrF", _items(rows.sort("chrf").head(_HARDEST_OF_OTHERS)))
        for name, rows in found
        if rows is not None
    ]


def _all_of(rows: polars.DataFrame) -> Sentences:
    """Return the first sentences of the main test set, to search in."""
    shown = rows.head(_SEARCHED)
    which = f"all {rows.height:,}" if shown.height == rows.height else f"the first {shown.height:,} of {rows.height:,}"
    return Sentences(f"Search in {which} sentences", _items(shown), is_searched=True)


def main_sentences(run: Run) -> polars.DataFrame | None:
    """Return the rows of `read_sentences` for the main test set.

    The column `champion` is added: the champion's translation, or null. Return None if there are no rows.
    """
    report = run.report("evaluate")
    return _sentences(run, report["scores"][0]["test_set"]) if report and report["scores"] else None


def _sentences(run: Run, name: str) -> polars.DataFrame | None:
    artifact = run.artifact("evaluate")
    rows = read_sentences(artifact.path, name) if artifact else None
    if rows is None:
        return None
    champion = run.champion_of(name)
    theirs = read_sentences(champion.path, name) if champion else None
    text = ["source", "reference"]
    if theirs is None or not theirs.select(text).equals(rows.select(text)):  # a different test set with the same name
        return rows.with_columns(champion=polars.lit(None, polars.String))
    return rows.with_columns(champion=theirs["hypothesis"])


def _items(rows: polars.DataFrame) -> list[tuple[str, list[tuple[str, str | Marked]]]]:
    """Return each sentence with its translations, and the words marked in which the new model and the reference differ.

    The champion's words are marked in which it differs from the reference.
    """
    items = []
    for row in rows.iter_rows(named=True):
        reference = row["reference"]
        parts: list[tuple[str, str | Marked]] = [("source", row["source"])]
        parts.append(("reference", with_differences(reference, row["hypothesis"])))
        if row["champion"] == row["hypothesis"]:
            parts.append(("both models", with_differences(row["hypothesis"], reference)))
        else:
            champion = row["champion"]
            parts += [(CHAMPION, with_differences(champion, reference))] if champion is not None else []
            parts.append((CHALLENGER, with_differences(row["hypothesis"], reference)))
        status = "" if row["status"] == "ok" else f", {row['status']}"
        items.append((f"chrF {row['chrf']:.0f}{status}", parts))
    return items
