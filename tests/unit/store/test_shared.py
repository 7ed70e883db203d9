"""A store that many machines share: an artifact that one makes, another fetches. Half an upload counts as nothing."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nmt_core.errors import ArtifactError, DamagedError
from nmt_core.store.artifacts import MANIFEST, Artifact, Manifest, Store, describe_outputs, fingerprint_of, now
from nmt_core.store.shared import Objects, SharedStore

Maker = Callable[..., Artifact]
KILLED_BEFORE_THE_MANIFEST = """
import os, signal, sys
from pathlib import Path
from nmt_core.store.artifacts import Artifact
from nmt_core.store.shared import Objects, SharedStore

objects = Objects(sys.argv[1])
with objects._named() as (store, root):
    pass
store.pipe_file = lambda *anything: os.kill(os.getpid(), signal.SIGKILL)
folder = Path(sys.argv[2])
SharedStore(folder.parent.parent, objects).share(Artifact(folder.parent.name, folder.name, folder))
"""
KILLED_BETWEEN_PARTS = """
import os, signal, sys
from pathlib import Path
from nmt_core.store.artifacts import Artifact
from nmt_core.store.shared import Objects, SharedStore

objects = Objects(sys.argv[1])
with objects._named() as (store, root):
    call = store._call_s3

async def until_the_second_part(method, *words, **options):
    if method == "upload_part" and options["PartNumber"] > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return await call(method, *words, **options)

store._call_s3 = until_the_second_part
folder = Path(sys.argv[2])
SharedStore(folder.parent.parent, objects).share(Artifact(folder.parent.name, folder.name, folder))
"""


@pytest.fixture(params=["s3", "folder"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Empty store of objects: a real S3 server, and a folder through fsspec."""
    return str(request.getfixturevalue("s3_folder")) if request.param == "s3" else f"file://{tmp_path}/objects"


def machine(url: str, home: Path) -> SharedStore:
    return SharedStore(home / "store", Objects(url))


def make(store: Store, text: str = "text", *inputs: Artifact, stage: str = "clean") -> Artifact:
    """Publish an artifact with two files, one of them in a folder, and share it."""
    parents = {artifact.stage: artifact.fingerprint for artifact in inputs}
    identity = {"stage": stage, "version": 1, "config": {"text": text}, "inputs": parents}
    fingerprint = fingerprint_of(identity)
    partial = store.partial(stage, fingerprint)
    (partial / "deep").mkdir(parents=True)
    (partial / "deep" / "data [1].txt").write_text(text)
    (partial / "report.json").write_text("{}")
    manifest = Manifest(
        stage=stage,
        fingerprint=fingerprint,
        identity=identity,
        recipe="small",
        outputs=describe_outputs(partial),
        versions={},
        seconds=0,
        host="here",
        created=now(),
    )
    artifact = store.publish(partial, manifest)
    store.share(artifact)
    return artifact


def test_another_machine_finds_what_one_has_made(url: str, tmp_path: Path) -> None:
    here, there = machine(url, tmp_path / "here"), machine(url, tmp_path / "there")
    made = make(here, "hello")
    assert there.local("clean", made.fingerprint) is None
    known = there.knows("clean", made.fingerprint)
    assert known and not known.path.exists(), "knowing fetches nothing"
    found = there.find("clean", made.fingerprint)
    assert found == Artifact("clean", made.fingerprint, there.path("clean", made.fingerprint))
    assert found.damage(thorough=True) is None
    assert describe_outputs(found.path) == describe_outputs(made.path)
    assert found.manifest() == made.manifest()
    assert there.resolve(f"clean/{made.fingerprint}") == found
    assert not list(there.root.glob("*/*.partial"))


def test_the_lineage_reaches_to_what_other_machines_have_made(url: str, tmp_path: Path) -> None:
    here, there = machine(url, tmp_path / "here"), machine(url, tmp_path / "there")
    clean = make(here, "clean")
    split = make(here, "split", clean, stage="split")
    encode = make(here, "encode", split, stage="encode")
    found = there.find("encode", encode.fingerprint)
    assert found
    names = [(each.stage, each.fingerprint) for each in there.lineage(found)]
    assert names == [(each.stage, each.fingerprint) for each in (encode, split, clean)]
    assert there.manifest("split", split.fingerprint) == split.manifest()
    assert not there.path("split", split.fingerprint).exists(), "only what is read is fetched"
    assert there.manifest("split", "0" * 32) is None


