"""Fingerprints, names, lineage and garbage of the artifact store."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nmt_core.errors import ArtifactError
from nmt_core.store.artifacts import MANIFEST, Artifact, Manifest, Store, describe_outputs, fingerprint_of, now

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
identities = st.dictionaries(st.text(max_size=3), values, min_size=1, max_size=4)
Maker = Callable[..., Artifact]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def make(store: Store) -> Maker:
    """Publish an artifact that holds one file and was made from `inputs`."""

    def publish(stage: str, text: str = "text", *inputs: Artifact) -> Artifact:
        parents = {artifact.stage: artifact.fingerprint for artifact in inputs}
        identity = {"stage": stage, "version": 1, "config": {"text": text}, "inputs": parents}
        fingerprint = fingerprint_of(identity)
        partial = store.partial(stage, fingerprint)
        partial.mkdir(parents=True)
        (partial / "data.txt").write_text(text)
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
        return store.publish(partial, manifest)

    return publish


def reordered(value: Any) -> Any:
    """Return the value with the keys of every mapping in reverse order."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@given(identities)
def test_the_order_of_keys_does_not_matter(identity: dict[str, Any]) -> None:
    assert fingerprint_of(reordered(identity)) == fingerprint_of(identity)
    assert len(fingerprint_of(identity)) == 32


@given(identities, identities)
def test_another_identity_has_another_fingerprint(one: dict[str, Any], other: dict[str, Any]) -> None:
    assume(json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))
    assert fingerprint_of(one) != fingerprint_of(other)


@given(identities, scalars, st.data())
def test_any_changed_value_changes_the_fingerprint(identity: dict[str, Any], new: Any, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(identity)))
    assume(json.dumps(identity[key]) != json.dumps(new))
    assert fingerprint_of(identity | {key: new}) != fingerprint_of(identity)


def test_the_fingerprint_stays_what_it_was() -> None:
    """Another value would make every existing store useless."""
    identity = {
        "stage": "clean",
        "version": 1,
        "config": {"clean": {"min": 1}, "한국": 0.5},
        "inputs": {"download": "00"},
    }
    assert fingerprint_of(identity) == "da27fec3fc847065fd855d7d8855f4e2"


def test_a_published_artifact_is_found_with_all_that_it_holds(store: Store, make: Maker) -> None:
    artifact = make("clean", "hello")
    assert store.find("clean", artifact.fingerprint) == artifact
    assert (artifact.path / "data.txt").read_text() == "hello"
    manifest = artifact.manifest()
    assert set(manifest.outputs) == {"data.txt", "report.json"}
    assert manifest.size == len("hello") + len("{}")
    assert not list(store.root.glob("*/*.partial"))


def test_without_a_manifest_there_is_no_artifact(store: Store, make: Maker) -> None:
    artifact = make("clean")
    (artifact.path / MANIFEST).unlink()
    assert store.find("clean", artifact.fingerprint) is None
    assert list(store.published()) == []


def test_damage_is_named(make: Maker) -> None:
    artifact = make("clean", "hello")
    file = artifact.path / "data.txt"
    assert artifact.damage(thorough=True) is None
    file.write_text("jello")
    assert artifact.damage(thorough=False) is None
    assert "does not match its sha256" in str(artifact.damage(thorough=True))
    file.write_text("hell")
    assert artifact.damage(thorough=False) == f"{file} has 4 bytes, not 5"
    file.unlink()
    assert artifact.damage(thorough=False) == f"{file} is missing"


def test_a_damaged_manifest_says_what_to_do(make: Maker) -> None:
    artifact = make("clean")
    (artifact.path / MANIFEST).write_text('{"stage": ')
    with pytest.raises(ArtifactError, match=f"restore the folder {artifact.path} .* or run the recipe again"):
        artifact.manifest()


