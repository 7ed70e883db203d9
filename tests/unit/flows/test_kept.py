"""What somebody still needs is no garbage: here, and in the store that machines share."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient
from support.published import identity_like

from flows.commands.artifacts import collect_garbage, pin_artifact
from flows.garbage import garbage
from flows.maintenance import gc
from flows.models import model_of
from flows.settings import Settings
from flows.start_from import tag_of
from flows.summary import RunSummary, StageSummary
from nmt_core.artifacts import Artifact, Manifest, describe_outputs, fingerprint_of, now
from nmt_core.bundle import BUNDLE_FILE
from nmt_core.config import PipelineConfig
from nmt_core.errors import ModelError
from nmt_core.shared_store import Objects

CONFIG = PipelineConfig.model_validate({"name": "test", "corpus": {"toy": {}}})
Put = Callable[..., Artifact]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """An empty home, which is also that of commands."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_DISABLE_TELEMETRY", "PREFECT_HOME", "NMT_STORE"):
        monkeypatch.setenv(name, "")  # so that what `prepare` sets is taken back
    monkeypatch.setenv("NMT_HOME", str(tmp_path / "home"))
    return Settings.load()


@pytest.fixture
def put() -> Put:
    """Publishes an artifact called by one digit, made from others."""

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
    """Registers a version that was made of artifacts, with an alias or without."""

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
) -> None:
    summary = RunSummary.begin(CONFIG, f"2026010{number}")
    summary.inputs = [f"{each.stage}/{each.fingerprint}" for each in reads]
    summary.started = datetime.now(UTC) - timedelta(days=days)
    summary.stages = [StageSummary(name=each.stage, fingerprint=each.fingerprint, status="done") for each in artifacts]
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
    with pytest.raises(ModelError, match="which models are registered") as caught:
        garbage(Settings.load(environment), 0, shared_days=30)
    assert "secret" not in str(caught.value)


def test_a_pin_keeps_an_artifact_and_what_it_was_made_from(home: Settings, put: Put) -> None:
    split = put(home, "split/3", put(home, "clean/2"))
    put(home, "clean/4")
    pin_artifact(f"split/{split.fingerprint}", "the paper")
    assert rubbish(home) == {"clean/4"}
    pin_artifact(split.short, None)
    assert rubbish(home) == {"clean/2", "split/3", "clean/4"}


HOLDER = """
import sys, time
from pathlib import Path
from flows.copies import copy_folder
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
        collect_garbage(0, delete=True)
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
    """A stage that was started by itself has made nothing yet, and no manifest says what it is being made from."""
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
        "import os, pathlib, sys; from flows.models import model_of; from flows.settings import Settings\n"
        "with model_of(sys.argv[1], Settings.load()): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(model.path)]).returncode == -9
    assert list(model.path.parent.glob("*.used")), "it had no time to say that it ends"
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


def test_the_shared_store_keeps_what_others_need(
    home: Settings,
    put: Put,
    register: Callable[..., None],
    s3_folder: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another machine made all of it: its runs are not known here, but its models and pins are."""
    other = Settings.load({"NMT_HOME": str(home.home.with_name("other")), "NMT_STORE": s3_folder})
    clean = put(other, "clean/1")
    champion = put(other, "export/2", clean)
    pinned, loose = put(other, "clean/3"), put(other, "clean/4")
    other.store.pin(pinned, "the paper")
    monkeypatch.setenv("NMT_STORE", s3_folder)
    here = Settings.load()
    register(here, "champion", champion)

    def offered(*, delete: bool, days: int) -> set[str]:
        collect_garbage(0, delete=delete, shared_days=days)
        return set(re.findall(rf"{s3_folder}/(\w+/\w)", capsys.readouterr().out))

    assert offered(delete=False, days=30) == set(), "it was made lately, so a run of that machine may need it"
    assert offered(delete=False, days=0) == {"clean/4"}
    assert len(Objects(s3_folder).all()) == 4, "nothing was deleted"
    assert offered(delete=True, days=0) == {"clean/4"}
    assert Objects(s3_folder).all().keys() == {f"{each.stage}/{each.fingerprint}" for each in (champion, pinned, clean)}
    assert here.store.find("clean", loose.fingerprint) is None
    assert here.store.find("export", champion.fingerprint)
