"""Merge the chunks of a job into its output, in the order of the text and with one chunk in memory at a time."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.documents.opening import format_by_name
from nmt_core.errors import ConfigError, DataError
from nmt_core.formats import Kind
from nmt_core.formats.kinds import packing_by_name
from nmt_core.formats.single import has_header, kind_by_name
from nmt_core.jobs.chunk import schema_of
from nmt_core.jobs.documents import Target, require_document, write_document
from nmt_core.jobs.folder import Parts
from nmt_core.jobs.inputs import UNREADABLE
from nmt_core.jobs.kept_columns import ALL, KeptColumns
from nmt_core.jobs.order import Chunk, ModelVersion, Order, Plan
from nmt_core.jobs.unreadable import Origin, noting
from nmt_core.jobs.writers import COLUMNS, aligned_suffix, columns_of, has_second_file, require_output_for, writing
from nmt_core.store import storage
from nmt_core.store.storage import local_path, store_of


@dataclass(frozen=True)
class Output:
    """File to write, and the indices of the inputs that go into it."""

    url: str
    kind: Kind
    packing: str
    files: tuple[int, ...]
    document: str = ""
    """Format of a document, see `documents.opening`. Empty means lines or a table."""

    @property
    def urls(self) -> tuple[str, str, str]:
        """URLs of the file, and of the files that may be written beside it."""
        return self.url, self.url + UNREADABLE, self.url + aligned_suffix(self.packing)


def outputs_of(order: Order) -> list[Output]:
    """Return the files that an order writes.

    There is one file if the input is one file, or if the target has the suffix of a text or a table. Otherwise the
    target is a folder, and each input has a file of the same name and format in it. A single target whose suffix names
    no format gets the format of the first input.
    """
    names = [file.name for file in order.inputs]
    kind, packing = kind_by_name(order.target), packing_by_name(order.target)
    form = format_by_name(order.target)
    says_nothing = kind is Kind.LINES and not _is_text(order.target) and not form
    if order.into_folder and says_nothing:
        folder = order.target.rstrip("/")
        return [
            Output(f"{folder}/{name}", kind_by_name(name), packing_by_name(name), (place,), format_by_name(name))
            for place, name in enumerate(names)
        ]
    if says_nothing:
        kind, form = kind_by_name(names[0]), format_by_name(names[0])
    return [Output(order.target, kind, packing, tuple(range(len(names))), form)]


def require_free_targets(order: Order) -> None:
    """Check that every output can be written and that no output is an input under another name.

    Raises:
        ConfigError: the output format cannot hold what the search returns.
        DataError: a folder is where a file is needed, or a file where a folder is; or an input would be overwritten.
    """
    read = {_identity(file.url): file.url for file in order.inputs}
    in_the_way: dict[Path, Path | None] = {}
    for output in outputs_of(order):
        require_output_for(order.search, output.kind, output.url)
        if output.document:
            require_document(order, output.url, output.document, output.files)
        if order.keep and output.kind is Kind.LINES:
            raise ConfigError(
                f"{output.url}: cannot hold columns: write to a .tsv, .csv, .jsonl or .parquet file, or omit --keep"
            )
        for url in output.urls:
            if lost := read.get(_identity(url)):
                raise DataError(f"{url}: is an output, but also the input {lost}: write to another place")
        if (path := local_path(output.url)) is None:
            continue
        if path.is_dir():
            raise DataError(f"{path}: is a folder, but the output is a file: write to another place")
        if path.parent not in in_the_way:
            above = next(folder for folder in path.parents if folder.exists())
            in_the_way[path.parent] = None if above.is_dir() else above
        if file := in_the_way[path.parent]:
            raise DataError(f"{file}: is a file, but must be a folder for {path}: remove it, or write to another place")


def _identity(url: str) -> object:
    """Return a value that is equal for all names of a file."""
    if path := local_path(url):
        with suppress(FileNotFoundError, NotADirectoryError):
            state = path.stat()
            return state.st_dev, state.st_ino
    return url


def merge(plan: Plan, parts: Parts, former: Collection[str], require_wanted: Callable[[], None]) -> Counter[str]:
    """Write every output.

    Args:
        plan: the chunks.
        parts: the paths of their files.
        former: files that an earlier job of the same folder has written.
        require_wanted: called before an output is published. It raises an error if the output must not be published.

    Returns:
        The number of rows for each status.

    Raises:
        DataError: a chunk is missing or damaged.
    """
    statuses: Counter[str] = Counter()
    outputs = outputs_of(plan.order)
    chunks: dict[int, list[tuple[int, Chunk]]] = {}
    for number, chunk in enumerate(plan.chunks):
        chunks.setdefault(chunk.file, []).append((number, chunk))
    for output in outputs:
        own_chunks = [one for place in output.files for one in chunks.get(place, [])]
        statuses.update(_write(output, plan.order, parts, own_chunks, require_wanted))
        aligned = output.url + aligned_suffix(output.packing)
        if aligned in former and (output.document or not has_second_file(output.kind, plan.order.search)):
            storage.remove([aligned])
    storage.sweep_drafts(url for output in outputs for url in output.urls)
    return statuses


def _write(
    output: Output, order: Order, parts: Parts, chunks: Sequence[tuple[int, Chunk]], before: Callable[[], None]
) -> Counter[str]:
    """Write one output. `before` is called when everything is written, before the file gets its name."""
    if output.document:
        target = Target(output.url, output.packing, output.document, output.files[0])
        return write_document(target, order, parts, chunks, before)
    statuses: Counter[str] = Counter()
    header, search = has_header(order.column), order.search
    kept = _kept(order, parts, chunks)
    with (
        writing(output.url, output.kind, output.packing, search, header=header, kept=kept) as write,
        noting(output.url) as note,
    ):
        for number, chunk in chunks:
            rows = storage.read(parts.input(number))
            done = storage.read(parts.output(number), list(schema_of(search)))
            statuses.update(done["status"].to_list())
            write(table(rows, done, order.model), _read_kept(parts.kept(number)) if kept else None)
            name = order.inputs[chunk.file].name
            note(rows, Origin(name, kind_by_name(name), order.column, chunk.first))
        before()
    return statuses


def _kept(order: Order, parts: Parts, chunks: Sequence[tuple[int, Chunk]]) -> KeptColumns | None:
    """Return the columns that are carried over, or None if there are none."""
    if not order.keep:
        return None
    kept = KeptColumns(columns_of(order.search), () if order.keep == ALL else order.keep)
    for number, _ in chunks:
        kept.look_at(_read_kept(parts.kept(number)))
    return kept


def _read_kept(url: str) -> pa.Table:
    if path := local_path(url):
        return pq.read_table(path, partitioning=None)
    store, name = store_of(url)
    with store.open(name, "rb") as file:
        return pq.ParquetFile(file).read()


def table(rows: pl.DataFrame, done: pl.DataFrame, model: ModelVersion) -> pl.DataFrame:
    """Return rows of the output (`writers.columns_of`) from rows of the input and their translations."""
    whole = done.with_columns(source=rows["text"], model=pl.lit(model.name), model_version=pl.lit(model.version))
    return whole.select(*COLUMNS, *(name for name in done.columns if name not in COLUMNS))


def _is_text(name: str) -> bool:
    return PurePosixPath(name.removesuffix(f".{packing_by_name(name)}")).suffix.casefold() == ".txt"
