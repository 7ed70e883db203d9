"""Prefect's database is complete or does not exist, whenever its creation is killed."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.until import patient, until

CREATE = """
from flows.servers.prefect_database import create_database
create_database()
from prefect.server.database import provide_database_interface
print(provide_database_interface().database_config.connection_url)
"""


def creation(file: Path) -> "subprocess.Popen[bytes]":
    url = {"PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{file}", "PREFECT_HOME": str(file.parent)}
    return subprocess.Popen([sys.executable, "-c", CREATE], env=os.environ | url, stdout=subprocess.PIPE)


@pytest.mark.slow
@pytest.mark.cpu(40)
def test_a_creation_that_is_killed_leaves_nothing_that_counts(tmp_path: Path) -> None:
    file, draft = tmp_path / "prefect.db", tmp_path / "prefect.db.partial"
    killed = creation(file)
    until(lambda: (draft.exists() and draft.stat().st_size > 200_000) or killed.poll() is not None, "no draft")
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL, "some of its tables are there, and more were to come"
    assert draft.exists() and not file.exists()
    made = creation(file)
    out, _ = made.communicate(timeout=patient(120))
    assert made.returncode == 0
    assert out.decode().strip() == f"sqlite+aiosqlite:///{file}", "what the same process opens next"
    with closing(sqlite3.connect(file)) as database:
        tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    assert {"flow_run", "deployment", "alembic_version"} <= tables
    before = file.stat().st_mtime_ns
    assert creation(file).wait(timeout=patient(120)) == 0
    assert file.stat().st_mtime_ns == before, "a database that exists is not touched"
    assert list(tmp_path.glob("*.partial*")) == []
