"""Define the order of a job: everything that determines its output, with a fingerprint that identifies it."""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from nmt_core.config import SearchConfig
from nmt_core.config.renamed import counted_values
from nmt_core.config.section import later
from nmt_core.documents.document import Options
from nmt_core.errors import counted
from nmt_core.jobs.inputs import InputFile
from nmt_core.store.artifacts import fingerprint_of
from nmt_core.store.storage import local_path

MAX_LINE_BYTES = 1 << 20
"""Maximum size of a line in bytes. A longer one is hardly text, would fill the memory, and is not translated."""

_FEW = 3
_DIGITS = 12


class ModelVersion(BaseModel):
    """Model of a job, pinned to a version. An alias is looked up once, when the job begins."""

    model_config = ConfigDict(frozen=True)
    name: str
    """Name of a registered model, or the folder or artifact that the user named."""
    version: str
    """Version number of a registered model. For any other model, the first digits of the hash."""
    sha256: str
    """SHA-256 of the bundle's `config.json`, which holds the hashes of the other files."""


class GlossaryIdentity(BaseModel):
    """Terms of a job."""

    model_config = ConfigDict(frozen=True)
    terms: int
    """Number of terms."""
    sha256: str
    """Hash of the terms, whatever their order."""

    def __str__(self) -> str:
        return f"{counted(self.terms, 'term')} (sha256 {self.sha256[:12]})"


class Shadow(BaseModel):
    """Challenger that translates a share of the lines beside the model of the job, for a comparison."""

    model_config = ConfigDict(frozen=True)
    asked: str
    """Challenger as the user named it."""
    model: ModelVersion
    search: SearchConfig
    share: float
    """Share of the lines."""
    to: str = ""
    """Pair of languages into which the challenger translates rows that name none. Empty means its only one."""

    def __str__(self) -> str:
        return f"{self.model.name} version {self.model.version}, share {self.share:g}"


class Order(BaseModel):
    """Everything that determines the output of a job."""

    model_config = ConfigDict(frozen=True)
    format: Literal[1] = 1
    model: ModelVersion
    search: SearchConfig
    inputs: tuple[InputFile, ...]
    target: str
    """File to write, or folder with one file for each input."""
    into_folder: bool = False
    """True if the target is a folder, unless it has the suffix of a text or a table."""
    column: str = ""
    """Name or number of the column to translate. See `formats.single`."""
    prefix_column: str = ""
    """Name or number of the column with the words that each translation begins with. Empty means none."""
    to: str = later("")
    """Target language, or pair of languages, of the rows that name none. Empty means the model's only one."""
    to_column: str = later("")
    """Name or number of the column with the target language of each row. Empty means none."""
    keep: tuple[str, ...] = later(())
    """Columns of the input to carry over, or `kept.ALL`. Empty means none."""
    glossary: GlossaryIdentity | None = later(None)
    """Terms whose translations are given. None means no glossary."""
    judge_files: Mapping[str, str] = later({})
    """Hashes of the files of `search.judge`, by the word that names them. Empty means that there are none."""
    shadow: Shadow | None = later(None)
    """Challenger that is compared with the model. It changes nothing in the output. None means that there is none."""
    review: int = later(0)
    """Number of lines to write for correction by a human. 0 means none."""
    documents: Options | None = later(None)
    """Options for documents. None means that no input is a document."""
    chunk_lines: int = 4_096
    """Maximum number of rows of a chunk. They are sorted by length and translated together."""
    chunk_characters: int = 2_000_000
    """Number of characters at which a chunk ends, with the row that reaches it."""

    @property
    def fingerprint(self) -> str:
        """Hash that identifies the order."""
        return fingerprint_of(counted_values(self.model_dump(mode="json")))


class Chunk(BaseModel):
    """Rows of one of the inputs: `lines` of them, from row `first`, counted from 0."""

    model_config = ConfigDict(frozen=True)
    file: int
    first: int
    lines: int


class JobRequest(NamedTuple):
    """Model and text as the user named them, before either is looked up."""

    model: str
    """Name of the model, such as `models:/NAME@champion`."""
    source: str = ""
    """File, folder, pattern or address of the text. Empty means unknown."""


