"""Artifacts: immutable folders in one store, each named by the fingerprint of its identity.

Layout of a store::

    <root>/<stage>/<fingerprint>/            published artifact: outputs, manifest.json, report.json
    <root>/<stage>/<fingerprint>.partial/    unfinished artifact, of a process that runs or has died
    <root>/<stage>/<fingerprint>.lock        lock, held by the process that makes the artifact
    <root>/<stage>/<fingerprint>.pin         pin: the artifact is kept, for the reason in the file

An artifact exists if and only if its manifest does. The manifests are the only record of what has been made.
"""

import heapq
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nmt_core.errors import ArtifactError
from nmt_core.store import digests
from nmt_core.store.atomic import sync, sync_below, write_atomically
from nmt_core.store.manifests import (
    MANIFEST,
    REPORT,
    Artifact,
    Identity,
    Manifest,
    describe_outputs,
    fingerprint_of,
    is_name,
    now,
)

__all__ = [
    "MANIFEST",
    "PARTIAL",
    "PIN",
    "REPORT",
    "Artifact",
    "Identity",
    "Manifest",
    "Store",
    "Warn",
    "describe_outputs",
    "fingerprint_of",
    "now",
]

PIN = ".pin"
PARTIAL = ".partial"
"""Suffix of the folder of an unfinished artifact."""
_OLD = ".old"
_LOCK = ".lock"

Warn = Callable[[str], None]
"""Function that is called with a sentence about an artifact that cannot be used."""

_log = logging.getLogger(__name__)


