"""Artifacts that are still needed are not garbage: here, and in the store that machines share."""

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient
from support.published import identity_like

from flows.cli.artifacts import collect_garbage, pin_artifact, unpin_artifact
from flows.maintenance import gc
from flows.registry.marks import mark_of, marks, write
from flows.registry.models import model_of
from flows.retention.garbage import garbage
from flows.runs.start_from import tag_of
from flows.runs.summary import RegisteredModel, RunSummary, StageSummary
from flows.settings import Settings
from nmt_core.bundle.folder import BUNDLE_FILE
from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError, ModelError
from nmt_core.store.artifacts import Artifact, Manifest, describe_outputs, fingerprint_of, now
from nmt_core.store.shared import Objects

CONFIG = PipelineConfig.model_validate({"name": "test", "corpus": {"toy": {}}})
Put = Callable[..., Artifact]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Empty home, which commands use too."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_DISABLE_TELEMETRY", "PREFECT_HOME", "NMT_STORE"):
        monkeypatch.setenv(name, "")  # so that what `prepare` sets is taken back
    monkeypatch.setenv("NMT_HOME", str(tmp_path / "home"))
    return Settings.load()


@pytest.fixture
def put() -> Put:
    """Publish an artifact named by one digit, made from others."""

    def publish(settings: Settings, name: str, *inputs: Artifact) -> Artifact:
        stage, _, digit = name.partition("/")
        identity = identity_like(stage, digit, {each.stage: each.fingerprint for each in inputs})
        folder = settings.store.partial(stage, fingerprint_of(identity))
        folder.mkdir(parents=True)
        (folder / "data").write_text(name)
        made = Manifest(
            stage=stage,
            fingerprint=fingerprint_of(identity),
            identity=identity,
            recipe="test",
            outputs=describe_outputs(folder),
            versions={},
            seconds=0,
            host="",
            created=now(),
        )
        artifact = settings.store.publish(folder, made)
        settings.store.share(artifact)
        return artifact

    return publish


@pytest.fixture
def register() -> Callable[..., None]:
    """Register a version that was made of artifacts, with or without an alias."""

    def version(settings: Settings, alias: str, *artifacts: Artifact) -> None:
        settings.home.mkdir(exist_ok=True)
        client = MlflowClient(settings.mlflow_tracking_uri)
        if not client.search_registered_models("name='m'"):
            client.create_registered_model("m")
        tags = {tag_of(artifact.stage): artifact.fingerprint for artifact in artifacts}
        made = client.create_model_version("m", "/nowhere", tags=tags)
        if alias:
            client.set_registered_model_alias("m", alias, made.version)

    return version


def run_of(
    settings: Settings,
    number: int,
    *artifacts: Artifact,
    ended: bool = True,
    days: int = 0,
    reads: Sequence[Artifact] = (),
    recipe: str = "test",
    reused: bool = False,
    registry: str = "",
) -> None:
    summary = RunSummary.begin(CONFIG.model_copy(update={"name": recipe}), f"2026010{number}")
    summary.inputs = [f"{each.stage}/{each.fingerprint}" for each in reads]
    summary.started = datetime.now(UTC) - timedelta(days=days)
    summary.stages = [
        StageSummary(name=each.stage, fingerprint=each.fingerprint, status="reused" if reused else "done")
        for each in artifacts
    ]
    if registry:
        summary.model = RegisteredModel(name="m", version="1", aliases=[], verdict="", registry=registry)
    if ended:
        summary.end(None)
    summary.write(settings.runs)


def rubbish(settings: Settings, keep_runs: int = 0) -> set[str]:
    names = (Path(one.name) for one in garbage(settings, keep_runs, shared_days=30))
    return {f"{name.parent.name}/{name.name[0]}" for name in names}


def test_what_a_registered_model_needs_is_kept(home: Settings, put: Put, register: Callable[..., None]) -> None:
    clean = put(home, "clean/1")
    champion, older, loose = put(home, "export/2", clean), put(home, "export/3", put(home, "clean/4")), "export/5"
    put(home, loose)
    assert rubbish(home) == {"clean/1", "clean/4", "export/2", "export/3", "export/5"}
    register(home, "champion", champion)
    register(home, "", older)
    assert rubbish(home) == {"clean/4", "export/5"}, "the champion keeps all it was made from, others themselves"


