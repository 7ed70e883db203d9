"""A home is a folder like others: it can be moved, copied, backed up and restored."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient
from support.homes import copy, snapshot

from flows.settings import Settings
from flows.settings.relocation import follow, moved
from nmt_core.errors import ConfigError

TRANSLATE = ("translate", "--model", "models:/quickstart@champion", "--input", "text", "--output")


def translated(nmt: Any, output: str) -> tuple[str, str]:
    """Return the champion's translation of a line, and the output of the command."""
    (nmt.home / "text").write_text("the cat sees a dog\n")
    done = nmt(*TRANSLATE[:-1], "--output", output)
    return (nmt.home / output).read_text(), done.stderr


def names_of(home: Path, text: str) -> int:
    """Addresses in MLflow's database that hold a text."""
    columns = {"experiments": "artifact_location", "runs": "artifact_uri", "logged_models": "artifact_location"}
    columns |= {"model_versions": "storage_location", "datasets": "dataset_source", "tags": "value"}
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        counts = [f"select count(*) from {table} where instr({column}, ?)" for table, column in columns.items()]
        return sum(database.execute(count, (text,)).fetchone()[0] for count in counts)


@pytest.mark.slow
@pytest.mark.cpu(60)
def test_a_moved_home_translates_with_its_models(finished: tuple[Any, dict[str, Any]], tmp_path: Path) -> None:
    first, _ = finished
    before, after = tmp_path / "before", tmp_path / "a new place"
    copy(first.home, before)
    before.rename(after)
    nmt = type(first)(after, first.zygote)
    text, said = translated(nmt, "translation")
    assert text.count("\n") == 1 and f"NMT_HOME has moved from {before} to {after}: corrected" in said
    assert not before.exists() and names_of(after, str(before)) == names_of(after, before.as_uri()) == 0
    assert "NMT_HOME has moved" not in nmt("models", "quickstart").stderr


@pytest.mark.slow
@pytest.mark.cpu(60)
def test_a_copy_never_writes_into_the_home_that_it_was_copied_from(
    finished: tuple[Any, dict[str, Any]], prefect_server: Any, tmp_path: Path
) -> None:
    first, summary = finished
    original, backup = tmp_path / "original", tmp_path / "backup"
    copy(first.home, original)
    (original / "servers.json").write_text(json.dumps({"pid": os.getpid(), "prefect": "http://127.0.0.1:9/api"}))
    shutil.copytree(original, backup)
    before = snapshot(original)
    nmt = type(first)(backup, first.zygote, prefect_server)
    run = nmt.run("--set", "search.beam_size=2")
    assert run["model"]["version"] == "2" and not run["model"]["reused"]
    assert {stage["name"] for stage in run["stages"] if not stage["reused"]} == {"evaluate", "register"}
    assert snapshot(original) == before
    assert names_of(backup, str(original)) == 0
    original.rename(tmp_path / "gone")
    text, said = translated(nmt, "translation")
    assert text.count("\n") == 1 and "NMT_HOME has moved" not in said
    assert summary["model"]["version"] == "1"


def home_of(folder: Path, database: Path) -> Settings:
    """A home with a database that names files of it, as a run would have made it."""
    settings = Settings.load({"NMT_HOME": str(folder)})
    folder.mkdir()
    shutil.copyfile(database, settings.own_database)
    client = MlflowClient(settings.mlflow_tracking_uri)
    experiment = client.create_experiment("test", settings.model_files.as_uri())
    elsewhere = client.create_experiment("elsewhere", (folder.parent / f"{folder.name}-of-others").as_uri())
    for each in (experiment, elsewhere):
        client.log_text(client.create_run(each).info.run_id, "text", "file.txt")
    follow(folder, settings.own_database, print)
    return settings


@pytest.mark.parametrize("noted", [True, False], ids=["", "of an earlier version"])
def test_only_addresses_in_the_home_follow_it(
    noted: bool, tmp_path: Path, mlflow_database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = home_of(tmp_path / "with ümlaut", mlflow_database)
    if not noted:
        (settings.home / "place.txt").unlink()
    new = Settings.load({"NMT_HOME": str(tmp_path / "new%20place")})
    settings.home.rename(new.home)
    assert capsys.readouterr().out == ""
    follow(new.home, new.own_database, print)
    assert "2 addresses" in capsys.readouterr().out
    client = MlflowClient(new.mlflow_tracking_uri)
    for name, place in (("test", new.model_files), ("elsewhere", tmp_path / "with ümlaut-of-others")):
        experiment = client.get_experiment_by_name(name)
        (run,) = client.search_runs([experiment.experiment_id])
        assert experiment.artifact_location == place.as_uri()
        assert Path(client.download_artifacts(run.info.run_id, "file.txt")).read_text() == "text"


def test_another_name_of_the_same_folder_is_no_other_place(
    tmp_path: Path, mlflow_database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = home_of(tmp_path / "home", mlflow_database)
    before = names_of(settings.home, str(settings.home)), (settings.home / "place.txt").read_text()
    assert before[0] > 0
    (tmp_path / "link").symlink_to(settings.home)
    follow(tmp_path / "link", tmp_path / "link" / "mlflow.db", print)
    assert capsys.readouterr().out == ""
    assert before == (names_of(settings.home, str(settings.home)), (settings.home / "place.txt").read_text())


def test_a_database_that_cannot_be_corrected_ends_the_command(tmp_path: Path, mlflow_database: Path) -> None:
    settings = home_of(tmp_path / "home", mlflow_database)
    new = tmp_path / "new"
    settings.home.rename(new)
    (new / "mlflow.db").write_bytes(b"no database" * 100)
    with pytest.raises(ConfigError, match=r"was moved or copied from .*home, and .*cannot be corrected"):
        follow(new, new / "mlflow.db", print)
    assert (new / "place.txt").read_text() == str(settings.home), "the next start tries again"


def test_text_that_is_no_address_of_the_home_stays() -> None:
    before, home = Path("/a/b"), Path("/c")
    for text in ("/a/bc/file", "about /a/b", "models:/m-1", '{"x": "see /a/b"}', "file:///a/b2/x"):
        assert moved(text, before, home) == text
    assert moved('{"uri": "/a/b/x"}', before, home) == '{"uri": "/c/x"}'
    assert moved("file:///a/b/x", before, home) == "file:///c/x" and moved("/a/b", before, home) == "/c"