def test_what_is_in_no_store_is_not_found(url: str, tmp_path: Path) -> None:
    store = machine(url, tmp_path)
    assert store.find("clean", "0" * 32) is store.knows("clean", "0" * 32) is None
    with pytest.raises(ArtifactError, match="there is none"):
        store.resolve(f"clean/{'0' * 32}")


def test_what_is_here_costs_no_request(tmp_path: Path) -> None:
    """No request is sent, even to a store that does not answer."""
    made = make(machine(f"file://{tmp_path}/objects", tmp_path))
    away = SharedStore(tmp_path / "store", Objects("nosuchprotocol://bucket"))
    assert away.find("clean", made.fingerprint) == away.knows("clean", made.fingerprint) == made
    with pytest.raises(ArtifactError, match=r"artifact store nosuchprotocol://bucket: .*check that it responds"):
        away.find("clean", "0" * 32)


def test_a_killed_upload_leaves_no_artifact_and_the_next_one_ends_it(s3_folder: str, tmp_path: Path) -> None:
    here, there = machine(s3_folder, tmp_path / "here"), machine(s3_folder, tmp_path / "there")
    made = make(Store(here.root), "hello")  # as if there had been no shared store
    command = [sys.executable, "-c", KILLED_BEFORE_THE_MANIFEST, s3_folder, str(made.path)]
    assert subprocess.run(command, env=dict(os.environ)).returncode == -9
    (listed,) = Objects(s3_folder).all().values()
    assert len(listed.names) == 2 and not listed.is_whole
    assert there.find("clean", made.fingerprint) is None

    here.share(made)
    (listed,) = Objects(s3_folder).all().values()
    assert len(listed.names) == 3 and listed.is_whole
    assert there.find("clean", made.fingerprint)


def test_what_another_machine_has_removed_is_uploaded_again(url: str, tmp_path: Path) -> None:
    here = machine(url, tmp_path / "here")
    made = make(here)
    (listed,) = here.objects.all().values()
    here.objects.remove(listed)
    assert machine(url, tmp_path / "there").find("clean", made.fingerprint) is None
    here.share(made)
    assert machine(url, tmp_path / "there").find("clean", made.fingerprint)


def test_what_is_shared_already_is_not_uploaded_again(url: str, tmp_path: Path) -> None:
    here = machine(url, tmp_path / "here")
    made = make(here)
    (before,) = here.objects.all().values()
    (made.path / "report.json").unlink()  # an upload would fail without it
    here.share(made)
    (after,) = here.objects.all().values()
    assert after == before


def test_a_store_that_does_not_answer_stops_no_run_that_has_shared_everything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = machine(f"file://{tmp_path}/objects", tmp_path)
    made, new = make(here), make(Store(here.root), "new")
    away = SharedStore(here.root, Objects("nosuchprotocol://bucket"))
    for artifact in (made, new):
        with pytest.raises(ArtifactError, match="check that it responds"):
            away.share(artifact)
    away.objects.url = here.objects.url  # the same store, out of reach
    away.objects._named = Objects("nosuchprotocol://bucket")._named  # type: ignore[method-assign]
    away.share(made)
    assert "was shared before, but this cannot be checked now" in caplog.text
    with pytest.raises(ArtifactError, match="check that it responds"):
        away.share(new)


@pytest.mark.parametrize("name", ["../../../../ESCAPED", "/tmp/ESCAPED"])
def test_a_manifest_in_the_store_writes_nowhere_else(url: str, tmp_path: Path, name: str) -> None:
    made = make(machine(url, tmp_path / "here"))
    there, warnings = machine(url, tmp_path / "deep" / "in" / "there"), list[str]()
    change_manifest(url, made, lambda values: values["outputs"].update({name: values["outputs"]["report.json"]}))
    assert there.find("clean", made.fingerprint, warnings.append) is None
    assert there.knows("clean", made.fingerprint) is there.manifest("clean", made.fingerprint) is None
    assert not [*tmp_path.rglob("*ESCAPED*"), *Path("/tmp").glob("ESCAPED")]
    assert len(warnings) == 1 and "cannot be used" in warnings[0] and "ESCAPED" in warnings[0]


