"""Parallel text in the formats that people keep it in, read as a stream of tables.

- One file for each side: lines (Moses), or SGM test sets.
- One file for both: TSV, CSV, JSONL, Parquet, TMX, XLIFF, gettext PO and MO, test sets of WMT in XML.
- Each of them plain, as gz, zst, xz or bz2, or in a zip or tar archive, which is read without unpacking it.

What a file is, its content says (`kinds`). Rows that cannot be used come with a fault; a file that cannot be used
raises DataError.
"""

from nmt_core.formats.kinds import Kind, Look, is_html, looks_like
from nmt_core.formats.layout import FileSide, Layout, TextFile
from nmt_core.formats.reader import read

__all__ = ["FileSide", "Kind", "Layout", "Look", "TextFile", "is_html", "looks_like", "read"]
