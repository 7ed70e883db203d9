"""Champion of a registered model, and the history of its changes.

The version with the alias `champion` is in production. With `registry.champion=pair`, the alias `champion-en-de` is the
version in production for one pair of languages. Every change is an event: a tag of the registered model with a key of
its own, which no other process writes. So no event is overwritten or lost, however many promotions run at once, and
events outlive the versions that they are about.

Guarantees: an event is written before the alias is set, so that a change which a process left unfinished when it died
is in the history. The champion is always a version that a gate or a person has chosen. Processes that share one home
change the champion one after the other. Between machines MLflow offers no lock, so the champion is read again
immediately before a change. If two changes fall into that moment, the later one wins, and the history has both.
"""

import contextlib
import getpass
import os
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
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
"""Stages whose fingerprints identify the same model in two versions: by its bundle, or by its weights."""
_SECONDS_FOR_THE_LOCK = 60
_OF_PAIR = f"{CHAMPION}-"


def alias_of(pair: str) -> str:
    """Return the alias of the champion for a pair of languages, such as `champion-en-de`. Empty means all pairs."""
    return f"{_OF_PAIR}{pair}" if pair else CHAMPION


class Event(BaseModel):
    """Change of the champion."""

    model_config = ConfigDict(frozen=True)
    when: datetime
    what: Literal["promoted", "rolled back"]
    version: str
    """Version that became the champion."""
    before: str = ""
    """Version that was the champion before. Empty means that there was none."""
    by: Literal["gate", "hand"]
    who: str
    """User and machine."""
    why: str
    flow_run: str = ""
    """Id of the Prefect flow run, if there was one."""
    before_made_of: dict[str, str] = Field(default_factory=dict)
    """Fingerprints of the previous champion by stage. They identify the model if it is registered again."""
    pair: str = ""
    """Pair of languages whose champion changed. Empty means the champion for all pairs."""

    def __str__(self) -> str:
        change = f"version {self.before} -> {self.version}" if self.before else f"version {self.version}"
        change += f" for {self.pair}" if self.pair else ""
        return f"{self.when:%Y-%m-%d %H:%M} {self.what}: {change}, by {self.by} ({self.who}): {self.why}"


class Author(BaseModel):
    """Author of a change, with the reason for it."""

    model_config = ConfigDict(frozen=True)
    by: Literal["gate", "hand"]
    why: str
    who: str = Field(default_factory=lambda: user_and_machine())
    flow_run: str = ""


