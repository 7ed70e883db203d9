"""How training went: its curves, the schedule of the learning rate, and what it came to."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.html_report.blocks import Charts, Run, Section, Table, Text, duration, number
from flows.html_report.charts import curves
from flows.html_report.svg import Drawing
from nmt_core.train.launch import METRICS
from nmt_core.train.spent import read_spent

_HOUR = 3_600

Points = Sequence[dict[str, Any]]

_PANELS: tuple[tuple[str, dict[str, str]], ...] = (
    ("loss, nats per target token", {"train": "train_loss", "dev": "dev_loss"}),
    ("BLEU and chrF of the dev set", {"BLEU": "dev_bleu", "chrF": "dev_chrf"}),
    ("learning-rate schedule", {"learning rate": "learning_rate"}),
    ("gradient norm, before clipping", {"gradient norm": "gradient_norm"}),
    ("target tokens per second", {"tokens per second": "target_tokens_per_second"}),
)
_FROM_ZERO = {"target tokens per second", "learning-rate schedule"}


def read_points(file: Path) -> list[dict[str, Any]]:
    """The points of the curves; none if the file is not there. The last line may be torn: the process was killed."""
    if not file.exists():
        return []
    lines = file.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def training_charts(points: Points) -> list[Drawing]:
    """Losses, scores of the dev set, learning rate, gradient norm and speed over updates, as far as told."""
    charts = []
    for title, names in _PANELS:
        series = {
            label: [(point["update"], point[name]) for point in points if name in point]
            for label, name in names.items()
        }
        known = {label: curve for label, curve in series.items() if curve}
        if known:
            charts.append(curves(title, known, "update", from_zero=title in _FROM_ZERO))
    return charts


def training(run: Run) -> Section:
    """The curves, also of a training that did not come to its end."""
    artifact, folder = run.artifact("train"), run.unfinished("train")
    place = artifact.path if artifact else folder
    if place is None:
        return Section("Training", [run.missing("train")])
    points = read_points(place / METRICS)
    report = artifact.report() if artifact else {}
    spent = read_spent(place)
    before = [] if artifact else [run.missing("train")]
    rows = [
        ["Sentence pairs", f"{report['items_in']:,}"] if report else [],
        ["Updates", f"{points[-1]['update']:,} of {run.config['train']['max_updates']:,}"] if points else [],
        ["Target tokens learnt from", f"{sum(point.get('target_tokens', 0) for point in points):,.0f}"],
        ["Lowest dev loss, nats per token", number(report.get("best_dev_loss"), 3)] if report else [],
        ["Target tokens per second", f"{report['target_tokens_per_second']:,.0f}"] if report else [],
        ["Share of tokens that are no padding", f"{report['useful_token_share']:.1%}"] if report else [],
        ["Share of the devices' matrix rate", f"{report['model_flop_utilisation']:.1%}"] if report else [],
        ["Updates passed by, for a loss too high", f"{report['updates_passed_by']:,}"] if report else [],
        ["Started from", report["started_from"] or "random weights"] if report else [],
        ["Time, over all attempts", duration(spent.seconds)] if spent.attempts else [],
        ["GPU hours, over all attempts", number(spent.gpu_seconds / _HOUR, 3)] if spent.gpu_seconds else [],
        ["CPU hours, over all attempts", number(spent.cpu_seconds / _HOUR, 3)] if spent.attempts else [],
        ["Attempts", f"{spent.attempts:,}"] if spent.attempts else [],
    ]
    explained = Text("One point for each 25 updates; dev loss and scores at each validation.")
    table = Table(["Measure", "Value"], [row for row in rows if row])
    return Section("Training", [*before, explained, Charts(training_charts(points)), table])