class Store:
    """Folder of all artifacts."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, stage: str, fingerprint: str) -> Path:
        """Return the folder of an artifact, which need not exist.

        Raises:
            ArtifactError: the name does not have the form of an artifact's name. It may be a path to somewhere else.
        """
        if not is_name(stage, fingerprint):
            raise ArtifactError(
                f"{str(stage)[:80]!r}, {str(fingerprint)[:80]!r}: not the stage and the fingerprint of an artifact, "
                "which has 32 hexadecimal digits: `nmt artifacts ls` lists them"
            )
        return self.root / stage / fingerprint

    def find(self, stage: str, fingerprint: str, warn: Warn = _log.warning) -> Artifact | None:
        """Return an artifact for reading, if it is published and its files match their hashes, or else None.

        `warn` is called for a damaged one, which counts as missing.
        """
        return self._whole(stage, fingerprint, thorough=True, warn=warn)

    def knows(self, stage: str, fingerprint: str) -> Artifact | None:
        """Return the result of `find`, as far as it is known without reading or fetching files."""
        return self.local(stage, fingerprint)

    def manifest(self, stage: str, fingerprint: str) -> Manifest | None:
        """Return the manifest of the artifact that `find` would return, or None. Nothing is fetched."""
        artifact = self.local(stage, fingerprint)
        return artifact.manifest() if artifact else None

    def share(self, artifact: Artifact) -> None:
        """Make an artifact available to all users of the store. In a plain folder it already is."""

    def local(self, stage: str, fingerprint: str) -> Artifact | None:
        """Return the artifact if this machine has all of its files in their right sizes, or else None."""
        return self._whole(stage, fingerprint, thorough=False, warn=lambda damage: None)

    def _whole(self, stage: str, fingerprint: str, *, thorough: bool, warn: Warn) -> Artifact | None:
        if not is_name(stage, fingerprint) or not (self.path(stage, fingerprint) / MANIFEST).exists():
            return None
        artifact = Artifact(stage, fingerprint, self.path(stage, fingerprint))
        damage = artifact.damage(thorough=thorough)
        if damage:
            warn(f"{artifact.short} is damaged and not used: {damage}")
        return None if damage else artifact

    def published(self, stage: str | None = None) -> Iterator[Artifact]:
        """Yield each artifact of this machine that has a manifest, in no particular order. No manifest is read."""
        for entry in self._entries(stage):
            if Path(entry.path, MANIFEST).exists():
                yield _artifact_in(entry)

    def newest(self, stage: str, most: int) -> list[Artifact]:
        """Return the most recently published artifacts of a stage, the newest first. No manifest is read."""

        def written(entry: "os.DirEntry[str]") -> int:
            with suppress(OSError):
                return entry.stat().st_mtime_ns  # the manifest is the last file written into the folder
            return 0

        entries = heapq.nlargest(most, self._entries(stage), key=written)
        return [_artifact_in(entry) for entry in entries if Path(entry.path, MANIFEST).exists()]

    def _entries(self, stage: str | None) -> "Iterator[os.DirEntry[str]]":
        """Yield the folders, of one stage or of all, whose names have the form of an artifact's name."""
        for folder in self.root.glob(f"{stage or '*'}/"):
            with suppress(NotADirectoryError, FileNotFoundError), os.scandir(folder) as entries:
                yield from (entry for entry in entries if is_name(folder.name, entry.name))

    def resolve(self, name: str) -> Artifact:
        """Return the artifact with this name: `stage/fingerprint`, a fingerprint, or the first digits of one.

        Raises:
            ArtifactError: no artifact has this name, or several do.
        """
        stage, _, digits = name.rpartition("/")
        known = self.published(stage or None) if digits and is_name(stage or "any", "0" * 32) else ()
        matches = [artifact for artifact in known if artifact.fingerprint.startswith(digits)]
        if len(matches) != 1:
            problem = f"{len(matches)} artifacts begin like this: give more digits" if matches else "there is none"
            raise ArtifactError(f"artifact {name!r} in {self.root}: {problem}; `nmt artifacts ls` lists them")
        return matches[0]

    @contextmanager
    def lock(self, stage: str, fingerprint: str, on_wait: Callable[[], None]) -> Iterator[None]:
        """Hold the lock under which an artifact is made. `on_wait` is called once if another process holds it now."""
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
        """Return the folder in which an artifact is made."""
        return self.root / stage / f"{fingerprint}{PARTIAL}"

    def publish(self, partial: Path, manifest: Manifest) -> Artifact:
        """Write the manifest into `partial`, and rename the folder into place in one atomic step.

        All files are on disk before the manifest, which declares them complete, and the manifest is on disk before the
        rename.
        """
        sync_below(partial)
        write_atomically(partial / MANIFEST, manifest.model_dump_json(indent=1))
        sync(partial)
        final = self.path(manifest.stage, manifest.fingerprint)
        if final.exists():  # the stage was forced, or its artifact is damaged: a folder cannot be renamed onto another
            old = final.with_name(f"{final.name}{_OLD}{PARTIAL}")
            shutil.rmtree(old, ignore_errors=True)
            final.rename(old)
            partial.rename(final)
            sync(final.parent)
            shutil.rmtree(old)
        else:
            partial.rename(final)
            sync(final.parent)
        for name in manifest.outputs:
            digests.moved(partial / name, final / name)
        return Artifact(manifest.stage, manifest.fingerprint, final)

    def lineage(self, artifact: Artifact) -> list[Artifact]:
        """Return the artifact and everything that it was made from, nearest first, as far as the store still has it.

        Nothing is fetched. `find` returns the files of an artifact for reading.
        """
        manifests = {artifact: artifact.manifest()}
        ahead = [artifact]
        for current in ahead:
            for stage, fingerprint in manifests[current].inputs.items():
                parent = Artifact(stage, fingerprint, self.path(stage, fingerprint))
                if parent not in manifests and (manifest := self.manifest(stage, fingerprint)):
                    manifests[parent] = manifest
                    ahead.append(parent)
        return ahead

    def pin(self, artifact: Artifact, why: str | None) -> None:
        """Pin an artifact, so that it is kept, and record the reason. None removes the pin."""
        file = artifact.path.with_name(f"{artifact.fingerprint}{PIN}")
        if why is None:
            file.unlink(missing_ok=True)
        else:
            write_atomically(file, why)

    def pins(self) -> set[tuple[str, str]]:
        """Return the stage and the fingerprint of each pinned artifact."""
        return {(file.parent.name, file.name.removesuffix(PIN)) for file in self.root.glob(f"*/*{PIN}")}

    def remove(self, folder: Path) -> None:
        """Remove the folder of an artifact, or of an unfinished one that no process is making."""
        shutil.rmtree(folder)

    def garbage(self, keep: Collection[Artifact]) -> list[Path]:
        """Return the folders that nothing needs.

        These are artifacts that are not kept, and unfinished ones that no process is making.
        """
        kept = {artifact.path for artifact in keep}
        rubbish = sorted(artifact.path for artifact in self.published() if artifact.path not in kept)
        for partial in sorted(self.root.glob(f"*/*{PARTIAL}")):
            maker = partial.name.removesuffix(PARTIAL).removesuffix(_OLD)
            lock = FileLock(partial.with_name(maker + _LOCK))
            try:
                with lock.acquire(timeout=0):
                    rubbish.append(partial)
            except Timeout:
                continue
        return rubbish


def _artifact_in(entry: "os.DirEntry[str]") -> Artifact:
    folder = Path(entry.path)
    return Artifact(folder.parent.name, folder.name, folder)
