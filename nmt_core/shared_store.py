"""Artifacts in a store of objects (S3, GCS...) that many machines share, behind the folder that each of them has.

Layout, below an address that fsspec knows::

    <stage>/<fingerprint>/<sha256>          a file of the artifact, by the hash of its bytes
    <stage>/<fingerprint>/manifest.json     written last: an artifact without it does not exist
    <stage>/<fingerprint>.pin               kept, whatever else is removed
    registered/<id>.json                    what a version of a registered model was made of

A store of objects knows no rename. But it shows an object only when its last byte has come, and files are named by
their hash: what two machines upload at once, or a third one after the first was killed, never mixes. Whether an
artifact is there is one request for its manifest; nothing is listed but what is about to be uploaded or removed.
"""

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs
from pydantic import ValidationError

from nmt_core.artifacts import MANIFEST, PIN, Artifact, Manifest, Store, sha256_of_file
from nmt_core.errors import ArtifactError, words_of

_SHARED = ".shared"
_FETCHED = ".fetched"
_MARKS = "registered"
_DIGITS = 32
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Listed:
    """What lies below the name of one artifact."""

    names: list[str] = field(default_factory=list)
    bytes: int = 0
    newest: datetime = _LONG_AGO
    """When the youngest of the objects was written."""
    is_whole: bool = False
    """Whether there is a manifest; without one an upload was killed, or is going on."""


class Objects:
    """Artifacts as objects below an address. An artifact's name is `stage/fingerprint`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._opened: tuple[Any, str] | None = None

    def manifest(self, name: str) -> bytes | None:
        """The manifest of an artifact, or None: there is no such artifact."""
        with self._named() as (store, root):
            try:
                return bytes(store.cat_file(f"{root}/{name}/{MANIFEST}"))
            except FileNotFoundError:
                return None

    def put(self, name: str, files: Mapping[str, Path], manifest: bytes) -> None:
        """Upload what is not there yet, the manifest last.

        Args:
            name: of the artifact.
            files: by the sha256 of each.
            manifest: its text.
        """
        with self._named() as (store, root):
            folder = f"{root}/{name}"
            there = {key.rpartition("/")[2]: info["size"] for key, info in store.find(folder, detail=True).items()}
            missing = [digest for digest, file in files.items() if there.get(digest) != file.stat().st_size]
            if missing:
                store.put([str(files[digest]) for digest in missing], [f"{folder}/{digest}" for digest in missing])
            store.pipe_file(f"{folder}/{MANIFEST}", manifest)

    def get(self, name: str, files: Mapping[Path, str]) -> None:
        """Download files to paths, each by its sha256."""
        with self._named() as (store, root):
            for folder in {path.parent for path in files}:
                folder.mkdir(parents=True, exist_ok=True)
            if files:
                store.get([f"{root}/{name}/{digest}" for digest in files.values()], [str(path) for path in files])

    def all(self) -> dict[str, Listed]:
        """Everything, by the artifact's name: one listing of the whole store, for whoever cleans up."""
        found: dict[str, Listed] = {}
        with self._named() as (store, root):
            for key, info in store.find(root, detail=True).items():
                parts = key.removeprefix(root).strip("/").split("/")
                if len(parts) != 3:
                    continue
                listed = found.setdefault("/".join(parts[:2]), Listed())
                listed.names.append(key)
                listed.bytes += info["size"]
                listed.newest = max(listed.newest, _modified(info))
                listed.is_whole |= parts[2] == MANIFEST
        return found

    def remove(self, listed: Listed) -> None:
        """Remove an artifact, its manifest first: half of one is none."""
        with self._named() as (store, _):
            for name in sorted(listed.names, key=lambda name: not name.endswith(f"/{MANIFEST}")):
                with contextlib.suppress(FileNotFoundError):
                    store.rm_file(name)

    def pin(self, name: str, text: str | None) -> None:
        """Pin an artifact, with a text that says why; None takes the pin away."""
        with self._named() as (store, root):
            if text is not None:
                store.pipe_file(f"{root}/{name}{PIN}", text.encode())
                return
            with contextlib.suppress(FileNotFoundError):
                store.rm_file(f"{root}/{name}{PIN}")

    def pins(self) -> set[str]:
        """Names of all that are pinned."""
        with self._named() as (store, root):
            return {key.removeprefix(f"{root}/").removesuffix(PIN) for key in store.glob(f"{root}/*/*{PIN}")}

    def write_mark(self, name: str, text: str) -> None:
        """Write down what a version of a registered model was made of."""
        with self._named() as (store, root):
            store.pipe_file(f"{root}/{_MARKS}/{name}.json", text.encode())

    def marks(self) -> dict[str, str]:
        """The text of each mark, by its name."""
        with self._named() as (store, root):
            keys = [str(key) for key in store.glob(f"{root}/{_MARKS}/*.json")]
            found = store.cat(keys) if keys else {}
            found = found if isinstance(found, dict) else {keys[0]: found}
            return {key.rpartition("/")[2].removesuffix(".json"): text.decode() for key, text in found.items()}

    def remove_mark(self, name: str) -> None:
        """Take a mark away."""
        with self._named() as (store, root), contextlib.suppress(FileNotFoundError):
            store.rm_file(f"{root}/{_MARKS}/{name}.json")

    @contextlib.contextmanager
    def _named(self) -> Iterator[tuple[Any, str]]:
        """The fsspec file system and our root in it; its errors, of which each has its own, name the address."""
        try:
            if self._opened is None:
                options = {"auto_mkdir": True} if self.url.startswith("file:") else {}
                store, root = url_to_fs(self.url, use_listings_cache=False, **options)  # others write there as well
                self._opened = store, str(root).rstrip("/")
            yield self._opened
        except Exception as error:
            raise ArtifactError(
                f"artifact store {self.url}: {words_of(error)}: see that it answers and takes your credentials, then "
                "run the same command again; what was made is kept"
            ) from error


