"""The figure of a training's curves: looked at as a picture, for that is what it is."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from mlflow.tracking import MlflowClient

from flows.figures import figure_of, read_points, show_training
from flows.settings import Settings
from flows.tracking import Tracker

BLUE, ORANGE = (0x1F, 0x77, 0xB4), (0xFF, 0x7F, 0x0E)


def training(updates: int) -> list[dict[str, Any]]:
    return [
        {
            "update": update,
            "train_loss": 2 + 5 / update,
            "learning_rate": 1e-3 * min(1, update / 400),
            "gradient_norm": 1.5,
            "target_tokens_per_second": 9_000.0,
        }
        for update in range(25, updates + 25, 25)
    ]


def validations(updates: int, **scores: float) -> list[dict[str, Any]]:
    return [{"update": update, "dev_loss": 3.0, **scores} for update in range(100, updates + 100, 100)]


def picture(points: list[dict[str, Any]]) -> np.ndarray[Any, Any]:
    """Red, green and blue of each pixel, 0 to 255."""
    shown = matplotlib.image.imread(io.BytesIO(figure_of(points)), format="png")
    return (shown[:, :, :3] * 255).round().astype(int)


def panels(shown: np.ndarray[Any, Any], colour: tuple[int, int, int]) -> list[bool]:
    """Whether a colour is drawn with above, and below in each quarter from the left."""
    is_it = (shown == colour).all(axis=2)
    height, width = is_it.shape
    middle = int(height * 0.57)
    below = [is_it[middle:, part * width // 4 : (part + 1) * width // 4] for part in range(4)]
    return [bool(part.any()) for part in (is_it[:middle], *below)]


def test_every_curve_has_its_place() -> None:
    shown = picture([*training(1_000), *validations(1_000, dev_bleu=30.0, dev_chrf=55.0)])
    assert panels(shown, BLUE) == [True] * 5, "train loss, BLEU, learning rate, gradient norm, speed"
    assert panels(shown, ORANGE) == [True, True, False, False, False], "dev loss and chrF"


def test_points_without_scores_leave_no_empty_place() -> None:
    shown = picture([*training(1_000), *validations(1_000)])
    assert panels(shown, BLUE) == [True] * 5, "three wider ones below"
    assert panels(shown, ORANGE) == [True, False, False, False, False]


@pytest.mark.parametrize("points", [training(25), validations(100), training(25) + validations(100)])
def test_a_training_that_just_began_has_a_figure_too(points: list[dict[str, Any]]) -> None:
    assert panels(picture(points), BLUE)[0] or panels(picture(points), ORANGE)[0]


def test_a_loss_that_is_no_number_leaves_a_gap() -> None:
    points = training(1_000)
    for point in points[20:]:
        point["train_loss"] = float("nan")
    assert panels(picture(points), BLUE)[0]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    assert read_points(file) == []
    lines = "".join(f"{json.dumps(point)}\n" for point in training(100))
    file.write_text(lines[:-5])
    assert read_points(file) == training(75)


def test_mlflow_gets_the_figure_and_the_tables_of_the_profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    folder = tmp_path / "run"
    (folder / "profile").mkdir(parents=True)
    (folder / "profile" / "0.txt").write_text("aten::mm")
    (folder / "profile" / "0.json.gz").write_bytes(b"large")
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(point)}\n" for point in training(100)))
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "metrics.jsonl").write_text("{]\n")

    tracker = Tracker(settings.mlflow_tracking_uri, "figures", settings.model_files, lambda message: None)
    whole, none, bad = (tracker.start(name, {}, {}) for name in ("whole", "none", "bad"))
    show_training(folder, tracker, whole)
    show_training(tmp_path / "nowhere", tracker, none)
    show_training(damaged, tracker, bad)
    tracker.close(timeout=60)

    client = MlflowClient(settings.mlflow_tracking_uri)
    assert [client.list_artifacts(run.id) for run in (none, bad)] == [[], []]
    assert {file.path for file in client.list_artifacts(whole.id)} == {"curves.png", "profile"}
    assert [file.path for file in client.list_artifacts(whole.id, "profile")] == ["profile/0.txt"]
    kept = Path(client.download_artifacts(whole.id, "curves.png")).read_bytes()
    assert kept == figure_of(training(100))


def test_who_does_not_train_does_not_wait_for_the_drawing_library() -> None:
    code = "import sys; import flows.retraining; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
