"""Training curves and profiler tables among the artifacts of an MLflow run."""

import logging
from pathlib import Path

from flows.html_report.charts import side_by_side
from flows.html_report.training import read_points, training_charts
from flows.tracking.mlflow_tracker import TrackedRun, Tracker
from nmt_core.train.launch import METRICS, PROFILE

CURVES = "curves.svg"
"""Name of the figure among the artifacts of the MLflow run of `train`."""

_COLUMNS = 3

_log = logging.getLogger(__name__)


def show_training(folder: Path, tracker: Tracker, run: TrackedRun) -> None:
    """Send the curves and profiler tables in the folder of a training to MLflow. Never raises.

    The training may be unfinished, and the folder may have neither.
    """
    try:
        if points := read_points(folder / METRICS):
            figure = side_by_side(training_charts(points), _COLUMNS, "curves of the training")
            tracker.image(run, figure.file(), CURVES)
        for table in sorted((folder / PROFILE).glob("*.txt")):
            tracker.text(run, table.read_text(encoding="utf-8"), f"{PROFILE}/{table.name}")
    except Exception as error:
        _log.warning("%s: the training curves cannot be drawn: %s", folder, error)