def user_and_machine() -> str:
    """Return the user and the machine of this process."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container may run under a number that has no name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


class Champions:
    """Champion, challenger and history of one registered model.

    Args:
        client: MLflow client of the registry.
        name: Name of the registered model.
        settings: Settings that locate the lock file.
    """

    def __init__(self, client: "MlflowClient", name: str, settings: Settings) -> None:
        self.client = client
        self.name = name
        self._lock_file = settings.model_files / f"{name}.lock"

    @property
    def current(self) -> "ModelVersion | None":
        """Version that is the champion, or None."""
        return self.with_alias(CHAMPION)

    @property
    def pairs(self) -> list[str]:
        """Pairs of languages that have a champion of their own."""
        aliases = self.client.get_registered_model(self.name).aliases
        return sorted(alias.removeprefix(_OF_PAIR) for alias in aliases if alias.startswith(_OF_PAIR))

    def of_pair(self, pair: str) -> "ModelVersion | None":
        """Return the champion for a pair of languages: its own, or else the champion for all pairs. None if neither."""
        return self.with_alias(alias_of(pair)) or self.current

    def with_alias(self, alias: str) -> "ModelVersion | None":
        """Return the version that has this alias, or None."""
        version = self.client.get_registered_model(self.name).aliases.get(alias)
        return self.client.get_model_version(self.name, version) if version else None

    def versions(self) -> list["ModelVersion"]:
        """Return all versions of the model."""
        return read_all(self.client.search_model_versions, f"name='{self.name}'")

    def history(self) -> list[Event]:
        """Return all changes of the champion, oldest first."""
        tags = self.client.get_registered_model(self.name).tags
        events = []
        for key in sorted(key for key in tags if key.startswith(_EVENT)):
            with contextlib.suppress(ValidationError):  # a tag of another program
                events.append(Event.model_validate_json(tags[key]))
        return events

    def taken_back(self, version: "ModelVersion", pair: str = "") -> Event | None:
        """Return the last rollback of this model, or None.

        Versions with the same bundle or the same weights are the same model.

        Args:
            version: Version of the model.
            pair: Pair of languages. The rollbacks of the champion for all pairs count too. Empty means any rollback.
        """
        same = {(stage, version.tags.get(tag_of(stage))) for stage in _MADE_BY}
        for event in reversed(self.history()):
            if event.what != "rolled back" or (pair and event.pair not in ("", pair)):
                continue
            if event.before == str(version.version) or same & event.before_made_of.items():
                return event
        return None

    def promote(
        self,
        version: str,
        author: Author,
        expected: str | None = None,
        *,
        pair: str = "",
        pairs: Mapping[str, str] | None = None,
    ) -> bool:
        """Make a version the champion, and return True if it is the champion now.

        A gate's promotion is also refused if the version was rolled back after the gate's check. The champion for all
        pairs also becomes the champion for each pair that has one of its own.

        Args:
            version: Version number.
            author: Author of the change, for the history.
            expected: Champion with which the version was compared, or an empty text if there was none. If another
                version is champion by now, nothing is changed. None accepts any champion.
            pair: Pair of languages for which it becomes champion. Empty means all pairs.
            pairs: Pairs of languages that get a champion of their own if they have none, each with the champion with
                which the version was compared, as in `expected`.
        """
        compared = dict(pairs or {}) | ({} if expected is None else {pair: expected})
        with self._alone():
            before = {one: self.of_pair(one) for one in {*compared, pair}}
            if any(_number(before[one]) != number for one, number in compared.items()):
                return False
            if author.by == "gate" and self.taken_back(self.client.get_model_version(self.name, version), pair):
                return False
            if _number(before[pair]) != version:
                self._change("promoted", before[pair], version, author, pair)
            for one in [] if pair else sorted({*self.pairs, *(pairs or {})}):
                own = self.with_alias(alias_of(one))
                if _number(own) != version:
                    self._change("promoted", own or before[""], version, author, one)
            return True

    def roll_back(self, author: Author, pair: str = "") -> Event:
        """Restore the previous champion, and return the event.

        If the champion for all pairs is rolled back, so is it for each pair whose own champion it is.

        Args:
            author: Author of the change, for the history.
            pair: Pair of languages with a champion of its own. Empty means the champion for all pairs.

        Raises:
            ModelError: There is no champion, or no previous one that still exists and was not itself rolled back.
        """
        named, option = (f" for {pair}", f" --pair {pair}") if pair else ("", "")
        with self._alone():
            champion = self.with_alias(alias_of(pair))
            if not champion:
                raise ModelError(
                    f"model {self.name}: has no champion{named} to roll back: promote a version with `nmt promote`"
                )
            version = self._predecessor(str(champion.version), pair)
            if not version:
                raise ModelError(
                    f"model {self.name}: version {champion.version} has no previous champion{named} that can be "
                    f"restored: choose a version with `nmt promote {self.name}/VERSION{option} --why ...`"
                )
            event = self._change("rolled back", champion, version, author, pair)
            for one in [] if pair else self.pairs:
                own = self.with_alias(alias_of(one))
                if own and own.version == champion.version:
                    restored = self._predecessor(str(own.version), one) or version
                    self._change("rolled back", own, restored, author, one)
            return event

    def _change(
        self,
        what: Literal["promoted", "rolled back"],
        champion: "ModelVersion | None",
        version: str,
        author: Author,
        pair: str,
    ) -> Event:
        made_of = {stage: champion.tags.get(tag_of(stage), "") for stage in _MADE_BY} if champion else {}
        now = datetime.now(UTC)
        event = Event(
            when=now,
            what=what,
            version=version,
            before=_number(champion),
            before_made_of={stage: fingerprint for stage, fingerprint in made_of.items() if fingerprint},
            pair=pair,
            **author.model_dump(),
        )
        text = event.model_dump_json(exclude_defaults=True)
        key = f"{_EVENT}{now:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(4)}"
        self.client.set_registered_model_tag(self.name, key, text)
        if what == "promoted" and not pair:
            self.client.set_model_version_tag(self.name, version, _PROMOTED_TAG, text)
        elif champion and not pair:
            self.client.set_model_version_tag(self.name, champion.version, _ROLLED_BACK_TAG, text)
        self.client.set_registered_model_alias(self.name, alias_of(pair), version)
        return event

    def _predecessor(self, version: str, pair: str) -> str:
        """Return the champion that a version replaced, for a pair of languages or for all pairs.

        If that one cannot be restored, return the one before it, and so forth. Return an empty text if there is none.
        """
        history, seen = [event for event in self.history() if event.pair == pair], set[str]()
        there = {str(known.version) for known in self.versions()}
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
                f"({self._lock_file}): check if it hangs, then try again"
            ) from None
        try:
            yield
        finally:
            lock.release()


def _number(version: "ModelVersion | None") -> str:
    """Return the number of a version as text. Empty means that there is none."""
    return str(version.version) if version else ""


def _is_out(version: str, history: Sequence[Event]) -> bool:
    """Return True if the last event of a version is that it was rolled back."""
    for event in reversed(history):
        if event.version == version:
            return False
        if event.what == "rolled back" and event.before == version:
            return True
    return False
