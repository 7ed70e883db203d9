"""Report section about training: its curves, the learning-rate schedule, and its results."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.html_report.blocks import Charts, Run, Section, Table, Text, duration, number
from flows.html_report.charts import curves
from flows.html_report.schedule import schedule_chart
from flows.html_report.svg import Drawing
from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.config.budget import SECONDS_PER_HOUR
from nmt_core.train.launch import METRICS
from nmt_core.train.spent import read_spent

Points = Sequence[dict[str, Any]]

_PANELS: tuple[tuple[str, dict[str, str]], ...] = (
    ("loss, nats per target token", {"train": "train_loss", "dev": "dev_loss"}),
    ("BLEU and chrF on the dev set", {"BLEU": "dev_bleu", "chrF": "dev_chrf"}),
    ("train.dev_metric on the dev set", {"dev metric": "dev_metric"}),
    ("learning-rate schedule", {"learning rate": "learning_rate"}),
    ("gradient norm, before clipping", {"gradient norm": "gradient_norm"}),
    ("target tokens per second", {"tokens per second": "target_tokens_per_second"}),
)
_FROM_ZERO = {"target tokens per second", "learning-rate schedule"}


def read_points(file: Path) -> list[dict[str, Any]]:
    """Return the points of the curves, or an empty list if the file does not exist.

    The last line may be incomplete if the process was killed. It is ignored.
    """
    if not file.exists():
        return []
    lines = file.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def training_charts(points: Points) -> list[Drawing]:
    """Draw the curves that the points have values for: losses, dev scores, learning rate, gradient norm and speed."""
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
    """Show the curves and results of training, even if it did not finish."""
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
        ["Target tokens trained on", f"{sum(point.get('target_tokens', 0) for point in points):,.0f}"],
        ["Lowest dev loss, nats per token", number(report.get("best_dev_loss"), 3)] if report else [],
        ["Target tokens per second", f"{report['target_tokens_per_second']:,.0f}"] if report else [],
        ["Share of non-padding tokens", f"{report['useful_token_share']:.1%}"] if report else [],
        ["Model FLOPs utilisation (MFU)", f"{report['model_flop_utilisation']:.1%}"] if report else [],
        ["Floating-point operations", _operations(report)] if report else [],
        ["Updates undone by the watchdog", f"{report['updates_passed_by']:,}"] if report else [],
        ["Initial weights", report["started_from"] or "random"] if report else [],
        ["Time of all attempts", duration(spent.seconds)] if spent.attempts else [],
        ["GPU hours of all attempts", number(spent.gpu_seconds / SECONDS_PER_HOUR, 3)] if spent.gpu_seconds else [],
        ["CPU hours of all attempts", number(spent.cpu_seconds / SECONDS_PER_HOUR, 3)] if spent.attempts else [],
        ["Attempts", f"{spent.attempts:,}"] if spent.attempts else [],
    ]
    explained = Text(
        "The curves have one point every 25 updates, and the dev loss and dev scores one at each validation."
    )
    tables = [Table(["Measure", "Value"], [row for row in rows if row])]
    if phases := report.get("phases"):
        begun = [[phase["phase"], f"{phase['began_after']:,}"] for phase in phases]
        tables.append(Table(["Phase", "Updates before it"], begun, "Phases of the curriculum"))
    train, model = TrainConfig.model_validate(run.config["train"]), ModelConfig.model_validate(run.config["model"])
    charts = [*training_charts(points), schedule_chart(train, model)]
    return Section("Training", [*before, explained, Charts(charts), *tables])


def _operations(report: dict[str, Any]) -> str:
    count = report.get("floating_point_operations", 0.0)
    return f"{count:.2e}" if count else "not counted"
