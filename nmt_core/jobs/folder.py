"""Locate the files of a job, and read and write its journal: the order, the plan, the profile and the result."""

import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.config.faults import problem_of
from nmt_core.config.section import later
from nmt_core.drift.profile import Profile
from nmt_core.errors import DataError
from nmt_core.jobs.inputs import InputFile
from nmt_core.jobs.order import Begun, JobRequest, Order, Plan
from nmt_core.jobs.shadow_result import ShadowResult
from nmt_core.store import storage
from nmt_core.store.storage import local_path, store_of

Model = TypeVar("Model", bound=BaseModel)

PROFILE_FILE = "profile.json"
"""File of a job's folder with the profile of its text and translations."""

_PARTS = re.compile("parts-([0-9a-f]{32})")
_ORDER = re.compile(r"order-(\d+)\.json")


class Done(BaseModel):
    """Result of a job."""

    model_config = ConfigDict(frozen=True)
    fingerprint: str
    """Fingerprint of the order."""
    number: int
    """Number of the job in its folder, counted from 1."""
    model: str
    model_version: str
    statuses: Mapping[str, int]
    """Number of rows for each status."""
    outputs: tuple[InputFile, ...]
    """Files that the job has written."""
    terms: int = later(0)
    """Number of places of terms of the glossary in the text."""
    terms_kept: int = later(0)
    """Number of these whose translation is in the output."""
    tokens: int | None = later(None)
    """Number of target tokens in the output. None if an earlier version, which did not count, made a part of it."""
    shadow: ShadowResult | None = later(None)
    """Comparison with a challenger. None if the order has none."""
    review: int = later(0)
    """Number of lines that were written for correction."""
    not_judged: int = later(0)
    """Number of rows for which the judge of `search.judge` did not choose, so that they have the search's first
    candidate."""
    judge_problem: str = later("")
    """Reason why it did not choose, the first one if there are several. Empty if it always chose, or there is none."""
    made_by: Mapping[str, str] = {}
    """Chunks that each version of the code has translated, such as `1-3, 7`. Empty if there was one version."""

    @property
    def lines(self) -> int:
        """Number of rows of the input. The output has as many."""
        return sum(self.statuses.values())


@dataclass(frozen=True)
class Parts:
    """Paths of the files of one order."""

    root: str

    def input(self, number: int) -> str:
        """Return the path of a chunk's rows."""
        return f"{self.root}/input/{number:07d}.parquet"

    def kept(self, number: int) -> str:
        """Return the path of a chunk's columns that are carried over."""
        return f"{self.root}/kept/{number:07d}.parquet"

    def output(self, number: int) -> str:
        """Return the path of a chunk's translations."""
        return f"{self.root}/output/{number:07d}.parquet"

    def shadow(self, number: int) -> str:
        """Return the path of a challenger's translations of a part of a chunk."""
        return f"{self.root}/shadow/{number:07d}.parquet"

    def document(self, file: int) -> str:
        """Return the path of the copy of a document, by the number of the input."""
        return f"{self.root}/document/{file:07d}"

    @property
    def claims(self) -> str:
        """Folder of the claims."""
        return f"{self.root}/claims"

    def staged(self) -> set[int]:
        """Return the numbers of the chunks that have been cut."""
        return _numbers(f"{self.root}/input")

    def translated(self) -> set[int]:
        """Return the numbers of the chunks that have been translated."""
        return _numbers(f"{self.root}/output")


