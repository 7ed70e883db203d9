"""Parallel text files to tables: two files of equal length, line N of one translating line N of the other.

Only "\\n" ends a line, and a "\\r" right before it goes with it. Every other character is data, U+2028, NUL, quotes and
a lone "\\r" included. A file is plain, gzip or zstd by its first bytes, not by its name, and UTF-8 with or without a
byte order mark.
"""

import gzip
import re
from pathlib import Path
from typing import BinaryIO, cast

import polars as pl

from nmt_core.errors import DataError

PLAIN, GZIP, ZSTD = ".txt", ".gz", ".zst"

_MAGIC = {b"\x1f\x8b": GZIP, b"\x28\xb5\x2f\xfd": ZSTD}
_OTHER_ARCHIVES = {b"PK\x03\x04": "zip", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2", b"7z\xbc\xaf\x27\x1c": "7z"}
_HTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!doctype\s+html|<html[\s>])", re.IGNORECASE)
_HEAD_BYTES = 1_024
_BYTE_ORDER_MARK = "\ufeff"


def suffix_by_content(path: Path) -> str:
    """Suffix that tells how the file is packed: `.txt`, `.gz` or `.zst`.

    Raises:
        DataError: it is an archive of another kind.
    """
    head = _head(path)
    for magic, name in _OTHER_ARCHIVES.items():
        if head.startswith(magic):
            raise DataError(f"{path}: a {name} archive: unpack it, and name the text inside (plain, .gz or .zst)")
    return next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), PLAIN)


def is_html(path: Path) -> bool:
    """Whether the file begins as an HTML page does."""
    return bool(_HTML.match(_head(path)))


def read_pairs(source: Path, target: Path) -> pl.DataFrame:
    """Read one parallel corpus.

    Returns:
        Columns source, target (String) and line (UInt32, the first line being 1), in the order of the files.

    Raises:
        DataError: a file is missing, damaged, empty or not UTF-8, or the files differ in length.
    """
    sides = [_read_lines(source, "source"), _read_lines(target, "target")]
    if sides[0].height != sides[1].height:
        raise DataError(
            f"{source} has {sides[0].height:,} lines and {target} has {sides[1].height:,}: line N of one must be the "
            "translation of line N of the other; check that both come from the same release and are whole"
        )
    return pl.concat(sides, how="horizontal").with_row_index("line", offset=1).select("source", "target", "line")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def _read_lines(path: Path, column: str) -> pl.DataFrame:
    if not path.is_file():
        raise DataError(f"{path}: no such file: check the path in the recipe")
    suffix = suffix_by_content(path)
    try:
        lines = pl.scan_lines(path, name=column, glob=False).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(_explain(path, suffix, error)) from None
    if lines.is_empty():
        raise DataError(f"{path}: the file is empty: name one that holds a sentence per line")
    first = lines.item(0, 0).removeprefix(_BYTE_ORDER_MARK)
    return pl.concat([pl.DataFrame({column: [first]}), lines.slice(1)])


def _explain(path: Path, suffix: str, error: Exception) -> str:
    if isinstance(error, pl.exceptions.ComputeError) and "utf8" in str(error).replace("-", "").lower():
        line = _first_line_that_is_not_utf8(path, suffix)
        place = f"{path}, line {line:,}" if line else f"{path}"
        return f"{place}: not valid UTF-8: convert the file (for example with `iconv -t UTF-8`) or mend that line"
    kind = {GZIP: "gzip ", ZSTD: "zstd "}.get(suffix, "")
    return f"{path}: the {kind}file is truncated or damaged ({error}): fetch it again"


def _first_line_that_is_not_utf8(path: Path, suffix: str) -> int | None:
    """Number of the line, counted from 1; None for zstd, which Python cannot read on its own."""
    if suffix == ZSTD:
        return None
    with cast(BinaryIO, gzip.open(path)) if suffix == GZIP else path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return None
