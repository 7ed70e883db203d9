"""The chunks of a job become its output, in the order of the text; a chunk at a time is in memory."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

import polars as pl

from nmt_core.corpus import storage
from nmt_core.corpus.formats import Kind
from nmt_core.corpus.formats.kinds import packing_by_name
from nmt_core.corpus.formats.single import has_header, kind_by_name
from nmt_core.jobs.chunk import schema_of
from nmt_core.jobs.folder import Parts
from nmt_core.jobs.inputs import UNREADABLE
from nmt_core.jobs.order import Chunk, ModelVersion, Order, Plan
from nmt_core.jobs.unreadable import Origin, noting
from nmt_core.jobs.writers import COLUMNS, aligned_suffix, has_second_file, writing


@dataclass(frozen=True)
class Output:
    """A file to write, and the places of the inputs that go into it."""

    url: str
    kind: Kind
    packing: str
    files: tuple[int, ...]

    @property
    def suffixes(self) -> tuple[str, str]:
        """Of the files that may stand beside it."""
        return UNREADABLE, aligned_suffix(self.packing)


def outputs_of(order: Order) -> list[Output]:
    """One file if the input is one, or the target has the suffix of a text or a table; else the target is a folder, and
    each input has a file of its own name and format in it.

    A target whose suffix says nothing gets the format of its input.
    """
    names = [file.name for file in order.inputs]
    kind, packing = kind_by_name(order.target), packing_by_name(order.target)
    says_nothing = kind is Kind.LINES and not _is_text(order.target)
    if order.into_folder and says_nothing:
        return [
            Output(f"{order.target.rstrip('/')}/{name}", kind_by_name(name), packing_by_name(name), (place,))
            for place, name in enumerate(names)
        ]
    return [Output(order.target, kind_by_name(names[0]) if says_nothing else kind, packing, tuple(range(len(names))))]


def merge(plan: Plan, parts: Parts) -> Counter[str]:
    """Write every output.

    Returns:
        How many rows ended with each status.

    Raises:
        DataError: a chunk is missing or damaged.
    """
    statuses: Counter[str] = Counter()
    for output in outputs_of(plan.order):
        _write(output, plan, parts, statuses)
        storage.sweep_drafts(output.url)
    return statuses


def _write(output: Output, plan: Plan, parts: Parts, statuses: Counter[str]) -> None:
    header, search = has_header(plan.order.column), plan.order.search
    with writing(output.url, output.kind, output.packing, search, header=header) as write, noting(output.url) as note:
        for number, chunk in _chunks(plan, output.files):
            rows = storage.read(parts.input(number))
            done = storage.read(parts.output(number), list(schema_of(search)))
            statuses.update(done["status"].to_list())
            write(table(rows, done, plan.order.model))
            name = plan.order.inputs[chunk.file].name
            note(rows, Origin(name, kind_by_name(name), plan.order.column, chunk.first))
    if not has_second_file(output.kind, search):  # an earlier output may have had one
        storage.remove([output.url + aligned_suffix(output.packing)])


def _chunks(plan: Plan, files: tuple[int, ...]) -> Iterator[tuple[int, Chunk]]:
    return ((number, chunk) for number, chunk in enumerate(plan.chunks) if chunk.file in files)


def table(rows: pl.DataFrame, done: pl.DataFrame, model: ModelVersion) -> pl.DataFrame:
    """Rows of the output (`writers.columns_of`), of those of the input and `done`."""
    whole = done.with_columns(source=rows["text"], model=pl.lit(model.name), model_version=pl.lit(model.version))
    return whole.select(*COLUMNS, *(name for name in done.columns if name not in COLUMNS))


def _is_text(name: str) -> bool:
    return PurePosixPath(name.removesuffix(f".{packing_by_name(name)}")).suffix.casefold() == ".txt"