class Begun(BaseModel):
    """Job that has begun."""

    model_config = ConfigDict(frozen=True)
    asked: str
    """Model as the user named it."""
    source: str = ""
    """Text as the user named it. Empty means unknown."""
    order: Order
    number: int
    """Number of the job in its folder, counted from 1."""


class Plan(Begun):
    """Job with the chunks of its text, in the order of the text."""

    chunks: tuple[Chunk, ...]

    @property
    def lines(self) -> int:
        """Number of rows of all inputs."""
        return sum(chunk.lines for chunk in self.chunks)


def differences(former: Order, new: Order) -> list[str]:
    """Return the differences between two orders as text, such as `model: mine version 3, now mine version 4`."""
    lines = [
        f"{name}: {_shown(getattr(former, name))}, now {_shown(getattr(new, name))}"
        for name in (
            "target",
            "into_folder",
            "column",
            "prefix_column",
            "to",
            "to_column",
            "keep",
            "documents",
            "review",
            "chunk_lines",
            "chunk_characters",
        )
        if getattr(former, name) != getattr(new, name)
    ]
    if former.model != new.model:
        versions = [f"{model.name} version {model.version}" for model in (former.model, new.model)]
        lines.append(f"model: {versions[0]}, now {versions[1]}")
    if former.glossary != new.glossary:
        lines.append(f"glossary: {former.glossary or 'none'}, now {new.glossary or 'none'}")
    if former.shadow != new.shadow:
        lines.append(f"shadow: {former.shadow or 'none'}, now {new.shadow or 'none'}")
    for word in sorted({*former.judge_files, *new.judge_files}):
        digests = [order.judge_files.get(word, "")[:_DIGITS] or "no file" for order in (former, new)]
        if digests[0] != digests[1]:
            lines.append(f"search.judge: {word} was {digests[0]}, now {digests[1]}")
    for name in SearchConfig.model_fields:
        old_value, new_value = getattr(former.search, name), getattr(new.search, name)
        if old_value != new_value:
            lines.append(f"search.{name}: {old_value}, now {new_value}")
    before, after = ({file.url: file for file in order.inputs} for order in (former, new))
    for url in dict.fromkeys([*before, *after]):
        if url not in after or url not in before:
            lines.append(f"input {url}: {'is no longer part of the job' if url in before else 'was added since'}")
        elif before[url] != after[url]:
            lines.append(f"input {url}: has changed since ({_state(before[url])}; now {_state(after[url])})")
    return lines or ["the order of the inputs"]


def way_on(former: Order, new: Order) -> str:
    """Return what to do if another order is requested while a job is not done."""
    another = "name another folder with --job"
    if former.model_copy(update={"inputs": new.inputs}) != new or not (touched := _touched(former, new)):
        return f"Finish it with the command that began it, or {another}"
    return f"If the text is the same, restore its modification time with {' and '.join(touched)}; else {another}"


def _touched(former: Order, new: Order) -> list[str]:
    """Return commands that restore modification times, if only the times of a few inputs have changed."""
    if len(former.inputs) != len(new.inputs):
        return []
    changed = [pair for pair in zip(former.inputs, new.inputs, strict=True) if pair[0] != pair[1]]
    same = (before.model_copy(update={"version": after.version}) == after for before, after in changed)
    if not all(same) or len(changed) > _FEW:
        return []
    paths = [(file, local_path(file.url)) for file, _ in changed]
    return [f"`touch -d @{_seconds(file)} {shlex.quote(str(path))}`" for file, path in paths if path]


def _state(file: InputFile) -> str:
    """Return the size of a file with its modification time, or with its version if it is in a store."""
    if not local_path(file.url):
        return f"{file.bytes:,} bytes, version {file.version}"
    seconds, _, rest = _seconds(file).partition(".")
    return f"{file.bytes:,} bytes, changed {datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%d %H:%M:%S}.{rest} UTC"


def _seconds(file: InputFile) -> str:
    """Return the modification time of a local file in seconds since 1970, with nine decimals."""
    return f"{int(file.version) // 10**9}.{int(file.version) % 10**9:09d}"


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else repr(value)
