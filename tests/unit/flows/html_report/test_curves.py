"""The figure of a training's curves, as MLflow gets it."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from mlflow.tracking import MlflowClient
from support.until import patient

from flows.html_report.curves import show_training
from flows.settings import Settings
from flows.tracking.mlflow_tracker import Tracker


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


def test_mlflow_gets_the_figure_and_the_tables_of_the_profiler(tmp_path: Path, monkeypatch: Any) -> None:
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
    tracker.close(timeout=patient(30))

    client = MlflowClient(settings.mlflow_tracking_uri)
    assert [client.list_artifacts(run.id) for run in (none, bad)] == [[], []]
    assert {file.path for file in client.list_artifacts(whole.id)} == {"curves.svg", "profile"}
    assert [file.path for file in client.list_artifacts(whole.id, "profile")] == ["profile/0.txt"]
    kept = Path(client.download_artifacts(whole.id, "curves.svg"))
    figure = ElementTree.parse(kept).getroot()
    titles = [text.text for text in figure.iter("{http://www.w3.org/2000/svg}text") if text.get("class") == "title"]
    assert titles == [
        "loss, nats per target token",
        "learning-rate schedule",
        "gradient norm, before clipping",
        "target tokens per second",
    ]
