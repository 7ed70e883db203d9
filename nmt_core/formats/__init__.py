"""Read parallel text in the formats in which it is distributed, as a stream of tables.

- One file for each side: lines (Moses) or SGM test sets.
- One file for both sides: TSV, CSV, JSON, JSONL, Parquet, XLSX, TMX, XLIFF, gettext PO and MO, and WMT test sets
  in XML.
- Each file is plain, compressed (gz, zst, xz, bz2) or a member of a zip or tar archive. Archives are read without
  unpacking them to disk.

The format of a file is detected from its content, and from its suffix where that leaves a choice (see `kinds`).
Rows that cannot be used carry a fault. A file that cannot be used raises DataError.
"""

from nmt_core.formats.kinds import Kind, Look, is_html, looks_like
from nmt_core.formats.layout import FileSide, Layout, TextFile
from nmt_core.formats.monolingual import read_side
from nmt_core.formats.reader import read

__all__ = ["FileSide", "Kind", "Layout", "Look", "TextFile", "is_html", "looks_like", "read", "read_side"]
