"""Artifacts: immutable folders, each named by the fingerprint of what made it, in one store.

Layout of a store::

    <root>/<stage>/<fingerprint>/            the published artifact: outputs, manifest.json, report.json
    <root>/<stage>/<fingerprint>.partial/    one that is being made, or was when its process died
    <root>/<stage>/<fingerprint>.lock        held by the process that makes it
    <root>/<stage>/<fingerprint>.pin         there if somebody wants it kept, with the reason

An artifact exists if and only if its manifest does. The manifest is the truth of the cache: nothing else remembers
what has been made.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.errors import ArtifactError

MANIFEST = "manifest.json"
REPORT = "report.json"
PIN = ".pin"
_PARTIAL = ".partial"
_OLD = ".old"
_LOCK = ".lock"

Identity = dict[str, Any]


def fingerprint_of(identity: Mapping[str, Any]) -> str:
    """128 bits of the sha256 of an identity's canonical JSON, as 32 hexadecimal digits."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def sha256_of_file(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class OutputFile(BaseModel):
    """What the manifest knows of one file of an artifact."""

    model_config = ConfigDict(frozen=True)
    sha256: str
    bytes: int


class Manifest(BaseModel):
    """How an artifact was made and what it holds."""

    model_config = ConfigDict(frozen=True)
    stage: str
    fingerprint: str
    identity: Identity
    """What the fingerprint is the hash of: stage, version, configuration and the fingerprints of the inputs."""
    recipe: str
    outputs: dict[str, OutputFile]
    """Every file by its path within the artifact."""
    versions: dict[str, str]
    """Versions of Python, of this package and of the libraries that it builds on."""
    seconds: float
    host: str
    created: datetime

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprint of each input, by the stage that made it."""
        inputs: dict[str, str] = self.identity["inputs"]
        return inputs

    @property
    def size(self) -> int:
        """Bytes of all outputs."""
        return sum(file.bytes for file in self.outputs.values())


@dataclass(frozen=True)
class Artifact:
    """A published folder."""

    stage: str
    fingerprint: str
    path: Path

    @property
    def short(self) -> str:
        """`stage/` and the first digits of the fingerprint, as shown to people; the store takes them as well."""
        return f"{self.stage}/{self.fingerprint[:12]}"

    def manifest(self) -> Manifest:
        """Read the manifest.

        Raises:
            ArtifactError: the manifest is missing or damaged.
        """
        file = self.path / MANIFEST
        try:
            return Manifest.model_validate_json(file.read_bytes())
        except (OSError, ValidationError) as error:
            raise ArtifactError(f"{file}: not a manifest ({error}): remove the folder {self.path}") from None

    def report(self) -> dict[str, Any]:
        """Numbers and samples that the stage reported, as plain JSON."""
        report: dict[str, Any] = json.loads((self.path / REPORT).read_text(encoding="utf-8"))
        return report

    def damage(self, *, thorough: bool) -> str | None:
        """What is wrong with the files, or None. Sizes are compared, and hashes as well if `thorough`."""
        for name, expected in self.manifest().outputs.items():
            file = self.path / name
            if not file.is_file():
                return f"{file} is missing"
            if file.stat().st_size != expected.bytes:
                return f"{file} has {file.stat().st_size:,} bytes, not {expected.bytes:,}"
            if thorough and sha256_of_file(file) != expected.sha256:
                return f"{file} has another sha256 than the manifest says"
        return None


class Store:
    """The folder of all artifacts."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, stage: str, fingerprint: str) -> Path:
        """Where an artifact is, or would be."""
        return self.root / stage / fingerprint

    def find(self, stage: str, fingerprint: str) -> Artifact | None:
        """The artifact, if it is published and whole (every file there, with its size)."""
        return self.local(stage, fingerprint)

    def knows(self, stage: str, fingerprint: str) -> Artifact | None:
        """What `find` would give, at no cost."""
        return self.local(stage, fingerprint)

    def manifest(self, stage: str, fingerprint: str) -> Manifest | None:
        """The manifest of what `find` would give; nothing is fetched."""
        found = self.local(stage, fingerprint)
        return found.manifest() if found else None

    def share(self, artifact: Artifact) -> None:
        """See that whoever shares the store has the artifact too; a folder is shared as it is."""

    def local(self, stage: str, fingerprint: str) -> Artifact | None:
        """As `find`, but on this machine alone."""
        artifact = Artifact(stage, fingerprint, self.path(stage, fingerprint))
        if not (artifact.path / MANIFEST).is_file() or artifact.damage(thorough=False):
            return None
        return artifact

    def all(self, stage: str | None = None) -> list[Artifact]:
        """Published artifacts, newest first."""
        pattern = f"{stage or '*'}/*/{MANIFEST}"
        found = [file.parent for file in self.root.glob(pattern) if not file.parent.name.endswith(_PARTIAL)]
        artifacts = [Artifact(folder.parent.name, folder.name, folder) for folder in found]
        return sorted(artifacts, key=lambda artifact: artifact.manifest().created, reverse=True)

    def resolve(self, name: str) -> Artifact:
        """Find an artifact by `stage/fingerprint`, by a fingerprint, or by the first digits of one.

        Raises:
            ArtifactError: there is none, or there are several.
        """
        stage, _, digits = name.rpartition("/")
        matches = [a for a in self.all(stage or None) if a.fingerprint.startswith(digits)] if digits else []
        if len(matches) != 1:
            problem = f"{len(matches)} artifacts begin so: give more digits" if matches else "there is none"
            raise ArtifactError(f"artifact {name!r} in {self.root}: {problem}; `nmt artifacts ls` lists them")
        return matches[0]

    @contextmanager
    def lock(self, stage: str, fingerprint: str, on_wait: Callable[[], None]) -> Iterator[None]:
        """Hold the right to make an artifact; `on_wait` is called once if another process holds it now."""
        folder = self.root / stage
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{fingerprint}{_LOCK}")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            on_wait()
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def partial(self, stage: str, fingerprint: str) -> Path:
        """Where an artifact is made."""
        return self.root / stage / f"{fingerprint}{_PARTIAL}"

    def publish(self, partial: Path, manifest: Manifest) -> Artifact:
        """Write the manifest into `partial` and rename it into place, in one atomic step."""
        _write_durably(partial / MANIFEST, manifest.model_dump_json(indent=1))
        final = self.path(manifest.stage, manifest.fingerprint)
        if final.exists():  # a forced rerun, or a damaged one: a folder cannot be renamed onto another
            old = final.with_name(f"{final.name}{_OLD}{_PARTIAL}")
            shutil.rmtree(old, ignore_errors=True)
            final.rename(old)
            partial.rename(final)
            shutil.rmtree(old)
        else:
            partial.rename(final)
        return Artifact(manifest.stage, manifest.fingerprint, final)

    def lineage(self, artifact: Artifact) -> list[Artifact]:
        """The artifact and everything that it was made from, nearest first, as far as the store still has it.

        Nothing is fetched: `find` gives the files of whichever is to be read.
        """
        found = {artifact: artifact.manifest()}
        ahead = [artifact]
        for current in ahead:
            for stage, fingerprint in found[current].inputs.items():
                parent = Artifact(stage, fingerprint, self.path(stage, fingerprint))
                if parent not in found and (manifest := self.manifest(stage, fingerprint)):
                    found[parent] = manifest
                    ahead.append(parent)
        return ahead

    def pin(self, artifact: Artifact, why: str | None) -> None:
        """Note that an artifact is to be kept, and why; None: no longer."""
        file = artifact.path.with_name(f"{artifact.fingerprint}{PIN}")
        if why is None:
            file.unlink(missing_ok=True)
        else:
            _write_durably(file, why)

    def pins(self) -> set[tuple[str, str]]:
        """Stage and fingerprint of each artifact that is to be kept."""
        return {(file.parent.name, file.name.removesuffix(PIN)) for file in self.root.glob(f"*/*{PIN}")}

    def remove(self, folder: Path) -> None:
        """Remove an artifact, or one in the making that nobody makes."""
        shutil.rmtree(folder)

    def garbage(self, keep: Collection[Artifact]) -> list[Path]:
        """Folders that nothing needs: artifacts that are not kept, and partial ones that no process is making."""
        kept = {artifact.path for artifact in keep}
        rubbish = [artifact.path for artifact in self.all() if artifact.path not in kept]
        for partial in sorted(self.root.glob(f"*/*{_PARTIAL}")):
            maker = partial.name.removesuffix(_PARTIAL).removesuffix(_OLD)
            lock = FileLock(partial.with_name(maker + _LOCK))
            try:
                with lock.acquire(timeout=0):
                    rubbish.append(partial)
            except Timeout:
                continue
        return rubbish


def describe_outputs(folder: Path) -> dict[str, OutputFile]:
    """Hash and size of every file below `folder`, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {
        str(path.relative_to(folder)): OutputFile(sha256=sha256_of_file(path), bytes=path.stat().st_size)
        for path in files
    }


def now() -> datetime:
    """The time, in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


def _write_durably(path: Path, text: str) -> None:
    """Write a file so that it is whole on disk before the next step: it is what makes an artifact exist."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