def test_without_the_registry_nothing_is_called_garbage(home: Settings, put: Put, free_port: int) -> None:
    put(home, "clean/1")
    environment = {"NMT_HOME": str(home.home), "MLFLOW_TRACKING_URI": f"http://me:secret@127.0.0.1:{free_port}"}
    with pytest.raises(ModelError, match="cannot list its registered models") as caught:
        garbage(Settings.load(environment), 0, shared_days=30)
    assert "secret" not in str(caught.value)


def test_a_pin_keeps_an_artifact_and_what_it_was_made_from(home: Settings, put: Put) -> None:
    split = put(home, "split/3", put(home, "clean/2"))
    put(home, "clean/4")
    pin_artifact(f"split/{split.fingerprint}", "the paper")
    assert rubbish(home) == {"clean/4"}
    unpin_artifact(split.short)
    assert rubbish(home) == {"clean/2", "split/3", "clean/4"}


HOLDER = """
import sys, time
from pathlib import Path
from flows.registry.copies import copy_folder
with copy_folder(Path(sys.argv[1])) as folder:
    (folder / "model").write_text("a copy")
    print(folder.name, flush=True)
    time.sleep(300)
"""


def test_what_a_killed_process_has_left_is_garbage(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    holders = [
        subprocess.Popen([sys.executable, "-c", HOLDER, str(home.home)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        kept, left = (holder.stdout.readline().strip() for holder in holders if holder.stdout)
        copies = home.home / "copies"
        assert garbage(home, 0, 30) == []
        holders[1].kill()
        holders[1].wait()
        assert [one.name for one in garbage(home, 0, 30)] == [f"copies/{left}"]
        collect_garbage(0, yes=True)
        assert f"copies/{left}" in capsys.readouterr().out
        assert sorted(path.name for path in copies.iterdir()) == [kept, f"{kept}.lock"]
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def test_a_run_in_progress_keeps_what_it_has_made(home: Settings, put: Put) -> None:
    one, two, three = put(home, "clean/1"), put(home, "clean/2"), put(home, "clean/3")
    run_of(home, 1, one, ended=False)
    run_of(home, 2, two, ended=False, days=40)
    run_of(home, 3, three)
    assert rubbish(home) == {"clean/2", "clean/3"}, "what was killed long ago is not in progress"
    assert rubbish(home, 1) == {"clean/2"}


def test_a_run_in_progress_keeps_what_it_reads(home: Settings, put: Put) -> None:
    """A stage that was started by itself has made nothing yet, and no manifest names its inputs."""
    split = put(home, "split/2", put(home, "clean/1"))
    put(home, "split/3")
    run_of(home, 1, ended=False, reads=[split])
    assert rubbish(home) == {"split/3"}
    run_of(home, 1, reads=[split])
    assert rubbish(home) == {"clean/1", "split/2", "split/3"}


def test_a_translation_keeps_its_model(home: Settings, put: Put) -> None:
    model = put(home, "export/2", put(home, "clean/1"))
    (model.path / BUNDLE_FILE).write_text("{}")
    for asked in (model.short, str(model.path)):
        with model_of(asked, home) as found, model_of(asked, home):
            assert found.folder == model.path
            assert rubbish(home) == set()
        assert rubbish(home) == {"clean/1", "export/2"}
    code = (
        "import os, pathlib, sys; from flows.registry.models import model_of; from flows.settings import Settings\n"
        "with model_of(sys.argv[1], Settings.load()): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(model.path)]).returncode == -9
    assert list(model.path.parent.glob("*.used")), "it had no time to report its end"
    assert rubbish(home) == {"clean/1", "export/2"}


def test_the_flow_frees_the_shared_store_too(
    home: Settings, put: Put, prefect_api: str, s3_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NMT_STORE", s3_folder)
    here = Settings.load()
    kept, loose = put(here, "clean/1"), put(here, "clean/2")
    here.store.pin(kept, "the paper")
    both = [f"clean/{loose.fingerprint}", f"{s3_folder}/clean/{loose.fingerprint}"]
    assert gc(keep_runs=0) == both[:1], "what is young stays in the shared store"
    assert gc(keep_runs=0, older_than=0) == both
    assert loose.path.is_dir() and len(Objects(s3_folder).all()) == 2, "nothing was deleted"
    assert gc(keep_runs=0, delete=True, older_than=0) == both
    assert Objects(s3_folder).all().keys() == {f"clean/{kept.fingerprint}"}
    assert here.store.find("clean", loose.fingerprint) is None and kept.path.is_dir()


def test_the_flow_takes_what_is_gone_and_what_is_to_be_forgotten(
    home: Settings, put: Put, prefect_api: str, tmp_path: Path
) -> None:
    model = put(home, "export/1")
    mark = mark_of("elsewhere", "m", {"export": model.fingerprint}, "me@there")
    write(home.store, mark)
    run_of(home, 1, model, registry=f"sqlite:///{tmp_path / 'gone.db'}")
    with pytest.raises(ModelError, match=r"gone\.db"):
        gc(keep_runs=0)
    assert gc(keep_runs=0, gone=[f"sqlite:///{tmp_path / 'gone.db'}"]) == []
    assert gc(keep_runs=0, gone=[f"sqlite:///{tmp_path / 'gone.db'}"], forget=[mark.id]) == [
        f"export/{model.fingerprint}"
    ]


def test_the_shared_store_keeps_what_others_need(
    home: Settings,
    put: Put,
    register: Callable[..., None],
    s3_folder: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another machine made everything. Its runs are not known here, but its models and pins are."""
    other = Settings.load({"NMT_HOME": str(home.home.with_name("other")), "NMT_STORE": s3_folder})
    clean = put(other, "clean/1")
    champion = put(other, "export/2", clean)
    pinned, loose = put(other, "clean/3"), put(other, "clean/4")
    other.store.pin(pinned, "the paper")
    monkeypatch.setenv("NMT_STORE", s3_folder)
    here = Settings.load()
    register(here, "champion", champion)

    def offered(*, delete: bool, days: int) -> set[str]:
        collect_garbage(0, yes=delete, older_than=days)
        return set(re.findall(rf"{s3_folder}/(\w+/\w)", capsys.readouterr().out))

    assert offered(delete=False, days=30) == set(), "it was made lately, so a run of that machine may need it"
    assert offered(delete=False, days=0) == {"clean/4"}
    assert len(Objects(s3_folder).all()) == 4, "nothing was deleted"
    assert offered(delete=True, days=0) == {"clean/4"}
    assert Objects(s3_folder).all().keys() == {f"{each.stage}/{each.fingerprint}" for each in (champion, pinned, clean)}
    assert here.store.find("clean", loose.fingerprint) is None
    assert here.store.find("export", champion.fingerprint)


def test_pages_of_the_registry_are_read_to_the_end(home: Settings, put: Put, register: Callable[..., None]) -> None:
    """The registry has more models than one page of MLflow.

    They are written into its database, because making them takes minutes.
    """
    champion = put(home, "export/2", put(home, "clean/1"))
    register(home, "champion", champion)
    with contextlib.closing(sqlite3.connect(home.own_database)) as database, database:
        (model,) = database.execute("select * from registered_models")
        names = [column for _, column, *_ in database.execute("pragma table_info(registered_models)")]
        rows = [dict(zip(names, model, strict=True)) | {"name": f"a{number:04}"} for number in range(1_001)]
        values = ", ".join(f":{name}" for name in names)
        database.executemany(f"insert into registered_models ({', '.join(names)}) values ({values})", rows)
    page = MlflowClient(home.mlflow_tracking_uri).search_registered_models(max_results=1_000)
    assert page.token and "m" not in {model.name for model in page}, "the first page is not all"
    assert rubbish(home) == set()


def test_a_registry_that_runs_name_is_asked_or_nothing_is_called_garbage(
    home: Settings, put: Put, register: Callable[..., None], tmp_path: Path
) -> None:
    """A user who forgets MLFLOW_TRACKING_URI uses the registry of the home, which is empty or does not exist."""
    clean = put(home, "clean/1")
    champion = put(home, "export/2", clean)
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    run_of(home, 1, champion, registry=elsewhere)
    with pytest.raises(ModelError, match=f"elsewhere.db .*does not exist.*MLFLOW_TRACKING_URI.*--gone {elsewhere}"):
        rubbish(home)
    register(Settings.load({"NMT_HOME": str(home.home), "MLFLOW_TRACKING_URI": elsewhere}), "champion", champion)
    assert rubbish(home) == set(), "it is asked though MLFLOW_TRACKING_URI does not name it"
    Path(elsewhere.removeprefix("sqlite:///")).unlink()
    assert {one.name for one in garbage(home, 0, 30, gone=[elsewhere])} == {
        f"{each.stage}/{each.fingerprint}" for each in (clean, champion)
    }
    run_of(home, 2, champion, registry="home")
    with pytest.raises(ModelError, match=r"mlflow\.db .*does not exist.*--gone home"):
        garbage(home, 0, 30, gone=[elsewhere])


def test_a_home_that_knows_no_registry_respects_the_marks_in_the_shared_store(
    home: Settings,
    put: Put,
    s3_folder: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = Settings.load({"NMT_HOME": str(tmp_path / "other"), "NMT_STORE": s3_folder})
    clean, loose = put(other, "clean/1"), put(other, "clean/4")
    champion = put(other, "export/2", clean)
    mark = mark_of(other.mlflow_shown, "m", {"export": champion.fingerprint}, "me@there")
    write(other.store, mark)
    monkeypatch.setenv("NMT_STORE", s3_folder)
    here = Settings.load()
    assert marks(here.store) == {mark.id: mark}
    collect_garbage(0, yes=True, older_than=0)
    said = capsys.readouterr().out
    assert f"{mark.id}: m in {other.mlflow_shown}" in said and "me@there" in said
    assert Objects(s3_folder).all().keys() == {f"export/{champion.fingerprint}", f"clean/{clean.fingerprint}"}
    assert here.store.find("clean", loose.fingerprint) is None
    with pytest.raises(ArtifactError, match=r"'nothing': does not exist"):
        collect_garbage(0, yes=True, older_than=0, forget=["nothing"])
    collect_garbage(0, yes=True, older_than=0, forget=[mark.id])
    assert Objects(s3_folder).all() == {} and marks(here.store) == {}
    assert [one.name for one in garbage(other, 0, 0)], "the other home has a mark of its own still, and says so"


def test_a_damaged_mark_stops_the_collection(home: Settings, put: Put) -> None:
    put(home, "clean/1")
    write(home.store, mark_of("home", "m", {}, "me"))
    (file,) = (home.store.root / "registered").glob("*.json")
    file.write_text("{")
    with pytest.raises(ArtifactError, match=r"registered/\w+\.json .*cannot be read"):
        rubbish(home)


def test_a_mark_of_a_version_that_the_registry_knows_keeps_no_more_than_the_registry_says(
    home: Settings, put: Put, register: Callable[..., None]
) -> None:
    older = put(home, "export/3", put(home, "clean/4"))
    register(home, "", older)
    mark = mark_of("home", "m", {"export": older.fingerprint}, "me")
    write(home.store, mark)
    assert rubbish(home) == set()
    MlflowClient(home.mlflow_tracking_uri).set_model_version_tag("m", "1", "nmt.mark", mark.id)
    assert rubbish(home) == {"clean/4"}


def test_runs_count_by_recipe_and_only_if_they_made_something(home: Settings, put: Put) -> None:
    one, two, three, four = (put(home, f"clean/{number}") for number in "1234")
    run_of(home, 1, one)
    run_of(home, 2, two, recipe="another")
    run_of(home, 3, three)
    assert rubbish(home, 1) == {"clean/1", "clean/4"}, "a run of another recipe takes no place"
    for number in range(4, 9):
        run_of(home, number, one, reused=True)
    assert rubbish(home, 1) == {"clean/4"}, "what the last runs read is kept, and they take no place"
    run_of(home, 9, four)
    assert rubbish(home, 1) == {"clean/1", "clean/3"}
    assert rubbish(home, 0) == {f"clean/{number}" for number in "1234"}


def test_what_an_interrupted_stage_has_left_stays_for_30_days(home: Settings) -> None:
    partial = home.store.partial("train", "7" * 32)
    (partial / "checkpoints").mkdir(parents=True)
    checkpoint = partial / "checkpoints" / "last"
    checkpoint.write_text("hours of work")
    assert garbage(home, 0, 30) == []
    assert [one.name for one in garbage(home, 0, 30, unfinished_days=0)] == [f"train/{partial.name}"]
    for path in (checkpoint, checkpoint.parent, partial):
        os.utime(path, (time.time() - 31 * 86_400,) * 2)
    assert [one.name for one in garbage(home, 0, 30)] == [f"train/{partial.name}"]
    checkpoint.write_text("an hour more")
    assert garbage(home, 0, 30) == []
