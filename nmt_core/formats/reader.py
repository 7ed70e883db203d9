"""Read every format into the same tables of pairs."""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

import polars as pl

from nmt_core.errors import DataError, counted
from nmt_core.formats import delimited, exchange, gettext, json_file, jsonl, parquet, spreadsheets, testsets
from nmt_core.formats.archives import Members, open_members, select
from nmt_core.formats.charsets import decoded
from nmt_core.formats.kinds import ARCHIVES, Kind, kind_of
from nmt_core.formats.layout import BLANK_LINES, Layout, TextFile
from nmt_core.formats.lines import read_lines
from nmt_core.formats.rows import DOCUMENT_END, FRAME_ROWS, MISSING_COLUMN, SIDE_SCHEMA, paired
from nmt_core.formats.streams import ByteStream, open_file

READERS: dict[Kind, Callable[[ByteStream, Layout], Iterator[pl.DataFrame]]] = {
    Kind.TSV: delimited.read_tsv,
    Kind.CSV: delimited.read_csv,
    Kind.JSONL: jsonl.read,
    Kind.JSON: json_file.read,
    Kind.TMX: exchange.read_tmx,
    Kind.XLIFF: exchange.read_xliff,
    Kind.PO: gettext.read_po,
    Kind.MO: gettext.read_mo,
    Kind.TEST_SET: testsets.read_xml,
    Kind.PARQUET: parquet.read,
    Kind.XLSX: spreadsheets.read,
}
"""Reader of each format that holds both sides."""

_COLUMNS = ("source", "target", "line", "fault", "value")


def read(files: Sequence[TextFile], layout: Layout) -> Iterator[pl.DataFrame]:
    """Read a corpus of any size as a stream of tables.

    Files that hold one side are matched by their order: the first source file with the first target file.

    Returns:
        Tables of at most 50,000 rows with the columns source, target (String), line (Int64), fault and value (String).
        `line` counts from 1 over the whole corpus. In TMX, XLIFF and gettext files it counts the pairs of units.
        `fault` and `value` are null if the row can be used. The text of a row with a fault is the part of it that can
        be shown.
        With `layout.documents`, the column `document` (Int64) holds the number of the document, from 1.

    Raises:
        DataError: a file is missing, empty, damaged or of the wrong kind. Some rows may have been yielded before.
    """
    lines, documents = 0, _Documents(layout)
    for frame in _frames(files, layout):
        for start in range(0, frame.height, FRAME_ROWS):
            part = documents.numbered(frame.slice(start, FRAME_ROWS))
            numbers = pl.int_range(lines + 1, lines + part.height + 1, dtype=pl.Int64, eager=True).alias("line")
            yield part.with_columns(numbers).select(*_COLUMNS, *(["document"] if layout.documents else []))
            lines += part.height