@pytest.mark.parametrize("text", ["", "[]", "{}", "\0" * 300])
def test_a_file_that_is_not_a_manifest_hides_no_other(store: Store, make: Maker, text: str) -> None:
    whole, damaged = make("clean", "whole"), make("clean", "damaged")
    (damaged.path / MANIFEST).write_text(text)
    assert store.local("clean", damaged.fingerprint) is store.manifest("clean", damaged.fingerprint) is None
    assert store.find("clean", whole.fingerprint) == whole
    assert set(store.published()) == {whole, damaged}
    assert store.garbage([whole]) == [damaged.path]
    warnings: list[str] = []
    assert store.find("clean", damaged.fingerprint, warnings.append) is None
    assert len(warnings) == 1 and "not the manifest of" in warnings[0]


def test_a_flipped_byte_is_found_and_told(store: Store, make: Maker) -> None:
    artifact = make("clean", "hello")
    (artifact.path / "data.txt").write_text("jello")
    warnings: list[str] = []
    assert store.find("clean", artifact.fingerprint, warnings.append) is None
    assert warnings == [
        f"{artifact.short} is damaged and not used: {artifact.path}/data.txt does not match its sha256 in the manifest"
    ]


@pytest.mark.parametrize(
    ("stage", "fingerprint"),
    [
        ("..", "0" * 32),
        ("clean", ".."),
        ("clean", f"../../{'0' * 32}"),
        ("/etc", "0" * 32),
        ("clean", "none"),
        ("clean", ""),
        ("clean", "0" * 32 + "\n"),
        ("clean/x", "0" * 32),
    ],
)
def test_what_is_no_name_of_an_artifact_never_becomes_a_path(store: Store, stage: str, fingerprint: str) -> None:
    assert store.find(stage, fingerprint) is store.knows(stage, fingerprint) is store.manifest(stage, fingerprint)
    assert store.local(stage, fingerprint) is None
    with pytest.raises(ArtifactError, match="not the stage and the fingerprint of an artifact"):
        store.path(stage, fingerprint)
    with pytest.raises(ArtifactError, match="there is none"):
        store.resolve(f"{stage}/{fingerprint}")


@pytest.mark.parametrize(
    "name",
    [
        "../../../../ESCAPED",
        "/etc/passwd",
        "deep/../../x",
        "deep//x",
        "./x",
        "",
        "x/",
        "..",
        "x\\..\\y",
        "x\ny",
        "x" * 256,
        MANIFEST,
    ],
)
def test_a_manifest_that_names_a_file_elsewhere_is_none(make: Maker, name: str) -> None:
    artifact = make("clean")
    values = json.loads((artifact.path / MANIFEST).read_bytes())
    values["outputs"][name] = values["outputs"]["data.txt"]
    (artifact.path / MANIFEST).write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match="not the manifest of"):
        artifact.manifest()


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "split"},
        {"fingerprint": "0" * 32},
        {"identity": {"stage": "clean", "version": 2, "config": {}, "inputs": {}}},
        {"identity": {}},
        {"created": "2026-01-01T00:00:00"},
    ],
)
def test_a_manifest_of_something_else_is_none(make: Maker, change: dict[str, Any]) -> None:
    artifact = make("clean")
    values = json.loads((artifact.path / MANIFEST).read_bytes())
    (artifact.path / MANIFEST).write_text(json.dumps(values | change))
    with pytest.raises(ArtifactError, match="not the manifest of"):
        artifact.manifest()


def test_a_whole_manifest_in_the_folder_of_another_artifact_is_refused(store: Store, make: Maker) -> None:
    one, other = make("clean", "one"), make("clean", "other")
    (one.path / MANIFEST).write_bytes((other.path / MANIFEST).read_bytes())
    with pytest.raises(ArtifactError, match=f"it is the manifest of clean/{other.fingerprint}"):
        one.manifest()
    assert store.find("clean", one.fingerprint) is None


