"""What a job is to do, and how its result is known again."""

import shlex
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from nmt_core.config import SearchConfig
from nmt_core.jobs.inputs import InputFile
from nmt_core.store.artifacts import fingerprint_of
from nmt_core.store.storage import local_path

MAX_LINE_BYTES = 1 << 20
"""A line of more bytes is not translated: it is no text, and would be held in memory."""

_FEW = 3


class ModelVersion(BaseModel):
    """The model, pinned: an alias has been looked up once, when the job began."""

    model_config = ConfigDict(frozen=True)
    name: str
    """Name of a registered model, or the folder or artifact that was given."""
    version: str
    """Of a registered model, its number; else the first digits of the hash."""
    sha256: str
    """Of the bundle's `config.json`, which names the hashes of its other files."""


class Order(BaseModel):
    """Everything that decides what the output is."""

    model_config = ConfigDict(frozen=True)
    format: Literal[1] = 1
    model: ModelVersion
    search: SearchConfig
    inputs: tuple[InputFile, ...]
    target: str
    """File to write, or folder with a file for each of the inputs."""
    into_folder: bool = False
    """Whether the target is a folder, unless its suffix is that of a text or a table."""
    column: str = ""
    """Name or number of the column to translate; see `formats.single`."""
    prefix_column: str = ""
    """Name or number of the column with what each translation has to begin with; empty: there is none."""
    chunk_lines: int = 4_096
    """Most rows of a chunk. They are sorted by length and translated together."""
    chunk_characters: int = 2_000_000
    """A chunk ends with the row that brings it there."""

    @property
    def fingerprint(self) -> str:
        """Names the order."""
        return fingerprint_of(self.model_dump(mode="json"))


class Chunk(BaseModel):
    """Rows `first` to `first + lines`, counted from 0, of one of the inputs."""

    model_config = ConfigDict(frozen=True)
    file: int
    first: int
    lines: int


class Asked(NamedTuple):
    """What somebody asked for, before it was looked up."""

    model: str
    """Such as `models:/NAME@champion`."""
    source: str = ""
    """File, folder, pattern or address; empty: not known."""


class Begun(BaseModel):
    """A job that has begun."""

    model_config = ConfigDict(frozen=True)
    asked: str
    """The model as it was asked for."""
    source: str = ""
    """The text as it was asked for."""
    order: Order
    number: int
    """Of the job among those that its folder has seen, from 1."""


class Plan(Begun):
    """A job and the chunks that its text has been cut into, in the order of the text."""

    chunks: tuple[Chunk, ...]

    @property
    def lines(self) -> int:
        """Rows of all inputs."""
        return sum(chunk.lines for chunk in self.chunks)


def differences(former: Order, new: Order) -> list[str]:
    """What differs between two orders, in words: `model: mine 3, now mine 4`."""
    found = [
        f"{name}: {_shown(getattr(former, name))}, now {_shown(getattr(new, name))}"
        for name in ("target", "into_folder", "column", "prefix_column", "chunk_lines", "chunk_characters")
        if getattr(former, name) != getattr(new, name)
    ]
    if former.model != new.model:
        versions = [f"{model.name} version {model.version}" for model in (former.model, new.model)]
        found.append(f"model: {versions[0]}, now {versions[1]}")
    ours, theirs = former.search.model_dump(), new.search.model_dump()
    found += [f"search.{name}: {ours[name]}, now {theirs[name]}" for name in ours if ours[name] != theirs[name]]
    before, after = ({file.url: file for file in order.inputs} for order in (former, new))
    for url in dict.fromkeys([*before, *after]):
        if url not in after or url not in before:
            found.append(f"input {url}: {'is no longer part of it' if url in before else 'has come since'}")
        elif before[url] != after[url]:
            found.append(f"input {url}: has changed since ({_state(before[url])}; now {_state(after[url])})")
    return found or ["the order of the inputs"]


def way_on(former: Order, new: Order) -> str:
    """What to do about an order that is not done, if another is wanted."""
    begin = "remove the folder of the job to begin anew"
    if former.model_copy(update={"inputs": new.inputs}) != new or not (touched := _touched(former, new)):
        return f"End it with the command that began it, {begin}, or name another folder with --job"
    return f"If the text is the same, set its time back, with {' and '.join(touched)}; else {begin}"


def _touched(former: Order, new: Order) -> list[str]:
    """Commands that set back the times of the inputs, if nothing but times has changed, and that of a few files."""
    if len(former.inputs) != len(new.inputs):
        return []
    changed = [pair for pair in zip(former.inputs, new.inputs, strict=True) if pair[0] != pair[1]]
    same = (before.model_copy(update={"version": after.version}) == after for before, after in changed)
    if not all(same) or len(changed) > _FEW:
        return []
    paths = [(file, local_path(file.url)) for file, _ in changed]
    return [f"`touch -d @{_seconds(file)} {shlex.quote(str(path))}`" for file, path in paths if path]


def _state(file: InputFile) -> str:
    """What is known of a file: `80 bytes, changed 2026-03-01 10:00:00.5 UTC`; in a store, the version that it gives."""
    if not local_path(file.url):
        return f"{file.bytes:,} bytes, version {file.version}"
    seconds, _, rest = _seconds(file).partition(".")
    return f"{file.bytes:,} bytes, changed {datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%d %H:%M:%S}.{rest} UTC"


def _seconds(file: InputFile) -> str:
    """Seconds from 1970 to the last change of a local file, with all that its clock knows."""
    return f"{int(file.version) // 10**9}.{int(file.version) % 10**9:09d}"


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else repr(value)
