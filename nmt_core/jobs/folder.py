"""Where the parts of a job lie, and the files of its journal: `order-1.json`, `plan.json` and `done.json`."""

import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.errors import DataError
from nmt_core.jobs.inputs import InputFile
from nmt_core.jobs.order import Asked, Begun, Order, Plan
from nmt_core.store import storage
from nmt_core.store.storage import local_path, store_of

Model = TypeVar("Model", bound=BaseModel)

_PARTS = re.compile("parts-([0-9a-f]{32})")
_ORDER = re.compile(r"order-(\d+)\.json")


class Done(BaseModel):
    """What came of a job."""

    model_config = ConfigDict(frozen=True)
    fingerprint: str
    """Of the order."""
    number: int
    """Of the job among those that the folder has seen, from 1."""
    model: str
    model_version: str
    statuses: Mapping[str, int]
    """Rows by what became of them."""
    outputs: tuple[InputFile, ...]
    """The files that were written."""

    @property
    def lines(self) -> int:
        """Rows of the input, which are those of the output."""
        return sum(self.statuses.values())


@dataclass(frozen=True)
class Parts:
    """Files of one order."""

    root: str

    def input(self, number: int) -> str:
        """Rows of a chunk."""
        return f"{self.root}/input/{number:07d}.parquet"

    def output(self, number: int) -> str:
        """Translations of a chunk."""
        return f"{self.root}/output/{number:07d}.parquet"

    @property
    def claims(self) -> str:
        """Folder of the claims."""
        return f"{self.root}/claims"

    def staged(self) -> set[int]:
        """Chunks that have been cut."""
        return _numbers(f"{self.root}/input")

    def translated(self) -> set[int]:
        """Chunks that are done."""
        return _numbers(f"{self.root}/output")


@dataclass(frozen=True)
class JobFolder:
    """The folder of a job."""

    url: str

    def parts(self, fingerprint: str) -> Parts:
        """Where the files of an order lie."""
        return Parts(f"{self.url.rstrip('/')}/parts-{fingerprint}")

    def plan(self) -> Plan | None:
        """The plan, if there is one.

        Raises:
            DataError: it is damaged.
        """
        return _read(f"{self.url}/plan.json", Plan)

    def done(self) -> Done | None:
        """What came of the last job that was done here.

        Raises:
            DataError: it is damaged.
        """
        return _read(f"{self.url}/done.json", Done)

    def begin(self, asked: Asked, order: Order) -> Begun:
        """Publish an order, unless another one has begun and is not done: that is the one, then.

        Jobs of a folder are counted. The one that follows the last that is done begins with a file of its own number,
        which is written only where there is none: of two orders at once, one is published.
        """
        while True:
            begun = Begun(asked=asked.model, source=asked.source, order=order, number=self._next())
            create(begun.model_dump_json().encode(), self._order(begun.number))
            found = self.begun()
            if found and found.number == begun.number:
                return found

    def begun(self) -> Begun | None:
        """The job that has begun and is not done, if there is one."""
        return _read(self._order(self._next()), Begun)

    def withdraw(self, number: int) -> None:
        """Take back that a job has begun: it cannot be done, and nothing has come of it."""
        storage.remove([self._order(number)])

    def _next(self) -> int:
        """Number of the job that follows the last that is done."""
        done = self.done()
        return done.number + 1 if done else 1

    def _order(self, number: int) -> str:
        return f"{self.url}/order-{number}.json"

    def write(self, note: Plan | Done) -> None:
        """Publish a part of the journal."""
        name = "plan.json" if isinstance(note, Plan) else "done.json"
        with storage.published(f"{self.url}/{name}") as file:
            file.write(note.model_dump_json(indent=1 if isinstance(note, Done) else None).encode())

    def clean_up(self) -> None:
        """Remove the files of jobs that are done or were given up; those of one that has begun stay."""
        names = storage.names_in(self.url)  # before the look at what has begun: who begins later keeps his files
        following, begun = self._next(), self.begun()
        for name in names:
            order, parts = _ORDER.fullmatch(name), _PARTS.fullmatch(name)
            if order and int(order[1]) < following:
                storage.remove([f"{self.url}/{name}"])
            elif parts and not (begun and parts[1] == begun.order.fingerprint):
                storage.remove_folder(self.parts(parts[1]).root)


def exists(url: str) -> bool:
    """Whether there is such a file, now."""
    if path := local_path(url):
        return path.exists()
    store, name = store_of(url)
    try:
        store.info(name)  # its `exists` says no as well where the store does not answer
    except FileNotFoundError:
        return False
    return True


def read_bytes(url: str) -> bytes | None:
    """A small file; None if there is none."""
    with suppress(FileNotFoundError):
        if path := local_path(url):
            return path.read_bytes()
        store, name = store_of(url)
        return bytes(store.cat_file(name))
    return None


def create(content: bytes, url: str) -> bool:
    """Write a small file where there is none; in one step, as far as the store can do that.

    Returns:
        Whether it is what is there now.
    """
    if path := local_path(url):
        return _create_here(content, path)
    store, name = store_of(url)
    try:
        store.pipe_file(name, content, mode="create")
    except FileExistsError:
        return False
    except Exception:  # it knows no such mode, or says in words of its own that there is one
        if read_bytes(url) is None:
            storage.write_bytes([content], url)
    return read_bytes(url) == content


def _create_here(content: bytes, path: Path) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}{storage.TEMPORARY}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # a linked file may else be empty when the machine comes up again
    try:
        os.link(draft, path)  # unlike a file that is opened to be created, it is never seen empty
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
            f"{url}: damaged, or of another version of this program ({error.errors()[0]['msg']}): remove the folder of "
            "the job to begin anew"
        ) from None


def _numbers(folder: str) -> set[int]:
    stems = (name.removesuffix(".parquet") for name in storage.names_in(folder) if name.endswith(".parquet"))
    return {int(stem) for stem in stems if stem.isdecimal()}