@pytest.mark.parametrize("inputs", [{"download": "../../x"}, {"..": "0" * 32}, {"download": 5}, [], None])
def test_inputs_that_are_no_names_make_no_manifest(store: Store, make: Maker, inputs: Any) -> None:
    values = json.loads((make("clean").path / MANIFEST).read_bytes())
    values["identity"]["inputs"] = inputs
    fingerprint = values["fingerprint"] = fingerprint_of(values["identity"])
    folder = store.path("clean", fingerprint)
    folder.mkdir()
    (folder / MANIFEST).write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match="its inputs are not names of artifacts"):
        Artifact("clean", fingerprint, folder).manifest()


def test_everything_is_on_disk_before_the_manifest_and_the_manifest_before_its_name(
    store: Store, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def noting(handle: int) -> None:
        place = Path(f"/proc/self/fd/{handle}").resolve()
        synced.append(str(place.relative_to(store.root.resolve())))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noting)
    fingerprint = make("clean").fingerprint
    partial = f"clean/{fingerprint}.partial"
    assert set(synced[:3]) == {f"{partial}/data.txt", f"{partial}/report.json", partial}
    assert synced[3].startswith(f"{partial}/{MANIFEST}."), "the draft, before it gets the name of the manifest"
    assert synced[4:] == [partial, "clean"]


def test_the_newest_are_those_that_were_published_last(store: Store, make: Maker) -> None:
    made = [make("clean", f"{number}") for number in range(5)]
    make("split")
    for age, artifact in enumerate(made):
        os.utime(artifact.path, (1_000_000 - age, 1_000_000 - age))
    assert store.newest("clean", 3) == made[:3]
    assert store.newest("nothing", 3) == []


def test_an_artifact_is_found_by_the_first_digits(store: Store, make: Maker) -> None:
    artifact, other = make("clean", "a"), make("split", "b")
    digits = artifact.fingerprint[:12]
    for name in (digits, artifact.fingerprint, f"clean/{digits}", artifact.short):
        assert store.resolve(name) == artifact
    assert store.resolve(other.short) == other
    for name in ("zzz", "", "clean/", f"split/{digits}"):
        with pytest.raises(ArtifactError, match="there is none; `nmt artifacts ls`"):
            store.resolve(name)


def test_digits_that_begin_several_fingerprints_are_refused(store: Store, make: Maker) -> None:
    artifacts = [make("clean", f"{number}") for number in range(17)]
    digits = [artifact.fingerprint[0] for artifact in artifacts]
    shared = next(digit for digit in digits if digits.count(digit) > 1)  # 17 fingerprints share one of 16 digits
    with pytest.raises(ArtifactError, match=f"{digits.count(shared)} artifacts begin like this: give more digits"):
        store.resolve(shared)


def test_lineage_is_all_that_an_artifact_was_made_from(store: Store, make: Maker) -> None:
    download = make("download")
    clean = make("clean", "c", download)
    split = make("split", "s", download, clean)
    make("split", "another")
    assert store.lineage(split) == [split, download, clean]
    assert store.lineage(download) == [download]


def test_garbage_is_what_is_neither_kept_nor_in_use(store: Store, make: Maker) -> None:
    kept, old = make("clean", "kept"), make("clean", "old")
    dead, busy = store.partial("clean", "d" * 32), store.partial("clean", "b" * 32)
    for partial in (dead, busy):
        partial.mkdir(parents=True)
    with store.lock("clean", "b" * 32, on_wait=lambda: None):
        assert set(store.garbage([kept])) == {old.path, dead}
    assert set(store.garbage([kept])) == {old.path, dead, busy}
    assert kept.path.is_dir()


def test_what_is_kept_as_a_lineage_stays_whole(store: Store, make: Maker) -> None:
    download = make("download")
    clean = make("clean", "c", download)
    loose = make("download", "another")
    assert store.garbage(store.lineage(clean)) == [loose.path]
