"""Creation of Prefect's SQLite database, all at once.

Prefect creates it by a hundred migrations, which takes seconds. A server that is stopped meanwhile leaves a database
that no later server can open. So the database is created under another name.
"""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from filelock import FileLock
from prefect.server.database.alembic_commands import alembic_upgrade
from prefect.server.database.configurations import AioSqliteConfiguration
from prefect.server.database.dependencies import temporary_database_config
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, temporary_settings
from prefect.utilities.asyncutils import run_sync_in_worker_thread

_SQLITE = "sqlite+aiosqlite:///"


def create_database() -> None:
    """Create the database that Prefect's settings name, unless it exists or is not a file of SQLite."""
    url = PREFECT_API_DATABASE_CONNECTION_URL.value() or ""
    name = url.removeprefix(_SQLITE)
    if name == url or ":memory:" in name or "?" in name:
        return
    file = Path(name)
    draft = file.with_name(f"{file.name}.partial")
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_name(f"{file.name}.lock")):
        if file.exists():
            return
        for rest in file.parent.glob(f"{draft.name}*"):
            rest.unlink()
        url = f"{_SQLITE}{draft}"
        # Prefect keeps the first configuration that it is asked for: the setting alone would hold for the server too
        with (
            temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: url}),
            temporary_database_config(AioSqliteConfiguration(connection_url=url)),
        ):
            asyncio.run(run_sync_in_worker_thread(alembic_upgrade))
        with closing(sqlite3.connect(draft)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # all of it is in the file that is renamed
        draft.rename(file)
