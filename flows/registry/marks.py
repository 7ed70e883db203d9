"""Marks of registered models: what their versions were made of, noted in the store by the process that registers them.

Machines that share a store may be unable to ask each other's registry, and a registry may be out of reach when space
is freed. So each version leaves a file in the store, `registered/<id>.json`, and `gc` keeps what it names with all that
this was made from. The version holds the id as a tag. A registry that is asked and has the tag decides by itself what
the version still needs. A mark that no registry in reach knows counts until somebody takes it away.
"""

import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.errors import ArtifactError
from nmt_core.store.artifacts import Store
from nmt_core.store.shared import SharedStore

MARK_TAG = "nmt.mark"
FOLDER = "registered"
_DIGITS = 12


class Mark(BaseModel):
    """What one version of a registered model was made of."""

    model_config = ConfigDict(frozen=True)
    id: str
    registry: str
    """Address of the registry as the machine that registered the version names it, without a password."""
    model: str
    made_of: dict[str, str]
    """Fingerprint of each artifact, by its stage."""
    who: str
    """User and machine."""
    when: datetime

    def __str__(self) -> str:
        return f"{self.id}: {self.model} in {self.registry}, registered on {self.when:%Y-%m-%d} by {self.who}"


def mark_of(registry: str, model: str, made_of: Mapping[str, str], who: str) -> Mark:
    """Return a new mark, which no store has yet."""
    identifier = secrets.token_hex(_DIGITS // 2)
    return Mark(id=identifier, registry=registry, model=model, made_of=dict(made_of), who=who, when=datetime.now(UTC))


def write(store: Store, mark: Mark) -> None:
    """Put a mark into the store of this machine, and into the one that it shares.

    Raises:
        ArtifactError: the shared store does not answer.
    """
    text = mark.model_dump_json()
    folder = store.root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{mark.id}.partial"
    draft.write_text(text, encoding="utf-8")
    draft.replace(_file(store, mark.id))
    if isinstance(store, SharedStore):
        store.objects.write_mark(mark.id, text)


def marks(store: Store) -> dict[str, Mark]:
    """Return the marks of this machine's store and of the shared one, by their ids.

    Raises:
        ArtifactError: the shared store does not answer, or a mark cannot be read: what it keeps is not known.
    """
    texts = {file.stem: file.read_text(encoding="utf-8") for file in (store.root / FOLDER).glob("*.json")}
    if isinstance(store, SharedStore):
        texts |= store.objects.marks()
    return {name: _read(store, name, text) for name, text in texts.items()}


def forget_marks(store: Store, identifiers: Collection[str]) -> None:
    """Take marks away, on this machine and from the shared store.

    Raises:
        ArtifactError: there is no such mark, or the shared store does not answer.
    """
    there = marks(store) if identifiers else {}
    for identifier in identifiers:
        if identifier not in there:
            raise ArtifactError(
                f"mark {identifier!r} in {store.root}: there is none: `nmt artifacts gc` lists the marks of models "
                "that no registry in reach knows"
            )
        remove(store, identifier)


def remove(store: Store, identifier: str) -> None:
    """Take a mark away, on this machine and from the shared store."""
    _file(store, identifier).unlink(missing_ok=True)
    if isinstance(store, SharedStore):
        store.objects.remove_mark(identifier)


def _file(store: Store, identifier: str) -> Path:
    return store.root / FOLDER / f"{identifier}.json"


def _read(store: Store, name: str, text: str) -> Mark:
    with suppress(ValidationError):
        return Mark.model_validate_json(text)
    raise ArtifactError(
        f"the mark {FOLDER}/{name}.json of the store {store.root} cannot be read, and what it keeps must not be "
        "removed: restore the file; or, if you know that its model is gone, move the file away; then run the same "
        "command again"
    )
