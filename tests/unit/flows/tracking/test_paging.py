"""Searches of MLflow are read to the last page."""

from pathlib import Path

from mlflow.tracking import MlflowClient

from flows.tracking.paging import read_all


def test_all_pages_are_read(mlflow_database: Path, tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    database.write_bytes(mlflow_database.read_bytes())
    client = MlflowClient(f"sqlite:///{database}")
    names = {f"e{number}" for number in range(5)}
    for name in names:
        client.create_experiment(name, tmp_path.as_uri())
    assert len(client.search_experiments(max_results=2)) == 2
    found = read_all(client.search_experiments, max_results=2)
    assert {experiment.name for experiment in found} == names | {"Default"} and len(found) == 6
    assert [one.name for one in read_all(client.search_experiments, filter_string="name = 'e3'")] == ["e3"]
