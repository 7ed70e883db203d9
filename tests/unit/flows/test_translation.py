"""`nmt translate` of files: a job whose totals are in MLflow, with a model whose version is looked up once."""

import io
import shutil
import sys
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.tracking import MlflowClient

from flows.commands.translate import translate
from flows.models import model_of
from flows.settings import Settings
from flows.tracking import open_database
from flows.translation import EXPERIMENT, Wanted, translate_job
from nmt_core.errors import ConfigError, DataError, ModelError, StageError
from nmt_core.jobs.folder import JobFolder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with MLflow's database, which takes seconds to make."""
    home = tmp_path_factory.mktemp("home")
    open_database(f"sqlite:///{home / 'mlflow.db'}")
    return home


@pytest.fixture
def settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("NMT_HOME", str(home))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    return Settings.load({"NMT_HOME": str(home), "NMT_THREADS": "2"})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_bytes("the cat sees a dog.\n\n\xff\nnow\n".encode("latin-1"))
    return tmp_path / "in.txt"


def run(wanted: Wanted, settings: Settings) -> dict[str, Any]:
    return translate_job(wanted, settings, lambda done, total, note: None, pytest.fail)


def test_the_totals_of_a_job_are_in_mlflow(tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path) -> None:
    report = run(Wanted(str(tiny_bundle), str(source), str(tmp_path / "out.txt"), beam_size=1), settings)
    assert report["lines"] == 4 and report["by_status"]["empty"] == 1 and report["by_status"]["invalid_utf8"] == 1
    client = MlflowClient(settings.mlflow_tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    [logged] = client.search_runs([experiment.experiment_id], "attributes.run_name = 'out.txt'")
    assert logged.info.status == "FINISHED"
    assert logged.data.metrics["by_status.invalid_utf8"] == 1 and logged.data.metrics["lines"] == 4
    assert logged.data.metrics["lines_per_second"] > 0
    assert logged.data.params["model_version"] == report["model_version"]
    again = run(Wanted(str(tiny_bundle), str(source), str(tmp_path / "out.txt"), beam_size=1), settings)
    assert again["reused"] and again["by_status"] == report["by_status"]


@pytest.fixture
def registered(tiny_bundle: Path, settings: Settings, tmp_path: Path) -> MlflowClient:
    """Two versions of a model, which are the same, of which the first is the champion."""
    shutil.copytree(tiny_bundle, tmp_path / "model" / "artifacts" / "bundle")
    (tmp_path / "model" / "MLmodel").write_text("flavors: {}\n")
    client = MlflowClient(settings.mlflow_tracking_uri)
    name = tmp_path.name
    client.create_registered_model(name)
    for _ in range(2):
        client.create_model_version(name, (tmp_path / "model").as_uri())
    client.set_registered_model_alias(name, "champion", "1")
    return client


def test_an_alias_is_looked_up_once_for_a_job(
    registered: MlflowClient, source: Path, settings: Settings, tmp_path: Path
) -> None:
    champion, target = f"models:/{tmp_path.name}@champion", str(tmp_path / "out.txt")
    wanted = Wanted(champion, str(source), target)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("nmt_core.jobs.run.translate_chunk", interrupt)
        run(wanted, settings)
    registered.set_registered_model_alias(tmp_path.name, "champion", "2")
    with pytest.raises(StageError, match=rf"model: {tmp_path.name} version 1, now {tmp_path.name} version 2"):
        run(Wanted(f"models:/{tmp_path.name}/2", str(source), target), settings)
    assert run(wanted, settings)["model_version"] == "1"
    assert run(wanted, settings)["model_version"] == "2", "the next job begins anew"
    plan = JobFolder(f"{target}.job").plan()
    assert plan and plan.asked == champion


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_command_says_how_it_went(
    tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    translate(Wanted(str(tiny_bundle), str(source), str(tmp_path / "out.tsv"), long_lines="cut"))
    said = capfd.readouterr()
    assert said.out == ""
    assert "out.tsv: 4 lines by" in said.err and "lines/s" in said.err
    assert "1 of 4 lines: invalid_utf8" in said.err and "1 of 4 lines: empty" in said.err
    assert len((tmp_path / "out.tsv").read_text().splitlines()) == 5


class Typed(io.BytesIO):
    """A standard stream."""

    def __init__(self, content: bytes = b"", *, is_tty: bool = False) -> None:
        super().__init__(content)
        self.is_tty = is_tty
        self.buffer = self

    def isatty(self) -> bool:
        return self.is_tty


@pytest.mark.parametrize("is_tty", [False, True])
def test_a_pipe_gives_a_line_for_each_line_without_a_job(
    is_tty: bool, tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Typed()
    monkeypatch.setattr(sys, "stdin", Typed(source.read_bytes(), is_tty=is_tty))
    monkeypatch.setattr(sys, "stdout", out)
    translate(Wanted(str(tiny_bundle), "-", "-"))
    lines = out.getvalue().split(b"\n")
    assert len(lines) == 5 and lines[0] and lines[3] and not (lines[1] or lines[2] or lines[4])
    monkeypatch.setattr(sys, "stdin", Typed(source.read_bytes()))
    translate(Wanted(str(tiny_bundle), "-", str(tmp_path / "piped.txt.gz")))
    monkeypatch.setattr(sys, "stdout", again := Typed())
    translate(Wanted(str(tiny_bundle), str(source), "-"))
    assert again.getvalue() == out.getvalue()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.txt", "piped.txt.gz"]


WRONG = [
    ({"target": "nowhere/out.txt"}, DataError, "cannot be written: there is no folder .*nowhere: make it"),
    ({"target": "."}, DataError, "is a folder, but the input is one file: name a file"),
    ({"source": "nowhere.txt"}, DataError, "nowhere.txt: there is no such file"),
    ({"beam_size": 65}, ConfigError, "--beam 65: must be from 1 to 64"),
    ({"long_lines": "fold"}, ConfigError, "--long-lines fold: must be split or cut"),
    (
        {"model": "models:/nobody@champion"},
        ModelError,
        "model models:/nobody@champion: .*`nmt run RECIPE` registers one",
    ),
    ({"model": "."}, ModelError, "no bundle, for it has no config.json"),
]


@pytest.mark.parametrize(("change", "kind", "message"), WRONG, ids=[str(change) for change, _, _ in WRONG])
def test_what_is_wrong_is_said_before_anything_is_made(
    change: dict[str, Any], kind: type[Exception], message: str, tiny_bundle: Path, source: Path, settings: Settings,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    wanted = {"model": str(tiny_bundle), "source": "in.txt", "target": "out.txt"} | change
    with pytest.raises(kind, match=message):
        run(Wanted(**wanted), settings)
    assert [file.name for file in tmp_path.iterdir()] == ["in.txt"]


def test_a_model_in_the_registry_is_known_by_its_number(
    registered: MlflowClient, settings: Settings, tmp_path: Path
) -> None:
    with model_of(f"models:/{tmp_path.name}@champion", settings) as model:
        assert (model.version.name, model.version.version) == (tmp_path.name, "1")
    assert not model.folder.exists(), "a copy for as long as it is needed"
    assert mlflow.get_tracking_uri()
