"""Translate documents in a job: their segments are rows, and the output is the document with its translations.

The whole document is stored with the chunks when it is read, so that it is no longer needed afterwards, and is read
again when the output is written.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from nmt_core.documents.document import NOT_IN_CHARSET, Document, Options, Translated
from nmt_core.documents.opening import MOST_BYTES, format_by_name, open_document
from nmt_core.errors import ConfigError, DataError, StageError, counted
from nmt_core.formats.rows import TOO_LONG
from nmt_core.formats.single import Cell, Columns
from nmt_core.formats.streams import ByteStream
from nmt_core.jobs.folder import Parts, read_bytes
from nmt_core.jobs.order import MAX_LINE_BYTES, Chunk, Order
from nmt_core.jobs.writers import packed_file
from nmt_core.store import storage


class Target(NamedTuple):
    """Document to write."""

    url: str
    packing: str
    form: str
    """Format of the document, see `documents.opening`."""
    file: int
    """Index of the input that is the document."""


def document_cells(stream: ByteStream, form: str, order: Order, columns: Columns, url: str) -> Iterator[Cell]:
    """Store a document and yield its segments.

    Args:
        stream: the document.
        form: its format.
        order: the order, with the options for documents.
        columns: columns of a table, of which a document has none.
        url: file in which the document is stored.

    Raises:
        DataError: the document cannot be parsed, or columns are asked for.
    """
    if any(columns):
        option = next(option for column, option in columns.asked if column)
        raise DataError(
            f"{stream.name}: a document without columns: leave out {option}, or name a .tsv, .csv, .jsonl..."
        )
    if order.keep:
        raise DataError(f"{stream.name}: is a document, which has no columns to keep: leave out --keep")
    content = stream.read_whole(MOST_BYTES)
    document = open_document(content, form, stream.name, order.documents or Options())
    storage.write_bytes([content], url)
    for segment in document.segments:
        is_too_long = not segment.fault and len(segment.text.encode()) > MAX_LINE_BYTES
        yield Cell(segment.text, TOO_LONG if is_too_long else segment.fault)


def require_document(order: Order, url: str, form: str, files: Sequence[int]) -> None:
    """Check that an output is the document that is read.

    Raises:
        ConfigError: the output has another format than the input, or there are several inputs.
    """
    names = [order.inputs[file].name for file in files]
    if len(names) > 1:
        raise ConfigError(
            f"{url}: a document holds the translation of one document, but there are {len(names):,} inputs: name a "
            "folder, which gets one document for each"
        )
    own = format_by_name(names[0])
    if own != form:
        what = f"a {own} document" if own else "text"
        raise ConfigError(
            f"{url}: a {form} document can only be written from a {form} document, and {names[0]} is {what}: name the "
            "output by the format of the input, or *.jsonl for a table"
        )


def write_document(
    target: Target, order: Order, parts: Parts, chunks: Sequence[tuple[int, Chunk]], before: Callable[[], None]
) -> Counter[str]:
    """Write a document with its translations, and return the number of segments for each status.

    Args:
        target: the document.
        order: the order.
        parts: paths of the chunks.
        chunks: numbers of the chunks of the document, in order.
        before: called when everything is written, before the file gets its name.

    Raises:
        DataError: the stored document or a chunk is missing or damaged.
        StageError: this version reads other segments from the document than the version that cut it.
    """
    document = _stored(target, order, parts)
    translations, statuses = _translations(order, parts, chunks)
    if len(translations) != len(document.segments):
        raise StageError(
            f"{target.url}: the document has {counted(len(document.segments), 'segment')}, but the job has cut "
            f"{len(translations):,}: another version of this program began the job: finish it with that version, or "
            "begin another job with --job"
        )
    content, unwritten = document.splice(translations)
    for number in unwritten:
        statuses[number] = NOT_IN_CHARSET
    with packed_file(target.url, target.packing) as file:
        file.write(content)
        before()
    return Counter(statuses)


def _stored(target: Target, order: Order, parts: Parts) -> Document:
    url = parts.document(target.file)
    content = read_bytes(url)
    if content is None:
        raise DataError(f"{url}: there is no such file: it was removed while it was needed: run the command again")
    return open_document(content, target.form, order.inputs[target.file].url, order.documents or Options())


def _translations(
    order: Order, parts: Parts, chunks: Sequence[tuple[int, Chunk]]
) -> tuple[list[Translated | None], list[str]]:
    """Return the translation of each segment, or None if it has none, and its status."""
    has_links = order.search.alignments == "words"
    translations: list[Translated | None] = []
    statuses: list[str] = []
    for number, _ in chunks:
        faults = storage.read(parts.input(number), ["fault"])["fault"].to_list()
        done = storage.read(parts.output(number), ["translation", "status", *(["alignment"] if has_links else [])])
        statuses += done["status"].to_list()
        links = done["alignment"].to_list() if has_links else [""] * done.height
        for text, own, fault in zip(done["translation"].to_list(), links, faults, strict=True):
            translations.append(Translated(text, _links(own)) if text and not fault else None)
    return translations, statuses


def _links(pharaoh: str | None) -> list[tuple[int, int]]:
    pairs = (link.partition("-") for link in (pharaoh or "").split())
    return [(int(source), int(target)) for source, _, target in pairs]
