"""Text that careless readers spoil, and readers of files of any format."""

from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest

from nmt_core.formats import Layout, TextFile, read

Pair = tuple[str, str]


@pytest.fixture
def awkward() -> list[Pair]:
    """Pairs that careless readers spoil. None has a tab, a newline, a control character or a space at an end."""
    return [
        ('A "quoted" word, and "one', "Ein »Wort«, und 'eins"),
        ("a\u2028b\u2029c\x85d", "line\u2028separators"),
        ("R&D <b>bold</b> &amp; &lt;", "&quot;F&E&quot; 1 < 2 > 0"),
        ("👩‍👩‍👧 e\u0301 \ufeffmark", "שלום \u200fעולם"),
        ("back\\slash \\n", "{curly} %s, ; | '"),
        ("0", "null"),
    ]


@pytest.fixture
def read_files() -> Callable[..., pl.DataFrame]:
    """Return all rows of some files, from English to German unless a layout says otherwise."""

    def read_all(files: Sequence[TextFile], **layout: object) -> pl.DataFrame:
        languages = {"source_language": "en", "target_language": "de"}
        return pl.concat(read(files, Layout(**(languages | layout))))  # type: ignore[arg-type]

    return read_all


@pytest.fixture
def read_both(tmp_path: Path, read_files: Callable[..., pl.DataFrame]) -> Callable[..., pl.DataFrame]:
    """Write a file with both sides, and read it."""

    def write_and_read(name: str, content: bytes, **layout: object) -> pl.DataFrame:
        path = tmp_path / name
        path.write_bytes(content)
        return read_files([TextFile(path, "both")], **layout)

    return write_and_read


@pytest.fixture
def read_sides(tmp_path: Path, read_files: Callable[..., pl.DataFrame]) -> Callable[..., pl.DataFrame]:
    """Write a file for each side, and read them."""

    def write_and_read(source: bytes, target: bytes, **layout: object) -> pl.DataFrame:
        for name, content in (("side.en", source), ("side.de", target)):
            (tmp_path / name).write_bytes(content)
        return read_files(
            [TextFile(tmp_path / "side.en", "source"), TextFile(tmp_path / "side.de", "target")], **layout
        )

    return write_and_read
