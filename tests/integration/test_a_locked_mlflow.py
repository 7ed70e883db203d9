"""A database of MLflow that another program has locked when a run starts: the run waits for it, and does not end."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

from support.until import until


def test_a_run_that_starts_while_mlflow_is_locked_logs_it_later(served: Any, recipe: list[str], tmp_path: Path) -> None:
    """MLflow waits five seconds for the lock. It is held until the run has continued without MLflow."""
    log = tmp_path / "log"
    with contextlib.closing(sqlite3.connect(served.home / "mlflow.db", isolation_level=None)) as connection:
        connection.execute("begin exclusive")
        run = served.start("run", *recipe, "--until", "download", log=log)
        until(lambda: "logging later" in log.read_text() or run.poll() is not None, log.read_text)
        assert run.poll() is None, log.read_text()
        connection.execute("rollback")
    until(lambda: run.poll() is not None, log.read_text)
    assert run.returncode == 0, log.read_text()
    assert "is not logged" not in log.read_text()
    stage = "select value from tags t where t.run_uuid = r.run_uuid and t.key = 'nmt.stage'"
    runs = served.select("mlflow.db", f"select ({stage}), status from runs r")
    assert ("download", "FINISHED") in runs and {status for _, status in runs} == {"FINISHED"}, runs
