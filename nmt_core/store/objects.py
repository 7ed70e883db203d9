"""Artifacts in an object store (S3, GCS...) that many machines share. `shared.py` puts a local folder in front of it.

Layout, below an address that fsspec supports::

    <stage>/<fingerprint>/<sha256>          file of the artifact, named by the hash of its bytes
    <stage>/<fingerprint>/manifest.json     manifest, written last: an artifact without it does not exist
    <stage>/<fingerprint>.pin               pin: the artifact is kept, whatever else is removed
    registered/<id>.json                    artifacts from which a version of a registered model was made

An object store cannot rename. But it shows an object only after its last byte is written, and files are named by their
hashes. So uploads never mix, even if two machines upload at once or an upload is repeated after the first was killed.
One request for the manifest shows if an artifact exists. Only what is about to be uploaded or removed is listed.

Other machines write to the store, and a rule of the bucket may remove objects. So a manifest is used only if it belongs
to the requested artifact, and an artifact with a missing or damaged object counts as missing.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs

from nmt_core.errors import ArtifactError, DamagedError, words_of
from nmt_core.store.artifacts import MANIFEST, PIN
from nmt_core.store.digests import sha256_of

_MARKS = "registered"
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Listed:
    """Objects of one artifact."""

    names: list[str] = field(default_factory=list)
    bytes: int = 0
    newest: datetime = _LONG_AGO
    """Time at which the newest object was written."""
    is_whole: bool = False
    """True if there is a manifest. Without one, an upload was killed or is still running."""


class Objects:
    """Artifacts as objects below an address. The name of an artifact is `stage/fingerprint`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._opened: tuple[Any, str] | None = None

    def manifest(self, name: str) -> bytes | None:
        """Return the manifest of an artifact, or None if there is no such artifact."""
        with self._named() as (store, root):
            try:
                return bytes(store.cat_file(f"{root}/{name}/{MANIFEST}"))
            except FileNotFoundError:
                return None

    def has(self, name: str) -> bool:
        """Return True if there is an artifact of this name."""
        with self._named() as (store, root):
            return bool(store.exists(f"{root}/{name}/{MANIFEST}"))

    def put(self, name: str, files: Mapping[str, Path], manifest: bytes, anew: Collection[str] = ()) -> None:
        """Upload the missing files of an artifact, and then its manifest.

        Args:
            name: name of the artifact.
            files: files by their sha256.
            manifest: text of the manifest.
            anew: hashes of files that are uploaded even if they are present.

        Raises:
            DamagedError: a file does not match its hash.
        """
        with self._named() as (store, root):
            folder = f"{root}/{name}"
            there = {key.rpartition("/")[2]: info["size"] for key, info in store.find(folder, detail=True).items()}
            missing = [key for key, file in files.items() if key in anew or there.get(key) != file.stat().st_size]
            for digest in missing:
                if sha256_of(files[digest], anew=True) != digest:
                    raise DamagedError(
                        f"{files[digest]} does not match its sha256 in the manifest and is not uploaded: run the same "
                        "command again, which makes the artifact again"
                    )
            if missing:
                store.put([str(files[digest]) for digest in missing], [f"{folder}/{digest}" for digest in missing])
            store.pipe_file(f"{folder}/{MANIFEST}", manifest)

    def get(self, name: str, files: Mapping[Path, str]) -> None:
        """Download files to paths, each by its sha256.

        Raises:
            DamagedError: a file is missing in the store.
        """
        with self._named() as (store, root):
            for folder in {path.parent for path in files}:
                folder.mkdir(parents=True, exist_ok=True)
            try:
                if files:
                    store.get([f"{root}/{name}/{digest}" for digest in files.values()], [str(path) for path in files])
            except FileNotFoundError as error:
                raise DamagedError(f"artifact store {self.url}: an object of {name} is missing ({error})") from None

    def all(self) -> dict[str, Listed]:
        """Return the objects of every artifact, by its name. This lists the whole store once, for cleaning up."""
        artifacts: dict[str, Listed] = {}
        with self._named() as (store, root):
            for key, info in store.find(root, detail=True).items():
                parts = key.removeprefix(root).strip("/").split("/")
                if len(parts) != 3:
                    continue
                listed = artifacts.setdefault("/".join(parts[:2]), Listed())
                listed.names.append(key)
                listed.bytes += info["size"]
                listed.newest = max(listed.newest, _modified(info))
                listed.is_whole |= parts[2] == MANIFEST
        return artifacts

    def unfinished(self, age: timedelta) -> list[str] | None:
        """Return the keys of unfinished uploads that are at least `age` old. Their parts take space but appear in no
        listing.

        None means that this kind of store cannot list them.
        """
        with self._named() as (store, root):
            if not hasattr(store, "call_s3"):
                return None
            bucket, _, prefix = root.partition("/")
            arguments, uploads = {"Bucket": bucket, "Prefix": f"{prefix}/" if prefix else ""}, list[dict[str, Any]]()
            while True:
                page = store.call_s3("list_multipart_uploads", **arguments)
                uploads += page.get("Uploads", [])
                if not page.get("IsTruncated"):
                    break
                arguments |= {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
        before = datetime.now(UTC) - age
        return [upload["Key"] for upload in uploads if upload["Initiated"] <= before]

    def remove(self, listed: Listed) -> None:
        """Remove an artifact, its manifest first, so that a half-removed artifact counts as missing."""
        with self._named() as (store, _):
            for name in sorted(listed.names, key=lambda name: not name.endswith(f"/{MANIFEST}")):
                with contextlib.suppress(FileNotFoundError):
                    store.rm_file(name)

    def pin(self, name: str, text: str | None) -> None:
        """Pin an artifact, with a text that gives the reason. None removes the pin."""
        with self._named() as (store, root):
            if text is not None:
                store.pipe_file(f"{root}/{name}{PIN}", text.encode())
                return
            with contextlib.suppress(FileNotFoundError):
                store.rm_file(f"{root}/{name}{PIN}")

    def pins(self) -> set[str]:
        """Return the names of all pinned artifacts."""
        with self._named() as (store, root):
            return {key.removeprefix(f"{root}/").removesuffix(PIN) for key in store.glob(f"{root}/*/*{PIN}")}

    def write_mark(self, name: str, text: str) -> None:
        """Record the artifacts from which a version of a registered model was made."""
        with self._named() as (store, root):
            store.pipe_file(f"{root}/{_MARKS}/{name}.json", text.encode())

    def marks(self) -> dict[str, str]:
        """Return the text of each mark, by its name."""
        with self._named() as (store, root):
            keys = [str(key) for key in store.glob(f"{root}/{_MARKS}/*.json")]
            contents = store.cat(keys) if keys else {}
            contents = contents if isinstance(contents, dict) else {keys[0]: contents}
            return {key.rpartition("/")[2].removesuffix(".json"): text.decode() for key, text in contents.items()}

    def remove_mark(self, name: str) -> None:
        """Remove a mark."""
        with self._named() as (store, root), contextlib.suppress(FileNotFoundError):
            store.rm_file(f"{root}/{_MARKS}/{name}.json")

    @contextlib.contextmanager
    def _named(self) -> Iterator[tuple[Any, str]]:
        """Yield the fsspec file system and the root within it. Errors of any kind are raised with the address."""
        try:
            if self._opened is None:
                options = {"auto_mkdir": True} if self.url.startswith("file:") else {}
                store, root = url_to_fs(self.url, use_listings_cache=False, **options)  # others write there as well
                self._opened = store, str(root).rstrip("/")
            yield self._opened
        except ArtifactError:
            raise
        except Exception as error:
            raise ArtifactError(
                f"artifact store {self.url}: {words_of(error)}: check that it responds and accepts your credentials, "
                "then run the same command again; finished artifacts are kept"
            ) from error


def _modified(info: Mapping[str, Any]) -> datetime:
    """Return the time at which an object was written, under whichever key its file system uses.

    If it is unknown, return the present time, so that the object never counts as old.
    """
    for word in ("LastModified", "last_modified", "updated", "mtime"):
        value = info.get(word)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            return datetime.fromisoformat(value)
    return datetime.now(UTC)
