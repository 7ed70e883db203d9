"""Marks of registered models: files in the store that list the artifacts of each version.

Machines that share a store may be unable to query each other's registry, and a registry may be out of reach when space
is freed. So the process that registers a version writes a file `registered/<id>.json` to the store, and `gc` keeps the
artifacts in it and everything that they were made from. A tag of the version holds the id. If a registry can be queried
and has the tag, it alone decides what the version still needs. A mark that no reachable registry knows stays valid
until a user removes it.
"""

import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.errors import ArtifactError
from nmt_core.store.artifacts import Store
from nmt_core.store.atomic import write_atomically
from nmt_core.store.shared import SharedStore

MARK_TAG = "nmt.mark"
FOLDER = "registered"
_DIGITS = 12


class Mark(BaseModel):
    """List of the artifacts of one version of a registered model."""

    model_config = ConfigDict(frozen=True)
    id: str
    registry: str
    """Address of the registry on the machine that registered the version, without a password."""
    model: str
    made_of: dict[str, str]
    """Fingerprint of each artifact by its stage."""
    who: str
    """User and machine."""
    when: datetime

    def __str__(self) -> str:
        return f"{self.id}: {self.model} in {self.registry}, registered on {self.when:%Y-%m-%d} by {self.who}"


def mark_of(registry: str, model: str, made_of: Mapping[str, str], who: str) -> Mark:
    """Return a new mark, which is not in any store yet."""
    identifier = secrets.token_hex(_DIGITS // 2)
    return Mark(id=identifier, registry=registry, model=model, made_of=dict(made_of), who=who, when=datetime.now(UTC))


def write(store: Store, mark: Mark) -> None:
    """Write a mark to the store of this machine, and to the shared one if there is one.

    Raises:
        ArtifactError: The shared store does not answer.
    """
    text = mark.model_dump_json()
    folder = store.root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(_file(store, mark.id), text)
    if isinstance(store, SharedStore):
        store.objects.write_mark(mark.id, text)


def marks(store: Store) -> dict[str, Mark]:
    """Return the marks of this machine's store and of the shared one by their ids.

    Raises:
        ArtifactError: The shared store does not answer, or a mark cannot be read and what it keeps is unknown.
    """
    texts = {file.stem: file.read_text(encoding="utf-8") for file in (store.root / FOLDER).glob("*.json")}
    if isinstance(store, SharedStore):
        texts |= store.objects.marks()
    return {name: _read(store, name, text) for name, text in texts.items()}


def forget_marks(store: Store, identifiers: Collection[str]) -> None:
    """Remove marks from this machine's store and from the shared one.

    Raises:
        ArtifactError: A mark does not exist, or the shared store does not answer.
    """
    there = marks(store) if identifiers else {}
    for identifier in identifiers:
        if identifier not in there:
            raise ArtifactError(
                f"mark {identifier!r}: does not exist in {store.root}: `nmt artifacts gc` lists the marks of models "
                "that no reachable registry knows"
            )
        remove(store, identifier)


def remove(store: Store, identifier: str) -> None:
    """Remove a mark from this machine's store and from the shared one."""
    _file(store, identifier).unlink(missing_ok=True)
    if isinstance(store, SharedStore):
        store.objects.remove_mark(identifier)


def _file(store: Store, identifier: str) -> Path:
    return store.root / FOLDER / f"{identifier}.json"


def _read(store: Store, name: str, text: str) -> Mark:
    with suppress(ValidationError):
        return Mark.model_validate_json(text)
    raise ArtifactError(
        f"the mark {FOLDER}/{name}.json of the store {store.root} cannot be read, so the artifacts that it protects "
        "are unknown: restore the file, or move it away if you know that its model is gone, then run the same command "
        "again"
    )
