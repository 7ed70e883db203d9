"""Make homes that look used for years, in seconds: artifacts, runs and registered models, all of them valid."""

import json
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from nmt_core.config import PipelineConfig
from nmt_core.recipes.recipe import load_recipe
from nmt_core.stages.table import plan
from nmt_core.store.artifacts import MANIFEST, REPORT, Manifest, Store, describe_outputs, now
from nmt_core.store.library_versions import versions

_FILES = 12  # of an artifact: as many as trainings and exports have
_OF_A_RUN = ("tags", "params", "metrics", "latest_metrics")
_OF_A_MODEL = {
    "registered_models": "name",
    "registered_model_tags": "name",
    "registered_model_aliases": "name",
    "model_versions": "name",
    "model_version_tags": "name",
}


def fill_with_artifacts(home: Path, count: int, recipe: str = "quickstart") -> None:
    """Put this many artifacts of other recipes into a home: chains of all stages, each chain with its own seed."""
    store, nothing = Store(home / "artifacts"), Store(home / "nothing")
    made = sum(1 for _ in store.published())
    base = load_recipe(recipe).model_dump()
    while made < count:
        values = base | {"name": f"recipe-{made % 97}", "corpus": {"toy": {"seed": 1_000 + made}}}
        for step in plan(PipelineConfig.model_validate(values), nothing)[: count - made]:
            folder = store.path(step.stage.name, step.fingerprint)
            folder.mkdir(parents=True)
            for number in range(_FILES):
                (folder / f"part-{number:05}").write_text(f"{made} {number}")
            (folder / REPORT).write_text("{}")
            manifest = Manifest(
                stage=step.stage.name,
                fingerprint=step.fingerprint,
                identity=step.identity,
                recipe=values["name"],
                outputs=describe_outputs(folder),
                versions=versions(),
                seconds=1,
                host="here",
                created=now(),
            )
            (folder / MANIFEST).write_text(manifest.model_dump_json(indent=1))
            made += 1


def fill_with_runs(home: Path, models: int, runs: int) -> None:
    """Copy the one finished run of a home, and the model that it registered, this many times, row by row of MLflow."""
    (summary,) = home.glob("runs/*/summary.json")
    values = json.loads(summary.read_text())
    for number in range(runs):
        folder = home / "runs" / f"20200101-000000-{values['recipe']}-{number:04x}"
        shutil.copytree(summary.parent, folder)
        (folder / summary.name).write_text(json.dumps(values | {"run_id": folder.name}))
    with closing(sqlite3.connect(home / "mlflow.db")) as database, database:
        _copy_runs(database, runs)
        for number in range(models):
            for table, column in _OF_A_MODEL.items():
                _copy(database, table, {column: f"{column} || '-{number:04}'"}, f"{column} not like '%-____'")


def _copy_runs(database: sqlite3.Connection, count: int) -> None:
    """Copy every run with its tags, parameters and curves. Children stay with the copy of their parent."""
    database.execute("create temp table first as select run_uuid from runs")
    for number in range(count):
        new = f"substr(run_uuid, 1, 24) || '{number:08x}'"
        ours = "run_uuid in (select run_uuid from first)"
        _copy(database, "runs", {"run_uuid": new}, ours)
        for table in _OF_A_RUN:
            changes = {"run_uuid": new}
            if table == "tags":
                parent = (
                    f"case key when 'mlflow.parentRunId' then substr(value, 1, 24) || '{number:08x}' else value end"
                )
                changes["value"] = parent
            _copy(database, table, changes, ours)


def _copy(database: sqlite3.Connection, table: str, changes: Mapping[str, str], where: str) -> None:
    """Copy the rows of a table, with other expressions for some of its columns."""
    columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
    values = ", ".join(changes.get(column, f'"{column}"') for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    database.execute(f"insert into {table} ({names}) select {values} from {table} where {where}")


def counts(home: Path) -> dict[str, Any]:
    """Return the numbers of runs, models and versions in MLflow."""
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        tables = ("runs", "registered_models", "model_versions")
        return {table: database.execute(f"select count(*) from {table}").fetchone()[0] for table in tables}
