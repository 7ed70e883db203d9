"""Files with a line for each sentence: line ends, charsets and faults."""

import subprocess
import sys
from io import BytesIO

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.formats.lines import BLOCK_BYTES, read_lines
from nmt_core.formats.streams import ByteStream


def table(content: bytes, limit: int = 1000, block: int = BLOCK_BYTES) -> pl.DataFrame:
    stream = ByteStream("text", BytesIO(content))
    return pl.concat(
        [pl.DataFrame(schema=dict.fromkeys(("text", "fault", "value"), pl.String)), *read_lines(stream, limit, block)]
    )


def texts(content: bytes, block: int = BLOCK_BYTES) -> list[str]:
    return table(content, block=block)["text"].to_list()


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\t", '"', "'", "\\"])
def test_only_a_newline_ends_a_line(character: str) -> None:
    assert texts(f"one{character}two\nthree\n".encode()) == [f"one{character}two", "three"]


def test_the_last_line_needs_no_newline_and_a_newline_starts_no_line() -> None:
    assert texts(b"a\nb") == texts(b"a\nb\n") == ["a", "b"]
    assert texts(b"a\n\n") == ["a", ""]
    assert texts(b"") == []


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_a_carriage_return_goes_only_with_a_newline(block: int) -> None:
    assert texts(b"a\r\nb\r\r\n\rc\r\n\r\nlast\r", block) == ["a", "b\r", "\rc", "", "last\r"]


def test_a_byte_order_mark_is_no_text_at_the_beginning_only() -> None:
    assert texts("\ufeffa\n\ufeffb\n".encode()) == ["a", "\ufeffb"]


def test_a_line_that_is_not_utf8_is_a_fault_of_that_line_only() -> None:
    rows = table("ä\r\nGr\udcfc\udcdfe\r\nß\n".encode(errors="surrogateescape")).rows()

    assert rows == [("ä", None, None), ("Gr\ufffd\ufffde", "invalid_utf8", "byte 3: fc"), ("ß", None, None)]


def test_a_nul_byte_is_a_fault() -> None:
    assert table(b"a\nbc\0d\n").rows() == [("a", None, None), ("bc\0d", "null_byte", "byte 3")]


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_beyond_the_limit_is_a_fault_with_its_length(block: int, end: bytes) -> None:
    content = b"x" * 20 + b"\n" + "é".encode() * 150 + b"\n" + b"y" * 20 + b"\r\n" + b"z" * 21 + end

    assert table(content, 20, block).select("fault", "value").rows() == [
        (None, None),
        ("too_long_line", "300"),
        (None, None),
        ("too_long_line", "21"),
    ]


@given(
    st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=30),
    st.sampled_from([b"\n", b"\r\n"]),
    st.integers(1, 40),
    st.integers(5, 25),
)
def test_blocks_of_any_size_make_the_same_rows(lines: list[bytes], end: bytes, block: int, limit: int) -> None:
    content = b"".join(line + end for line in lines)
    rows = table(content, limit, block)

    assert rows.equals(table(content, limit))
    assert rows.height == len(lines)
    for number, (line, (text, fault, _)) in enumerate(zip(lines, rows.rows(), strict=True)):
        kept = (line + end)[:-1].removesuffix(b"\r")
        if number == 0:
            kept = kept.removeprefix(b"\xef\xbb\xbf")
        assert fault == expected_fault(kept, limit)
        assert fault == "too_long_line" or text == kept.decode("utf-8", "replace")


def expected_fault(line: bytes, limit: int) -> str | None:
    if len(line) > limit:
        return "too_long_line"
    try:
        return "null_byte" if "\0" in line.decode("utf-8") else None
    except UnicodeDecodeError:
        return "invalid_utf8"


_LONG_LINE = """
import resource, sys
from nmt_core.formats.lines import read_lines
from nmt_core.formats.streams import ByteStream

class Endless:
    left = int(sys.argv[1])
    def read(self, size):
        size = min(size, self.left)
        self.left -= size
        return bytes(size).replace(b"\\0", b"x")

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
(table,) = read_lines(ByteStream("long", Endless()), 100_000)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(table.item(0, "fault"), table.item(0, "value"), after - before)
"""


def test_a_line_of_a_hundred_megabytes_takes_the_memory_of_some_blocks() -> None:
    command = [sys.executable, "-c", _LONG_LINE, "100000000"]
    fault, length, kilobytes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert (fault, length) == ("too_long_line", "100000000")
    assert int(kilobytes) < 30_000