@dataclass(frozen=True)
class JobFolder:
    """Folder of a job, on a disk or in a store."""

    url: str

    def parts(self, fingerprint: str) -> Parts:
        """Return the paths of the files of an order."""
        return Parts(f"{self.url.rstrip('/')}/parts-{fingerprint}")

    def plan(self) -> Plan | None:
        """Return the plan, or None if there is none.

        Raises:
            DataError: the file is damaged.
        """
        return _read(f"{self.url}/plan.json", Plan)

    def done(self) -> Done | None:
        """Return the result of the last finished job of this folder, or None if there is none.

        Raises:
            DataError: the file is damaged.
        """
        return _read(f"{self.url}/done.json", Done)

    def profile(self) -> Profile | None:
        """Return the profile of the last finished job of this folder, or None if an earlier version made a part of it.

        Raises:
            DataError: the file is damaged.
        """
        profile = _read(f"{self.url}/{PROFILE_FILE}", Profile)
        return profile if profile and profile.lines else None

    def begin(self, request: JobRequest, order: Order) -> Begun:
        """Publish an order, unless another job has begun and is not done. Return the job that has begun.

        Jobs of a folder are numbered. A job publishes its order in a file with its number, the one after the last
        finished job, and only if that file does not exist: of two orders at once, one is published.
        """
        while True:
            begun = Begun(asked=request.model, source=request.source, order=order, number=self._next())
            create(begun.model_dump_json().encode(), self._order(begun.number))
            newest = self.begun()
            if newest and newest.number == begun.number:
                return newest

    def begun(self) -> Begun | None:
        """Return the job that has begun and is not done, or None if there is none."""
        return _read(self._order(self._next()), Begun)

    def withdraw(self, number: int) -> None:
        """Remove the order of a job that cannot be done and has produced nothing."""
        storage.remove([self._order(number)])

    def _next(self) -> int:
        """Return the number of the job after the last finished one."""
        done = self.done()
        return done.number + 1 if done else 1

    def _order(self, number: int) -> str:
        return f"{self.url}/order-{number}.json"

    def write(self, note: Plan | Done | Profile) -> None:
        """Publish a plan, a result or a profile in the journal."""
        name = PROFILE_FILE if isinstance(note, Profile) else "plan.json" if isinstance(note, Plan) else "done.json"
        with storage.published(f"{self.url}/{name}") as file:
            file.write(note.model_dump_json(indent=1 if isinstance(note, Done) else None).encode())

    def clean_up(self) -> None:
        """Remove the files of finished and abandoned jobs. Keep the files of a job that has begun."""
        names = storage.names_in(self.url)  # before `begun` is read, so that a job that begins later keeps its files
        following, begun = self._next(), self.begun()
        for name in names:
            order, parts = _ORDER.fullmatch(name), _PARTS.fullmatch(name)
            if order and int(order[1]) < following:
                storage.remove([f"{self.url}/{name}"])
            elif parts and not (begun and parts[1] == begun.order.fingerprint):
                storage.remove_folder(self.parts(parts[1]).root)


def exists(url: str) -> bool:
    """Return True if the file exists now."""
    if path := local_path(url):
        return path.exists()
    store, name = store_of(url)
    try:
        store.info(name)  # `exists` also returns False if the store does not answer
    except FileNotFoundError:
        return False
    return True


def read_bytes(url: str) -> bytes | None:
    """Return the content of a small file, or None if it does not exist."""
    with suppress(FileNotFoundError):
        if path := local_path(url):
            return path.read_bytes()
        store, name = store_of(url)
        return bytes(store.cat_file(name))
    return None


def create(content: bytes, url: str) -> bool:
    """Write a small file if it does not exist, atomically as far as the store supports that.

    Returns:
        True if the file now holds what this call wrote.
    """
    if path := local_path(url):
        return _create_here(content, path)
    store, name = store_of(url)
    try:
        store.pipe_file(name, content, mode="create")
    except FileExistsError:
        return False
    except Exception:  # the store lacks this mode, or reports an existing file with its own error
        if read_bytes(url) is None:
            storage.write_bytes([content], url)
    return read_bytes(url) == content


def _create_here(content: bytes, path: Path) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}{storage.TEMPORARY}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # otherwise the linked file may be empty after a power failure
    try:
        os.link(draft, path)  # a linked file is never seen empty, unlike one that is created and then written
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return True


def _read(url: str, model: type[Model]) -> Model | None:
    content = read_bytes(url)
    if content is None:
        return None
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise DataError(
            f"{url}: is damaged, or was written by another version of this program ({problem_of(error.errors()[0])}): "
            "resume the job with that version, or start it in another folder"
        ) from None


def _numbers(folder: str) -> set[int]:
    stems = (name.removesuffix(".parquet") for name in storage.names_in(folder) if name.endswith(".parquet"))
    return {int(stem) for stem in stems if stem.isdecimal()}