class SharedStore(Store):
    """The folder of all artifacts on this machine, with a store of objects behind it.

    What is made here is uploaded when it is published. What is not here is fetched when it is needed, once.
    """

    def __init__(self, root: Path, objects: Objects) -> None:
        super().__init__(root)
        self.objects = objects

    def find(self, stage: str, fingerprint: str) -> Artifact | None:
        """The artifact, if it is published and whole here, or in the store of objects, from which it is then fetched.

        Raises:
            ArtifactError: the store of objects does not answer, or what it gives is not what the manifest says.
        """
        if found := self.local(stage, fingerprint):
            return found
        manifest = self._shared_manifest(stage, fingerprint)
        return self._fetch(manifest) if manifest else None

    def knows(self, stage: str, fingerprint: str) -> Artifact | None:
        """What `find` would give; but nothing is fetched, so the folder need not be there."""
        there = self.local(stage, fingerprint) or self._shared_manifest(stage, fingerprint)
        return Artifact(stage, fingerprint, self.path(stage, fingerprint)) if there else None

    def manifest(self, stage: str, fingerprint: str) -> Manifest | None:
        """As of `Store`; that of the store of objects, if the artifact is not here."""
        return super().manifest(stage, fingerprint) or self._shared_manifest(stage, fingerprint)

    def resolve(self, name: str) -> Artifact:
        """As of `Store`; `stage/fingerprint` with all digits is looked for in the store of objects as well."""
        stage, _, digits = name.rpartition("/")
        found = self.find(stage, digits) if stage and len(digits) == _DIGITS else None
        return found or super().resolve(name)

    def share(self, artifact: Artifact) -> None:
        """See that the store of objects has it too: its upload may have been killed, or have been made without one."""
        mark = self._mark(artifact.stage, artifact.fingerprint)
        if mark.is_file() and mark.read_text(encoding="utf-8") == self.objects.url:
            return
        files = {output.sha256: artifact.path / name for name, output in artifact.manifest().outputs.items()}
        self.objects.put(_name(artifact.stage, artifact.fingerprint), files, (artifact.path / MANIFEST).read_bytes())
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
        return super().pins() | {(stage, fingerprint) for stage, _, fingerprint in parts}

    def remove(self, folder: Path) -> None:
        """As of `Store`; if the artifact is made or fetched again, it is uploaded again where it is missing."""
        self._mark(folder.parent.name, folder.name).unlink(missing_ok=True)
        super().remove(folder)

    def _shared_manifest(self, stage: str, fingerprint: str) -> Manifest | None:
        """The manifest of an artifact in the store of objects, if there is one that can be read."""
        text = self.objects.manifest(_name(stage, fingerprint))
        with contextlib.suppress(ValidationError):
            return Manifest.model_validate_json(text) if text else None
        return None

    def _mark(self, stage: str, fingerprint: str) -> Path:
        return self.root / stage / f"{fingerprint}{_SHARED}"

    def _fetch(self, manifest: Manifest) -> Artifact:
        stage, fingerprint = manifest.stage, manifest.fingerprint
        with self.lock(stage, f"{fingerprint}{_FETCHED}", on_wait=_in_silence):
            if found := self.local(stage, fingerprint):  # by another process, while we waited
                return found
            draft = self.partial(stage, f"{fingerprint}{_FETCHED}")
            shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
            try:
                self.objects.get(
                    _name(stage, fingerprint),
                    {draft / name: output.sha256 for name, output in manifest.outputs.items()},
                )
                self._see_that_it_is_whole(draft, manifest)
                artifact = self.publish(draft, manifest)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            self._mark(stage, fingerprint).write_text(self.objects.url, encoding="utf-8")
            return artifact

    def _see_that_it_is_whole(self, draft: Path, manifest: Manifest) -> None:
        for name, output in manifest.outputs.items():
            if sha256_of_file(draft / name) != output.sha256:
                raise ArtifactError(
                    f"artifact store {self.objects.url}: {_name(manifest.stage, manifest.fingerprint)}/{name} has "
                    f"another sha256 than the manifest says: make it anew with --force {manifest.stage}"
                )


def _name(stage: str, fingerprint: str) -> str:
    return f"{stage}/{fingerprint}"


def _modified(info: Mapping[str, Any]) -> datetime:
    """When an object was written; each file system has its own word for it. Unknown: now, so that nothing is old."""
    for word in ("LastModified", "last_modified", "updated", "mtime"):
        value = info.get(word)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            return datetime.fromisoformat(value)
    return datetime.now(UTC)


def _in_silence() -> None:
    """Wait for another process that fetches the same, and tell nobody."""