def test_a_manifest_of_another_artifact_is_not_used(url: str, tmp_path: Path) -> None:
    here, there = machine(url, tmp_path / "here"), machine(url, tmp_path / "there")
    one, other = make(here, "one"), make(here, "other")
    with here.objects._named() as (store, root):
        text = store.cat_file(f"{root}/clean/{other.fingerprint}/{MANIFEST}")
        store.pipe_file(f"{root}/clean/{one.fingerprint}/{MANIFEST}", text)
    assert there.find("clean", one.fingerprint) is there.knows("clean", one.fingerprint) is None
    assert there.find("clean", other.fingerprint)


def test_an_identity_that_was_changed_is_not_used(url: str, tmp_path: Path) -> None:
    made = make(machine(url, tmp_path / "here"))
    change_manifest(url, made, lambda values: values["identity"].update(version=2))
    assert machine(url, tmp_path / "there").find("clean", made.fingerprint) is None


def change_manifest(url: str, artifact: Artifact, change: Callable[[dict[str, Any]], None]) -> None:
    with Objects(url)._named() as (store, root):
        key = f"{root}/clean/{artifact.fingerprint}/{MANIFEST}"
        values = json.loads(store.cat_file(key))
        change(values)
        store.pipe_file(key, json.dumps(values).encode())


def test_two_that_make_the_same_never_mix(url: str, tmp_path: Path) -> None:
    """Two trainings of one fingerprint differ in their bytes.

    The artifact is complete, and belongs to the last manifest.
    """
    one, other = machine(url, tmp_path / "one"), machine(url, tmp_path / "other")
    made = make(one, "hello")
    shutil.copytree(made.path, other.partial("clean", made.fingerprint))
    draft = other.partial("clean", made.fingerprint)
    (draft / MANIFEST).unlink()
    (draft / "deep" / "data [1].txt").write_text("HELLO")
    second = other.publish(draft, made.manifest().model_copy(update={"outputs": describe_outputs(draft)}))
    other.share(second)
    found = machine(url, tmp_path / "third").find("clean", made.fingerprint)
    assert found and found.damage(thorough=True) is None
    assert (found.path / "deep" / "data [1].txt").read_text() == "HELLO"


def test_an_upload_that_was_killed_between_its_parts_is_told_of(s3_folder: str, tmp_path: Path) -> None:
    """Its parts are in no listing, so that nothing else would explain the used space."""
    store = Store(tmp_path / "store")
    made = make(store, "a" * (101 << 20))  # from 100 MB on, fsspec uploads in parts
    command = [sys.executable, "-c", KILLED_BETWEEN_PARTS, s3_folder, str(made.path)]
    assert subprocess.run(command, env=dict(os.environ)).returncode == -9
    objects = Objects(s3_folder)
    assert not [name for listed in objects.all().values() for name in listed.names if "data" in name]
    assert objects.unfinished(timedelta(days=40_000)) == []  # moto says of each upload that it began in 2010
    (key,) = objects.unfinished(timedelta(0)) or []
    assert key.endswith(f"clean/{made.fingerprint}/{made.manifest().outputs['deep/data [1].txt'].sha256}")
    assert Objects(f"{s3_folder}/below").unfinished(timedelta(0)) == []
    assert Objects(f"file://{tmp_path}/objects").unfinished(timedelta(0)) is None


