"""Commands for the operator of a Prefect server, on a real one, and what they print."""

import os
import re
import shutil
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import typer
from mlflow.tracking import MlflowClient
from support.small_forms import without_form

from flows.cli.history import _age, clean_history
from flows.cli.schedules import pause, resume, schedules, undeploy
from flows.deployment.deployments import Pools, table
from flows.deployment.installation import install
from flows.runs.ownership import FLOW_RUN_TAG
from flows.servers import late_runs
from nmt_core.errors import ConfigError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, prefect_api: str, mlflow_database: Path) -> Iterator[Path]:
    """A home with an empty MLflow, whose commands use the Prefect server of the tests."""
    before = dict(os.environ)
    os.environ |= {"NMT_HOME": str(tmp_path / "home"), "PREFECT_API_URL": prefect_api}
    os.environ.pop("MLFLOW_TRACKING_URI", None)  # of a run in this process
    (tmp_path / "home").mkdir()
    shutil.copyfile(mlflow_database, tmp_path / "home" / "mlflow.db")
    yield tmp_path / "home"
    os.environ.clear()
    os.environ.update(before)


def test_a_recipe_is_listed_paused_resumed_and_removed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("{name: operated-by-command, corpus: {toy: {}}, schedule: {cron: 0 3 * * 1, watch: 0 * * * *}}")
    entries = [without_form(entry) for entry in table([str(file)]) if entry.flow.name in {"retrain", "watch"}]
    install(entries, Pools("cpu", ""))

    def row() -> str:
        schedules()
        out = capsys.readouterr().out
        return next((line for line in out.splitlines() if "retrain/operated-by-command" in line), "")

    assert re.search(r"Mondays at 03:00 +UTC +\d{4}-\d\d-\d\d 03:00 +none", row())
    pause(str(file))
    assert "retrain/operated-by-command is paused" in capsys.readouterr().out
    assert "paused" in row()
    resume("operated-by-command")
    assert "runs again: Mondays at 03:00 (UTC)" in capsys.readouterr().out
    undeploy("operated-by-command")
    out = capsys.readouterr().out
    assert "removed retrain/operated-by-command" in out and "removed watch/operated-by-command" in out
    assert "artifacts and registered models of operated-by-command are kept" in out
    assert row() == ""
    with pytest.raises(ConfigError, match=r"'operated-by-command' is not deployed on this server, which has: "):
        pause("operated-by-command")


def test_a_history_is_listed_before_it_is_removed(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    mlflow = MlflowClient(f"sqlite:///{home / 'mlflow.db'}")
    at = int((time.time() - 100 * 86_400) * 1_000)
    run = mlflow.create_run("0", start_time=at, tags={FLOW_RUN_TAG: "unknown"}, run_name="retrain old 02:39").info
    mlflow.set_terminated(run.run_id, "FINISHED", at)
    for dry_run, left in ((True, 1), (False, 0)):
        clean_history(timedelta(days=90), dry_run=dry_run)
        out = capsys.readouterr().out
        assert "MLflow   retrain old 02:39" in out and "1 run of MLflow" in out
        assert ("nothing was changed" in out) is dry_run and ("mlflow gc" in out) is not dry_run
        assert len(mlflow.search_runs(["0"])) == left


@pytest.mark.parametrize(("text", "days"), [("90d", 90), ("12w", 84), ("1d", 1)])
def test_an_age_is_days_or_weeks(text: str, days: int) -> None:
    assert _age(text) == timedelta(days=days)


@pytest.mark.parametrize("text", ["90", "0d", "-1d", "1y", "", "d"])
def test_another_age_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="write days or weeks, such as 90d or 12w"):
        _age(text)


def test_a_worker_begins_without_a_server_as_well(
    capsys: pytest.CaptureFixture[str], free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    late_runs.main([])
    assert capsys.readouterr().err == ""
    away = {PREFECT_API_URL: f"http://127.0.0.1:{free_port}/api", PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings(away):
        late_runs.main([])
    assert "late runs are not skipped: " in capsys.readouterr().err
