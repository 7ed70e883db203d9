"""Store of the artifacts on this machine, backed by an object store that many machines share."""

import logging
import shutil
from pathlib import Path

from nmt_core.errors import ArtifactError, DamagedError, words_of
from nmt_core.store.artifacts import MANIFEST, Artifact, Manifest, Store, Warn
from nmt_core.store.digests import sha256_of
from nmt_core.store.manifests import is_name, parse_manifest
from nmt_core.store.objects import Objects

__all__ = ["Objects", "SharedStore"]

_SHARED = ".shared"
_FETCHED = ".fetched"
_DIGITS = 32

_log = logging.getLogger(__name__)


class SharedStore(Store):
    """Folder of all artifacts on this machine, backed by an object store.

    An artifact made here is uploaded when it is published. An artifact that is not here is fetched once, when it is
    needed.
    """

    def __init__(self, root: Path, objects: Objects) -> None:
        super().__init__(root)
        self.objects = objects
        self._distrusted: set[str] = set()
        """Hashes of objects whose content turned out to be different."""

    def find(self, stage: str, fingerprint: str, warn: Warn = _log.warning) -> Artifact | None:
        """Return an artifact for reading, from this machine or fetched from the object store, or else None.

        It must be published, and its files must match their hashes. `warn` is called for a damaged one, which counts as
        missing.

        Raises:
            ArtifactError: the object store does not respond.
        """
        if artifact := super().find(stage, fingerprint, warn):
            return artifact
        manifest = self._shared_manifest(stage, fingerprint, warn)
        try:
            return self._fetch(manifest) if manifest else None
        except DamagedError as error:
            warn(f"{error}: {_name(stage, fingerprint)} counts as missing")
            return None

    def knows(self, stage: str, fingerprint: str) -> Artifact | None:
        """Return the result of `find`, as far as manifests show it.

        Nothing is fetched, so the folder may be missing.
        """
        there = self.local(stage, fingerprint) or self._shared_manifest(stage, fingerprint)
        return Artifact(stage, fingerprint, self.path(stage, fingerprint)) if there else None

    def manifest(self, stage: str, fingerprint: str) -> Manifest | None:
        """Return the manifest of an artifact on this machine, or else from the object store, or None."""
        return super().manifest(stage, fingerprint) or self._shared_manifest(stage, fingerprint)

    def resolve(self, name: str) -> Artifact:
        """Return the artifact with this name, as `Store.resolve` does.

        A full `stage/fingerprint` is searched in the object store as well.
        """
        stage, _, digits = name.rpartition("/")
        artifact = self.find(stage, digits) if stage and len(digits) == _DIGITS else None
        return artifact or super().resolve(name)

    def share(self, artifact: Artifact) -> None:
        """Upload an artifact to the object store if it is missing there, for example because an earlier upload was
        killed.

        An artifact that was shared before is checked, because another machine may have removed it. If the object store
        does not respond to this check, the failure is only logged.

        Raises:
            DamagedError: a file does not match its manifest.
            ArtifactError: the object store does not respond.
        """
        mark, name = self._mark(artifact.stage, artifact.fingerprint), _name(artifact.stage, artifact.fingerprint)
        if mark.is_file() and mark.read_text(encoding="utf-8") == self.objects.url:
            try:
                if self.objects.has(name):
                    return
            except ArtifactError as error:
                _log.warning("%s was shared before, but this cannot be checked now: %s", artifact.short, error)
                return
        files = {output.sha256: artifact.path / file for file, output in artifact.manifest().outputs.items()}
        self.objects.put(name, files, (artifact.path / MANIFEST).read_bytes(), self._distrusted)
        mark.write_text(self.objects.url, encoding="utf-8")

    def publish(self, partial: Path, manifest: Manifest) -> Artifact:
        """Publish an artifact as `Store.publish` does.

        The record that an earlier one of this name was shared is removed.
        """
        self._mark(manifest.stage, manifest.fingerprint).unlink(missing_ok=True)
        return super().publish(partial, manifest)

    def pin(self, artifact: Artifact, why: str | None) -> None:
        """Pin an artifact on all machines, and record the reason. None removes the pin."""
        self.objects.pin(_name(artifact.stage, artifact.fingerprint), why)
        super().pin(artifact, why)

    def pins(self) -> set[tuple[str, str]]:
        """Return the stage and the fingerprint of each artifact that this or another machine has pinned."""
        parts = (name.partition("/") for name in self.objects.pins())
        return super().pins() | {(stage, digits) for stage, _, digits in parts if is_name(stage, digits)}

    def remove(self, folder: Path) -> None:
        """Remove the folder of an artifact. If it is made or fetched again, it is uploaded again if missing there."""
        self._mark(folder.parent.name, folder.name).unlink(missing_ok=True)
        super().remove(folder)

    def _shared_manifest(self, stage: str, fingerprint: str, warn: Warn = lambda problem: None) -> Manifest | None:
        """Return the usable manifest of an artifact in the object store, or None."""
        if not is_name(stage, fingerprint):
            return None
        text = self.objects.manifest(_name(stage, fingerprint))
        try:
            return parse_manifest(text, stage, fingerprint) if text is not None else None
        except ValueError as error:
            name = _name(stage, fingerprint)
            warn(f"artifact store {self.objects.url}: the manifest of {name} cannot be used: {words_of(error)}")
            return None

    def _mark(self, stage: str, fingerprint: str) -> Path:
        return self.root / stage / f"{fingerprint}{_SHARED}"

    def _fetch(self, manifest: Manifest) -> Artifact:
        stage, fingerprint = manifest.stage, manifest.fingerprint
        with self.lock(stage, f"{fingerprint}{_FETCHED}", on_wait=_in_silence):
            if fetched := super().find(stage, fingerprint):  # another process has fetched it during the wait
                return fetched
            draft = self.partial(stage, f"{fingerprint}{_FETCHED}")
            shutil.rmtree(draft, ignore_errors=True)  # left by a process that was killed
            try:
                self.objects.get(
                    _name(stage, fingerprint),
                    {draft / name: output.sha256 for name, output in manifest.outputs.items()},
                )
                self._require_whole(draft, manifest)
                artifact = self.publish(draft, manifest)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            self._mark(stage, fingerprint).write_text(self.objects.url, encoding="utf-8")
            return artifact

    def _require_whole(self, draft: Path, manifest: Manifest) -> None:
        for name, output in manifest.outputs.items():
            if sha256_of(draft / name) != output.sha256:
                self._distrusted.add(output.sha256)  # so that the artifact made anew replaces this object
                raise DamagedError(
                    f"artifact store {self.objects.url}: {_name(manifest.stage, manifest.fingerprint)}/{name} does "
                    "not match its sha256 in the manifest"
                )


def _name(stage: str, fingerprint: str) -> str:
    return f"{stage}/{fingerprint}"


def _in_silence() -> None:
    """Do nothing when another process is fetching the same artifact."""