class _Documents:
    """Counter of the documents of a corpus."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._count = 0
        self._name: str | None = None
        self._is_between = True

    def numbered(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with the numbers of their documents in the column `document`, if documents are told apart."""
        if not self._layout.documents:
            return rows
        if self._layout.document_column:
            return self._by_name(rows)
        return self._by_blanks(rows)

    def _by_name(self, rows: pl.DataFrame) -> pl.DataFrame:
        if "document" not in rows.columns:
            raise DataError(
                f"documents={self._layout.documents!r}: the files have no columns: set it to {BLANK_LINES}, or leave "
                "it out"
            )
        names = rows["document"]
        begins = names.ne_missing(names.shift(1))
        begins[0] = self._count == 0 or names[0] != self._name
        numbers = begins.cum_sum().cast(pl.Int64) + self._count
        self._count, self._name = int(numbers[-1]), names[-1]
        return rows.with_columns(document=numbers)

    def _by_blanks(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Number the documents, and mark the blank lines between them."""
        sides = [rows[side].str.strip_chars(" \t\r\u3000\u00a0") == "" for side in ("source", "target")]
        is_blank = sides[0] & sides[1] & (rows["fault"].is_null() | (rows["fault"] == MISSING_COLUMN))
        follows_blank = is_blank.shift(1, fill_value=self._is_between)
        numbers = (~is_blank & follows_blank).cum_sum().cast(pl.Int64) + self._count
        self._count, self._is_between = int(numbers[-1]), bool(is_blank[-1])
        return rows.with_columns(
            document=numbers,
            fault=pl.when(is_blank).then(pl.lit(DOCUMENT_END)).otherwise("fault"),
            value=pl.when(is_blank).then(None).otherwise("value"),
        )


def _frames(files: Sequence[TextFile], layout: Layout) -> Iterator[pl.DataFrame]:
    sources = [file for file in files if file.side == "source"]
    targets = [file for file in files if file.side == "target"]
    if len(sources) != len(targets):
        raise DataError(
            f"{len(sources)} source files and {len(targets)} target files ({_names(sources)}; {_names(targets)}): name "
            "the same number of each"
        )
    yield from _whole([file for file in files if file.side == "both"], layout)
    for source, target in zip(sources, targets, strict=True):
        yield from _side_by_side(source, target, layout)


def _names(files: Sequence[TextFile]) -> str:
    return ", ".join(file.path.name for file in files) or "none"


def _whole(files: Sequence[TextFile], layout: Layout) -> Iterator[pl.DataFrame]:
    """Yield tables of files with both sides. One of several may hold no pairs, such as the last shard of a data set."""
    rows = 0
    for file in files:
        for frame in _both_sides(file, layout):
            rows += frame.height
            yield frame
    if files and not rows:
        hold = f" and {len(files) - 1:,} more: hold" if len(files) > 1 else ": holds"
        raise DataError(f"{files[0].path}{hold} no pair: name a file that does")


def _both_sides(file: TextFile, layout: Layout) -> Iterator[pl.DataFrame]:
    kind = _archive_kind(file, layout)
    parts = select(file, kind, layout) if kind else [file]
    if len(parts) == 2:
        yield from _side_by_side(parts[0], parts[1], layout)
        return
    for stream, inner in _texts(parts[0], layout):
        yield from READERS[inner](stream, layout)


def _side_by_side(source: TextFile | Members, target: TextFile | Members, layout: Layout) -> Iterator[pl.DataFrame]:
    for source_stream, target_stream in zip_longest(_texts(source, layout), _texts(target, layout)):
        if source_stream is None or target_stream is None:
            lone = (source_stream or target_stream)[0].name
            raise DataError(f"{lone}: has no partner on the other side: name members that match up one to one")
        sides = (source_stream, target_stream)
        yield from _aligned(*(_Lines(stream, kind, layout.max_line_bytes) for stream, kind in sides))


def _archive_kind(file: TextFile, layout: Layout) -> Kind | None:
    """Return ZIP or TAR, or None if the file is the text itself."""
    with open_file(file.path) as stream:
        kind = kind_of(decoded(stream, layout.encoding), file.path.name, file.side)
        if stream.packing and kind is Kind.ZIP:
            raise DataError(f"{stream.name}: a zip archive inside a {stream.packing} file: unpack the outer one")
        return kind if kind in ARCHIVES else None


def _texts(file: TextFile | Members, layout: Layout) -> Iterator[tuple[ByteStream, Kind]]:
    """Yield the texts of a side, or of both sides: the file itself, or members of an archive."""
    if isinstance(file, TextFile):
        archive = _archive_kind(file, layout)
        if not archive:
            with open_file(file.path) as stream:
                text = decoded(stream, layout.encoding)
                yield text, kind_of(text, file.path.name, file.side)
            return
        (file,) = select(file, archive, layout)
    for packed in open_members(file):
        member = decoded(packed, layout.encoding)
        kind = kind_of(member, member.name, file.side)
        if kind in ARCHIVES:
            raise DataError(
                f"{member.name}: an archive inside an archive: unpack the outer one, and name the inner one"
            )
        yield member, kind


class _Lines:
    """Lines of one side, taken in portions that the other side has too."""

    def __init__(self, stream: ByteStream, kind: Kind, max_line_bytes: int) -> None:
        self.name = stream.name
        read_side = testsets.read_sgm if kind is Kind.SGM else read_lines
        self._tables = read_side(stream, max_line_bytes)
        self._waiting = pl.DataFrame(schema=SIDE_SCHEMA)
        self.count = 0

    def ready(self) -> int:
        """Return the number of rows that can be taken, which is 0 only at the end."""
        if not self._waiting.height:
            self._waiting = next(self._tables, self._waiting)
            self.count += self._waiting.height
        return self._waiting.height

    def take(self, rows: int) -> pl.DataFrame:
        taken, self._waiting = self._waiting.head(rows), self._waiting.slice(rows)
        return taken

    def exhaust(self) -> int:
        """Read to the end, and return the number of all lines."""
        return self.count + sum(table.height for table in self._tables)


def _aligned(source: _Lines, target: _Lines) -> Iterator[pl.DataFrame]:
    while rows := min(source.ready(), target.ready()):
        yield paired(source.take(rows), target.take(rows))
    if source.ready() or target.ready():
        counts = source.exhaust(), target.exhaust()
        raise DataError(
            f"{source.name} has {counted(counts[0], 'line')} and {target.name} has {counts[1]:,}: line N of one must "
            "be the translation of line N of the other; check that both come from the same release and are complete"
        )
    for side in (source, target):
        if not side.count:
            raise DataError(f"{side.name}: the file is empty: fetch it again, or name one that holds text")
