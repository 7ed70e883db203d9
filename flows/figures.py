"""What MLflow shows of a training beside its numbers: a figure of the curves, and the tables of the profiler."""

import io
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.tracking import TrackedRun, Tracker
from nmt_core.train.launch import METRICS, PROFILE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = "curves.png"
"""The figure, among the artifacts of the run of `train`."""

_LOSSES = {"train_loss": "train", "dev_loss": "dev"}
_SCORES = {"dev_bleu": "BLEU", "dev_chrf": "chrF"}
_PANELS: tuple[tuple[str, dict[str, str]], ...] = (
    ("dev BLEU and chrF", _SCORES),
    ("learning rate", {"learning_rate": ""}),
    ("gradient norm, before clipping", {"gradient_norm": ""}),
    ("target tokens per second", {"target_tokens_per_second": ""}),
)

_POINTS_MARKED = 50  # of fewer one sees each

Points = Sequence[dict[str, Any]]

_log = logging.getLogger(__name__)


def show_training(folder: Path, tracker: Tracker, run: TrackedRun) -> None:
    """Hand over what a training has left in its folder, if one has, whether it came to its end or not. Never raises."""
    try:
        if points := read_points(folder / METRICS):
            tracker.image(run, figure_of(points), CURVES)
        for table in sorted((folder / PROFILE).glob("*.txt")):
            tracker.text(run, table.read_text(encoding="utf-8"), f"{PROFILE}/{table.name}")
    except Exception as error:
        _log.warning("the curves of %s cannot be drawn: %s", folder, error)


def read_points(file: Path) -> list[dict[str, Any]]:
    """The points of the curves; none if the file is not there. The last line may be torn: the process was killed."""
    if not file.exists():
        return []
    lines = file.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def figure_of(points: Points) -> bytes:
    """A PNG over updates: loss on top; below it scores, learning rate, gradient norm and speed, as far as told."""
    from matplotlib.figure import Figure  # half a second, for those who train; pyplot would keep it, and look for a GUI

    panels = [(title, names) for title, names in _PANELS if any(name in point for point in points for name in names)]
    figure = Figure(figsize=(12, 8), layout="constrained")
    grid = figure.add_gridspec(2, max(1, len(panels)), height_ratios=(3, 2))
    losses = figure.add_subplot(grid[0, :])
    _draw(losses, "loss, nats per target token", _LOSSES, points)
    for column, (title, names) in enumerate(panels):
        _draw(figure.add_subplot(grid[1, column], sharex=losses), title, names, points)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _draw(axes: "Axes", title: str, names: dict[str, str], points: Points) -> None:
    for name, label in names.items():
        curve = [(point["update"], point[name]) for point in points if name in point]
        if curve:
            marker = "." if len(curve) <= _POINTS_MARKED else ""
            axes.plot(*zip(*curve, strict=True), label=label, linewidth=1.2, marker=marker)
    axes.set_title(title, fontsize="medium")
    axes.set_xlabel("update")
    axes.grid(alpha=0.3)
    axes.ticklabel_format(axis="y", scilimits=(-3, 5))
    if any(names.values()):
        axes.legend()
