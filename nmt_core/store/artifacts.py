"""Artifacts: immutable folders, each named by the fingerprint of what made it, in one store.

Layout of a store::

    <root>/<stage>/<fingerprint>/            the published artifact: outputs, manifest.json, report.json
    <root>/<stage>/<fingerprint>.partial/    one that is being made, or was when its process died
    <root>/<stage>/<fingerprint>.lock        held by the process that makes it
    <root>/<stage>/<fingerprint>.pin         there if somebody wants it kept, with the reason

An artifact exists if and only if its manifest does. The manifest is the truth of the cache: nothing else remembers
what has been made.
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
from nmt_core.store.atomic import sync, sync_below, write_durably
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
"""What the name of a folder ends in while its artifact is being made."""
_OLD = ".old"
_LOCK = ".lock"

Warn = Callable[[str], None]
"""Takes a sentence about an artifact that cannot be used."""

_log = logging.getLogger(__name__)


class Store:
    """The folder of all artifacts."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, stage: str, fingerprint: str) -> Path:
        """Return where an artifact is, or would be.

        Raises:
            ArtifactError: this is no artifact's name, but perhaps a path to somewhere else.
        """
        if not is_name(stage, fingerprint):
            raise ArtifactError(
                f"{str(stage)[:80]!r}, {str(fingerprint)[:80]!r}: not the stage and the fingerprint of an artifact, "
                "which has 32 hexadecimal digits: `nmt artifacts ls` lists them"
            )
        return self.root / stage / fingerprint

    def find(self, stage: str, fingerprint: str, warn: Warn = _log.warning) -> Artifact | None:
        """Return the artifact to be read, if it is published and whole by its hashes.

        `warn` is told of one that is damaged, and then the artifact counts as not there.
        """
        return self._whole(stage, fingerprint, thorough=True, warn=warn)

    def knows(self, stage: str, fingerprint: str) -> Artifact | None:
        """Return what `find` would give, as far as it can be said without reading or fetching files."""
        return self.local(stage, fingerprint)

    def manifest(self, stage: str, fingerprint: str) -> Manifest | None:
        """Return the manifest of what `find` would give; nothing is fetched."""
        found = self.local(stage, fingerprint)
        return found.manifest() if found else None

    def share(self, artifact: Artifact) -> None:
        """See that whoever shares the store has the artifact too; a folder is shared as it is."""

    def local(self, stage: str, fingerprint: str) -> Artifact | None:
        """Return the artifact if this machine has it with every file in its size."""
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
        """Give each artifact of this machine that has a manifest, in no order. No manifest is read."""
        for entry in self._entries(stage):
            if Path(entry.path, MANIFEST).exists():
                yield _artifact_in(entry)

    def newest(self, stage: str, most: int) -> list[Artifact]:
        """Return the artifacts of a stage that were published last, the newest first; no manifest is read."""

        def written(entry: "os.DirEntry[str]") -> int:
            with suppress(OSError):
                return entry.stat().st_mtime_ns  # the manifest is the last that is written into the folder
            return 0

        entries = heapq.nlargest(most, self._entries(stage), key=written)
        return [_artifact_in(entry) for entry in entries if Path(entry.path, MANIFEST).exists()]

    def _entries(self, stage: str | None) -> "Iterator[os.DirEntry[str]]":
        """Folders that are called as artifacts are; of a stage, or of all."""
        for folder in self.root.glob(f"{stage or '*'}/"):
            with suppress(NotADirectoryError, FileNotFoundError), os.scandir(folder) as entries:
                yield from (entry for entry in entries if is_name(folder.name, entry.name))

    def resolve(self, name: str) -> Artifact:
        """Find an artifact by `stage/fingerprint`, by a fingerprint, or by the first digits of one.

        Raises:
            ArtifactError: there is none, or there are several.
        """
        stage, _, digits = name.rpartition("/")
        known = self.published(stage or None) if digits and is_name(stage or "any", "0" * 32) else ()
        matches = [artifact for artifact in known if artifact.fingerprint.startswith(digits)]
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
        return self.root / stage / f"{fingerprint}{PARTIAL}"

    def publish(self, partial: Path, manifest: Manifest) -> Artifact:
        """Write the manifest into `partial` and rename it into place, in one atomic step.

        All files are on disk before the manifest, which says that they are whole, and the manifest before its name.
        """
        sync_below(partial)
        write_durably(partial / MANIFEST, manifest.model_dump_json(indent=1))
        sync(partial)
        final = self.path(manifest.stage, manifest.fingerprint)
        if final.exists():  # a forced rerun, or a damaged one: a folder cannot be renamed onto another
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
            write_durably(file, why)

    def pins(self) -> set[tuple[str, str]]:
        """Stage and fingerprint of each artifact that is to be kept."""
        return {(file.parent.name, file.name.removesuffix(PIN)) for file in self.root.glob(f"*/*{PIN}")}

    def remove(self, folder: Path) -> None:
        """Remove an artifact, or one in the making that nobody makes."""
        shutil.rmtree(folder)

    def garbage(self, keep: Collection[Artifact]) -> list[Path]:
        """Folders that nothing needs: artifacts that are not kept, and partial ones that no process is making."""
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