@pytest.mark.parametrize("fault", ["damaged", "missing"])
def test_an_artifact_without_one_of_its_objects_is_made_again_and_repaired(
    url: str, tmp_path: Path, fault: str
) -> None:
    made = make(machine(url, tmp_path / "here"), "hello")
    digest = made.manifest().outputs["deep/data [1].txt"].sha256
    with Objects(url)._named() as (store, root):
        key = f"{root}/clean/{made.fingerprint}/{digest}"
        store.pipe_file(key, b"jello")
        if fault == "missing":  # as a rule of the bucket would
            store.rm_file(key)
    there, warnings = machine(url, tmp_path / "there"), list[str]()
    assert there.find("clean", made.fingerprint, warnings.append) is None
    assert len(warnings) == 1 and "counts as missing" in warnings[0]
    assert {"damaged": "does not match its sha256", "missing": "is missing"}[fault] in warnings[0]
    assert there.local("clean", made.fingerprint) is None
    assert not list(there.root.glob("clean/*/"))

    make(there, "hello")
    found = machine(url, tmp_path / "third").find("clean", made.fingerprint, warnings.append)
    assert found and found.damage(thorough=True) is None
    assert len(warnings) == 1


def test_a_damaged_file_is_fetched_again_and_never_uploaded(url: str, tmp_path: Path) -> None:
    here, there = machine(url, tmp_path / "here"), machine(url, tmp_path / "there")
    made = make(here, "hello")
    found, warnings = there.find("clean", made.fingerprint), list[str]()
    assert found
    (found.path / "deep" / "data [1].txt").write_text("jello")
    assert there.find("clean", made.fingerprint, warnings.append)
    assert len(warnings) == 1 and "is damaged and not used" in warnings[0]
    assert (found.path / "deep" / "data [1].txt").read_text() == "hello"

    other = make(Store(there.root), "other")
    (other.path / "deep" / "data [1].txt").write_text("OTHER")
    with pytest.raises(DamagedError, match="is not uploaded"):
        there.share(other)
    assert f"clean/{other.fingerprint}" not in here.objects.all()


def test_all_and_remove(url: str, tmp_path: Path) -> None:
    here = machine(url, tmp_path)
    one, other = make(here, "one"), make(here, "other")
    objects = Objects(url)
    listed = objects.all()
    assert listed.keys() == {f"clean/{one.fingerprint}", f"clean/{other.fingerprint}"}
    found = listed[f"clean/{one.fingerprint}"]
    assert datetime.now(UTC) - found.newest < timedelta(minutes=5)
    assert found.bytes == one.manifest().size + (one.path / MANIFEST).stat().st_size
    objects.remove(found)
    objects.remove(found)  # twice is no error
    assert objects.all().keys() == {f"clean/{other.fingerprint}"}
    assert objects.manifest(f"clean/{one.fingerprint}") is None


def test_a_pin_is_seen_by_all_machines(url: str, tmp_path: Path) -> None:
    here, there = machine(url, tmp_path / "here"), machine(url, tmp_path / "there")
    made = make(here)
    assert here.pins() == there.pins() == set()
    here.pin(made, "the paper")
    assert here.pins() == there.pins() == {("clean", made.fingerprint)}
    assert Objects(url).all().keys() == {f"clean/{made.fingerprint}"}
    here.pin(made, None)
    here.pin(made, None)
    assert here.pins() == there.pins() == set()


def test_what_was_removed_here_is_fetched_or_shared_again(url: str, tmp_path: Path) -> None:
    here = machine(url, tmp_path)
    made = make(here, "hello")
    here.remove(made.path)
    assert here.find("clean", made.fingerprint) == made
    here.remove(made.path)
    (listed,) = Objects(url).all().values()
    Objects(url).remove(listed)
    assert make(here, "hello") == made
    assert Objects(url).manifest(f"clean/{made.fingerprint}")


def test_a_stage_is_reused_on_another_machine(
    url: str, tmp_path: Path, make_config: Callable[..., Any], job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nmt_core.stages.stage import run_stage
    from nmt_core.stages.table import STAGES, plan

    here, there = machine(url, tmp_path / "here"), machine(url, tmp_path / "there")
    made = run_stage(STAGES["download"], make_config(), here, {}, job)
    assert not made.reused
    reasons = {planned.stage.name: planned.reason for planned in plan(make_config(), there)}
    assert reasons["download"] == "made already"
    assert not list(there.root.glob("*/*/")), "a plan fetches nothing"
    again = run_stage(STAGES["download"], make_config(), there, {}, job)
    assert again.reused
    assert again.artifact.manifest() == made.artifact.manifest()
