"""The store of all artifacts on this machine, with a store of objects behind it that many machines share."""

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
    """The folder of all artifacts on this machine, with a store of objects behind it.

    What is made here is uploaded when it is published. What is not here is fetched when it is needed, once.
    """

    def __init__(self, root: Path, objects: Objects) -> None:
        super().__init__(root)
        self.objects = objects
        self._distrusted: set[str] = set()
        """Hashes of objects that turned out to be something else."""

    def find(self, stage: str, fingerprint: str, warn: Warn = _log.warning) -> Artifact | None:
        """Return the artifact, if it is published and whole here, or in the store of objects, and fetch it from there.

        `warn` is told of one that is damaged, and then the artifact counts as not there.

        Raises:
            ArtifactError: the store of objects does not answer.
        """
        if found := super().find(stage, fingerprint, warn):
            return found
        manifest = self._shared_manifest(stage, fingerprint, warn)
        try:
            return self._fetch(manifest) if manifest else None
        except DamagedError as error:
            warn(f"{error}: {_name(stage, fingerprint)} counts as not there")
            return None

    def knows(self, stage: str, fingerprint: str) -> Artifact | None:
        """Return what `find` would give, as far as manifests say; nothing is fetched, so its folder may be missing."""
        there = self.local(stage, fingerprint) or self._shared_manifest(stage, fingerprint)
        return Artifact(stage, fingerprint, self.path(stage, fingerprint)) if there else None

    def manifest(self, stage: str, fingerprint: str) -> Manifest | None:
        """Return the manifest of an artifact; that of the store of objects, if the artifact is not here."""
        return super().manifest(stage, fingerprint) or self._shared_manifest(stage, fingerprint)

    def resolve(self, name: str) -> Artifact:
        """As of `Store`; `stage/fingerprint` with all digits is looked for in the store of objects as well."""
        stage, _, digits = name.rpartition("/")
        found = self.find(stage, digits) if stage and len(digits) == _DIGITS else None
        return found or super().resolve(name)

    def share(self, artifact: Artifact) -> None:
        """See that the store of objects has it too: its upload may have been killed, or have been made without one.

        What was shared before is asked for, since another machine may have removed it; where the store does not answer
        then, that is not said to be an error.

        Raises:
            DamagedError: a file is not what its manifest says.
            ArtifactError: the store of objects does not answer.
        """
        mark, name = self._mark(artifact.stage, artifact.fingerprint), _name(artifact.stage, artifact.fingerprint)
        if mark.is_file() and mark.read_text(encoding="utf-8") == self.objects.url:
            try:
                if self.objects.has(name):
                    return
            except ArtifactError as error:
                _log.warning("%s was shared before; whether it still is cannot be asked: %s", artifact.short, error)
                return
        files = {output.sha256: artifact.path / file for file, output in artifact.manifest().outputs.items()}
        self.objects.put(name, files, (artifact.path / MANIFEST).read_bytes(), self._distrusted)
        mark.write_text(self.objects.url, encoding="utf-8")

    def publish(self, partial: Path, manifest: Manifest) -> Artifact:
        """As of `Store`. What `share` knows of a former artifact of this name is forgotten."""
        self._mark(manifest.stage, manifest.fingerprint).unlink(missing_ok=True)
        return super().publish(partial, manifest)

    def pin(self, artifact: Artifact, why: str | None) -> None:
        """As of `Store`, for all machines."""
        self.objects.pin(_name(artifact.stage, artifact.fingerprint), why)
        super().pin(artifact, why)

    def pins(self) -> set[tuple[str, str]]:
        """As of `Store`, those of other machines among them."""
        parts = (name.partition("/") for name in self.objects.pins())
        return super().pins() | {(stage, digits) for stage, _, digits in parts if is_name(stage, digits)}

    def remove(self, folder: Path) -> None:
        """As of `Store`; if the artifact is made or fetched again, it is uploaded again where it is missing."""
        self._mark(folder.parent.name, folder.name).unlink(missing_ok=True)
        super().remove(folder)

    def _shared_manifest(self, stage: str, fingerprint: str, warn: Warn = lambda problem: None) -> Manifest | None:
        """Return the manifest of an artifact in the store of objects, if there is one that can be used."""
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
            if found := super().find(stage, fingerprint):  # by another process, while we waited
                return found
            draft = self.partial(stage, f"{fingerprint}{_FETCHED}")
            shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
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
                self._distrusted.add(output.sha256)  # so that whoever makes it anew does not leave it there
                raise DamagedError(
                    f"artifact store {self.objects.url}: {_name(manifest.stage, manifest.fingerprint)}/{name} has "
                    "another sha256 than the manifest says"
                )


def _name(stage: str, fingerprint: str) -> str:
    return f"{stage}/{fingerprint}"


def _in_silence() -> None:
    """Wait for another process that fetches the same, and tell nobody."""
