"""Home whose jobs are in MLflow."""

from pathlib import Path

import pytest

from flows.settings import Settings
from flows.tracking.mlflow_tracker import open_database


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Home with MLflow's database, which takes seconds to make."""
    home = tmp_path_factory.mktemp("home")
    open_database(f"sqlite:///{home / 'mlflow.db'}")
    return home


@pytest.fixture
def settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("NMT_HOME", str(home))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    # MLflow finds models by what was set last in the process, and other tests set the servers of theirs.
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    monkeypatch.setattr("mlflow.tracking._model_registry.utils._registry_uri", None)
    return Settings.load({"NMT_HOME": str(home), "NMT_THREADS": "2"})
