"""Which version of a registered model is in production, and the trail of how it came there.

The version with the alias `champion` is in production. Every change of it is an event: a tag of the registered model
with a key of its own, which nobody else ever writes to, so that no event is overwritten or lost, be there ever so many
promotions at once, and all outlive the versions that they are about.

What is guaranteed: an event is written before the alias is set, so that a change which a dead process has half made is
in the trail, and the champion is always a version that a gate or a person has chosen. Processes that share one home
change it one after the other; between machines MLflow offers no such means, so the champion is read again at the last
moment, and of two changes within that moment the later one holds, with both in the trail.
"""

import contextlib
import getpass
import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.runs.start_from import tag_of
from flows.settings import Settings
from flows.tracking.paging import read_all
from nmt_core.errors import ModelError

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

CHALLENGER = "challenger"
CHAMPION = "champion"

_EVENT = "nmt.history."
_PROMOTED_TAG = "nmt.promoted"
_ROLLED_BACK_TAG = "nmt.rolled_back"
_MADE_BY = ("export", "average")
"""Stages whose fingerprints say that two versions are the same model: its bundle, or its weights."""
_SECONDS_FOR_THE_LOCK = 60


class Event(BaseModel):
    """One change of the champion."""

    model_config = ConfigDict(frozen=True)
    when: datetime
    what: Literal["promoted", "rolled back"]
    version: str
    """Champion since then."""
    before: str = ""
    """Champion until then; empty: none."""
    by: Literal["gate", "hand"]
    who: str
    """User and machine."""
    why: str
    flow_run: str = ""
    """Id of Prefect's flow run, if it was one."""
    before_made_of: dict[str, str] = Field(default_factory=dict)
    """Fingerprints of the champion until then, by stage: by them it is known again when it is registered anew."""

    def __str__(self) -> str:
        change = f"version {self.before} -> {self.version}" if self.before else f"version {self.version}"
        return f"{self.when:%Y-%m-%d %H:%M} {self.what}: {change}, by {self.by} ({self.who}): {self.why}"


class Author(BaseModel):
    """Who changes the champion, how and why."""

    model_config = ConfigDict(frozen=True)
    by: Literal["gate", "hand"]
    why: str
    who: str = Field(default_factory=lambda: user_and_machine())
    flow_run: str = ""


def user_and_machine() -> str:
    """Whose process this is."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container may run under a number that has no name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


class Champions:
    """The champion, the challenger and the history of one registered model."""

    def __init__(self, client: "MlflowClient", name: str, settings: Settings) -> None:
        self.client = client
        self.name = name
        self._lock_file = settings.model_files / f"{name}.lock"

    @property
    def current(self) -> "ModelVersion | None":
        """The champion."""
        return self.with_alias(CHAMPION)

    def with_alias(self, alias: str) -> "ModelVersion | None":
        """The version that has this alias."""
        version = self.client.get_registered_model(self.name).aliases.get(alias)
        return self.client.get_model_version(self.name, version) if version else None

    def versions(self) -> list["ModelVersion"]:
        """All versions that are there."""
        return read_all(self.client.search_model_versions, f"name='{self.name}'")

    def history(self) -> list[Event]:
        """All changes, the oldest first."""
        tags = self.client.get_registered_model(self.name).tags
        events = []
        for key in sorted(key for key in tags if key.startswith(_EVENT)):
            with contextlib.suppress(ValidationError):  # somebody else's tag
                events.append(Event.model_validate_json(tags[key]))
        return events

    def taken_back(self, version: "ModelVersion") -> Event | None:
        """The last time that this model was rolled back, under whatever number: the same bundle or the same weights."""
        same = {(stage, version.tags.get(tag_of(stage))) for stage in _MADE_BY}
        for event in reversed(self.history()):
            if event.what == "rolled back" and (
                event.before == str(version.version) or same & event.before_made_of.items()
            ):
                return event
        return None

    def promote(self, version: str, author: Author, expected: str | None = None) -> bool:
        """Make a version champion; whether it was done.

        Args:
            version: its number.
            author: for the trail.
            expected: the champion with which the version was compared, empty if there was none: if another one has
                taken its place, nothing is done. None: it does not matter.

        A gate's promotion is not done either if the version was rolled back since the gate looked.
        """
        with self._alone():
            champion = self.current
            before = str(champion.version) if champion else ""
            if expected is not None and before != expected:
                return False
            if author.by == "gate" and self.taken_back(self.client.get_model_version(self.name, version)):
                return False
            if before != version:
                self._change("promoted", champion, version, author)
            return True

    def roll_back(self, author: Author) -> Event:
        """Restore the champion before this one.

        Raises:
            ModelError: there is no champion, or none before it that is still there and was not rolled back itself.
        """
        with self._alone():
            champion = self.current
            if not champion:
                raise ModelError(f"model {self.name}: has no champion, so nothing can be rolled back")
            version = self._predecessor(str(champion.version))
            if not version:
                raise ModelError(
                    f"model {self.name}: nothing is known of a champion before version {champion.version} that could "
                    f"be restored: choose a version by `nmt promote {self.name}/VERSION --why ...`"
                )
            return self._change("rolled back", champion, version, author)

    def _change(
        self, what: Literal["promoted", "rolled back"], champion: "ModelVersion | None", version: str, author: Author
    ) -> Event:
        made_of = {stage: champion.tags.get(tag_of(stage), "") for stage in _MADE_BY} if champion else {}
        now = datetime.now(UTC)
        event = Event(
            when=now,
            what=what,
            version=version,
            before=str(champion.version) if champion else "",
            before_made_of={stage: fingerprint for stage, fingerprint in made_of.items() if fingerprint},
            **author.model_dump(),
        )
        text = event.model_dump_json(exclude_defaults=True)
        key = f"{_EVENT}{now:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(4)}"
        self.client.set_registered_model_tag(self.name, key, text)
        if what == "promoted":
            self.client.set_model_version_tag(self.name, version, _PROMOTED_TAG, text)
        elif champion:
            self.client.set_model_version_tag(self.name, champion.version, _ROLLED_BACK_TAG, text)
        self.client.set_registered_model_alias(self.name, CHAMPION, version)
        return event

    def _predecessor(self, version: str) -> str:
        """The champion that this one took the place of, or the one before that, if that one cannot be restored."""
        history, seen = self.history(), set[str]()
        there = {str(found.version) for found in self.versions()}
        while version and version not in seen:
            seen.add(version)
            promotions = [event for event in history if event.what == "promoted" and event.version == version]
            version = promotions[-1].before if promotions else ""
            if version in there and not _is_out(version, history):
                return version
        return ""

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        self._lock_file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._lock_file)
        try:
            lock.acquire(timeout=_SECONDS_FOR_THE_LOCK)
        except Timeout:
            raise ModelError(
                f"model {self.name}: another process has been changing its champion for {_SECONDS_FOR_THE_LOCK} s "
                f"({self._lock_file}): see whether it hangs, then try again"
            ) from None
        try:
            yield
        finally:
            lock.release()


def _is_out(version: str, history: Sequence[Event]) -> bool:
    """Whether the last that happened to a version is that it was rolled back."""
    for event in reversed(history):
        if event.version == version:
            return False
        if event.what == "rolled back" and event.before == version:
            return True
    return False
