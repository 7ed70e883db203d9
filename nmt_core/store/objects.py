"""Artifacts in a store of objects (S3, GCS...) that many machines share; `shared.py` puts it behind a folder.

Layout, below an address that fsspec knows::

    <stage>/<fingerprint>/<sha256>          a file of the artifact, by the hash of its bytes
    <stage>/<fingerprint>/manifest.json     written last: an artifact without it does not exist
    <stage>/<fingerprint>.pin               kept, whatever else is removed
    registered/<id>.json                    what a version of a registered model was made of

A store of objects knows no rename. But it shows an object only when its last byte has come, and files are named by
their hash: what two machines upload at once, or a third one after the first was killed, never mixes. Whether an
artifact is there is one request for its manifest; nothing is listed but what is about to be uploaded or removed.

Others write to the store, and a rule of the bucket may remove objects: a manifest is used only if it is that of the
artifact that was asked for, and an artifact of which an object is missing or damaged counts as not there.
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

    def has(self, name: str) -> bool:
        """Ask whether there is an artifact of this name."""
        with self._named() as (store, root):
            return bool(store.exists(f"{root}/{name}/{MANIFEST}"))

    def put(self, name: str, files: Mapping[str, Path], manifest: bytes, anew: Collection[str] = ()) -> None:
        """Upload what is not there yet, the manifest last.

        Args:
            name: of the artifact.
            files: by the sha256 of each.
            manifest: its text.
            anew: hashes of files that are uploaded even if they are there.

        Raises:
            DamagedError: a file is not what its hash says.
        """
        with self._named() as (store, root):
            folder = f"{root}/{name}"
            there = {key.rpartition("/")[2]: info["size"] for key, info in store.find(folder, detail=True).items()}
            missing = [key for key, file in files.items() if key in anew or there.get(key) != file.stat().st_size]
            for digest in missing:
                if sha256_of(files[digest], anew=True) != digest:
                    raise DamagedError(
                        f"{files[digest]} has another sha256 than its manifest says: it is not uploaded; run the same "
                        "command again, which makes the artifact anew"
                    )
            if missing:
                store.put([str(files[digest]) for digest in missing], [f"{folder}/{digest}" for digest in missing])
            store.pipe_file(f"{folder}/{MANIFEST}", manifest)

    def get(self, name: str, files: Mapping[Path, str]) -> None:
        """Download files to paths, each by its sha256.

        Raises:
            DamagedError: one of them is missing in the store.
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

    def unfinished(self, age: timedelta) -> list[str] | None:
        """Keys of uploads that were begun so long ago and never ended, whose parts take space and are in no listing.

        None: this kind of store does not say.
        """
        with self._named() as (store, root):
            if not hasattr(store, "call_s3"):
                return None
            bucket, _, prefix = root.partition("/")
            asked, uploads = {"Bucket": bucket, "Prefix": f"{prefix}/" if prefix else ""}, list[dict[str, Any]]()
            while True:
                page = store.call_s3("list_multipart_uploads", **asked)
                uploads += page.get("Uploads", [])
                if not page.get("IsTruncated"):
                    break
                asked |= {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
        before = datetime.now(UTC) - age
        return [upload["Key"] for upload in uploads if upload["Initiated"] <= before]

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
        except ArtifactError:
            raise
        except Exception as error:
            raise ArtifactError(
                f"artifact store {self.url}: {words_of(error)}: see that it answers and takes your credentials, then "
                "run the same command again; what was made is kept"
            ) from error


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
