"""Where the parts of a job lie, and the two files of its journal: `plan.json` and `done.json`."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.corpus import storage
from nmt_core.corpus.storage import local_path, store_of
from nmt_core.errors import DataError
from nmt_core.jobs.inputs import InputFile
from nmt_core.jobs.order import Plan

Model = TypeVar("Model", bound=BaseModel)


class Done(BaseModel):
    """What came of a job."""

    model_config = ConfigDict(frozen=True)
    fingerprint: str
    """Of the order."""
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
        return Parts(f"{self.url.rstrip('/')}/{fingerprint}")

    def plan(self) -> Plan | None:
        """The plan, if there is one.

        Raises:
            DataError: it is damaged.
        """
        return _read(f"{self.url}/plan.json", Plan)

    def done(self, fingerprint: str) -> Done | None:
        """What came of an order, if it is done."""
        done = _read(f"{self.url}/done.json", Done)
        return done if done and done.fingerprint == fingerprint else None

    def write(self, note: Plan | Done) -> None:
        """Publish a part of the journal."""
        name = "plan.json" if isinstance(note, Plan) else "done.json"
        with storage.published(f"{self.url}/{name}") as file:
            file.write(note.model_dump_json(indent=1 if isinstance(note, Done) else None).encode())

    def clean_up(self, fingerprint: str) -> None:
        """Remove the files of an order, and of any that was given up before it had a plan; those of a new job stay."""
        plan = self.plan()
        is_last = plan is not None and plan.order.fingerprint == fingerprint
        for name in _names(self.url):
            if name == fingerprint or (is_last and re.fullmatch("[0-9a-f]{32}", name)):
                storage.remove_folder(self.parts(name).root)

    def forget(self) -> None:
        """Take back that the job is done: its output is gone."""
        storage.remove([f"{self.url}/done.json"])


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


def _names(folder: str) -> list[str]:
    """What there is in a folder."""
    with suppress(FileNotFoundError):
        if path := local_path(folder):
            return [file.name for file in path.iterdir()]
        store, key = store_of(folder)
        return [name.rstrip("/").rpartition("/")[2] for name in store.ls(key, detail=False)]
    return []


def _numbers(folder: str) -> set[int]:
    stems = (name.removesuffix(".parquet") for name in _names(folder) if name.endswith(".parquet"))
    return {int(stem) for stem in stems if stem.isdecimal()}
