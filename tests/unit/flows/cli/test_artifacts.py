"""`nmt artifacts`: a damaged artifact hides no other, and `verify` reads all that exist."""

from pathlib import Path
from typing import Any

import pytest
from support.published import identity_like

from flows.cli.artifacts import collect_garbage, list_artifacts, pin_artifact, show_lineage, verify_artifacts
from flows.settings import Settings
from nmt_core.errors import ArtifactError, ConfigError
from nmt_core.store.artifacts import MANIFEST, REPORT, Artifact, Manifest, describe_outputs, fingerprint_of, now


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("MLFLOW_TRACKING_URI", "NMT_STORE"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("NMT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return Settings.load()


def put(settings: Settings, name: str, *inputs: Artifact) -> Artifact:
    stage, _, digit = name.partition("/")
    identity = identity_like(stage, digit, {each.stage: each.fingerprint for each in inputs})
    folder = settings.store.partial(stage, fingerprint_of(identity))
    folder.mkdir(parents=True)
    (folder / "data").write_text(name)
    (folder / REPORT).write_text("{}")
    values: dict[str, Any] = {"versions": {}, "seconds": 0, "host": "", "created": now(), "recipe": "test"}
    values |= {"stage": stage, "fingerprint": fingerprint_of(identity), "identity": identity}
    return settings.store.publish(folder, Manifest(outputs=describe_outputs(folder), **values))


@pytest.mark.parametrize("text", ["", '{"stage": '])
def test_one_empty_manifest_ends_neither_ls_nor_gc(
    home: Settings, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    kept, loose, damaged = put(home, "clean/1"), put(home, "clean/2"), put(home, "clean/3")
    (damaged.path / MANIFEST).write_text(text)
    list_artifacts(None)
    said = capsys.readouterr().out
    assert kept.short in said and loose.short in said
    assert f"not the manifest of {damaged.short}" in said.splitlines()[-1]
    show_lineage(kept.short)
    pin_artifact(kept.short, "the paper")
    collect_garbage(0, yes=True)
    assert list(home.store.published()) == [kept]


def test_an_artifact_that_is_needed_and_damaged_is_no_garbage(home: Settings) -> None:
    """A search for its remains finds it, until it is made again."""
    pinned = put(home, "clean/1")
    pin_artifact(pinned.short, "the paper")
    (pinned.path / "data").write_text("clean/2, damaged")
    collect_garbage(0, yes=True)
    assert (pinned.path / "data").exists()


def test_verify_finds_what_nothing_else_sees(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    clean = put(home, "clean/1")
    split, other = put(home, "split/2", clean), put(home, "clean/3")
    verify_artifacts(split.short, everything=False)
    assert capsys.readouterr().out.splitlines() == [f"{split.short} intact", f"{clean.short} intact"]
    (clean.path / "data").write_text("clean/4")
    verify_artifacts(other.short, everything=False)
    for name in (split.short, None):
        with pytest.raises(ArtifactError, match=r"damaged: 1 of \d artifacts"):
            verify_artifacts(name, everything=name is None)
        said = capsys.readouterr().out
        assert f"{clean.short} {clean.path}/data does not match its sha256 in the manifest" in said
        assert f"{split.short} intact" in said
    for name, everything in ((None, False), (split.short, True)):
        with pytest.raises(ConfigError, match="--all"):
            verify_artifacts(name, everything=everything)


def test_verify_looks_at_an_artifact_without_a_manifest_and_at_what_it_was_made_from(home: Settings) -> None:
    clean = put(home, "clean/1")
    split = put(home, "split/2", clean)
    (clean.path / MANIFEST).write_text("")
    with pytest.raises(ArtifactError, match="damaged: 1 of 2 artifacts"):
        verify_artifacts(split.short, everything=False)
