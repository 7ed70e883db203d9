"""The champion that a new model meets."""

from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from flows.html_report.champion import champion_before
from flows.runs.summary import Champion
from flows.settings import Settings


def test_it_is_another_model_and_may_not_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    uri = Settings.load({"NMT_HOME": str(tmp_path)}).mlflow_tracking_uri
    client = MlflowClient(uri)
    assert champion_before("test", "champion", "3", "4", uri) is None, "no such model"
    client.create_registered_model("test")
    tags = {"nmt.export": "1", "nmt.evaluate": "2"}
    version = client.create_model_version("test", str(tmp_path), tags=tags).version
    assert champion_before("test", "champion", "3", "4", uri) is None, "no champion"
    client.set_registered_model_alias("test", "champion", version)
    assert champion_before("test", "champion", "1", "2", uri) is None, "itself"
    assert champion_before("test", "champion", "3", "4", uri) == Champion(version="1", evaluate="2")
    assert champion_before("test", "champion-en-de", "3", "4", uri) is None, "none of its own"
    client.set_registered_model_alias("test", "champion-en-de", version)
    assert champion_before("test", "champion-en-de", "3", "4", uri) == Champion(version="1", evaluate="2")
