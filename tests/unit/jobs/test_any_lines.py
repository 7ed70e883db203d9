"""For any bytes in a file: one line out for each line in, with its true status, and no exception."""

import base64
import csv
import io
import json
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt_core.config import SearchConfig
from nmt_core.jobs.checks import FAULTS
from nmt_core.jobs.order import MAX_LINE_BYTES
from nmt_core.spelling import is_visible

DISTINCT = 10_000
EXAMPLES, PARTS = 24, 24  # each example is every pair of a head and a tail: 576 lines, and 13,824 of them in all

WORDS = st.sampled_from(
    [b"the cat ", b"house", "나는 ".encode(), b"sees a dog. " * 9, b"now! ", b"\t", "\u3000 ".encode(), b"\r", b""]
)
CHARACTERS = st.text(st.characters(exclude_categories=()), max_size=6).map(lambda text: text.encode("utf-8", "replace"))
CONTROLS = st.text(st.characters(categories=("Cc", "Cf", "Zs", "Zl", "Zp")), max_size=4).map(str.encode)
part = st.one_of(WORDS, CHARACTERS, CONTROLS, st.binary(max_size=4)).map(lambda text: text.replace(b"\n", b""))


def is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def parts(count: int) -> st.SearchStrategy[list[bytes]]:
    return st.lists(part, min_size=count, max_size=count, unique=True)


def test_any_bytes_give_a_row_for_each_line(job: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    drawn: set[bytes] = set()

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(heads=parts(PARTS), tails=parts(PARTS), long_lines=st.sampled_from(["split", "cut"]))
    def check(heads: list[bytes], tails: list[bytes], long_lines: Literal["split", "cut"]) -> None:
        lines = [first + second for first in heads for second in tails]
        drawn.update(lines)
        require_a_row_each(lines, long_lines, job, tmp_path_factory.mktemp("any"))

    check()
    assert len(drawn) >= DISTINCT


def require_a_row_each(lines: list[bytes], long_lines: Literal["split", "cut"], job: Any, folder: Path) -> None:
    (folder / "in.txt").write_bytes(b"".join(line + b"\n" for line in lines))
    search = job.search.model_copy(update={"long_lines": long_lines})
    outcome = job.run(folder / "in.txt", folder / "out.parquet", chunk_lines=200, search=search)
    found = pl.read_parquet(folder / "out.parquet").to_dicts()
    assert len(found) == len(lines) == outcome.done.lines
    assert outcome.done.statuses == Counter(row["status"] for row in found)
    for line, row in zip([lines[0].removeprefix(b"\xef\xbb\xbf"), *lines[1:]], found, strict=True):
        assert row["status"] in {
            "ok",
            "unfinished",
            long_lines,
            "empty",
            "invalid_utf8",
            "unknown",
            "partly_unknown",
            *FAULTS,
        }
        if (b"sees a dog. " * 9) in line and is_utf8(line):
            assert row["status"] in {long_lines, "unfinished", "partly_unknown", *FAULTS}
        assert (row["status"] == "invalid_utf8") == (not is_utf8(line))
        assert row["translation"] == " ".join(row["translation"].splitlines())
        if row["status"] in {"empty", "invalid_utf8"}:
            assert (row["translation"], row["score"]) == ("", None)
        if is_utf8(line):
            text = line.removesuffix(b"\r").decode()
            assert row["source"] == text
            if any(unicodedata.category(character)[0] in "LN" and is_visible(character) for character in text):
                assert row["status"] != "empty"
            if not text.replace("\x85", "…").strip():  # the ellipsis of Windows-1252, which training text has too
                assert row["status"] == "empty"
    kept = folder / "out.parquet.unreadable.jsonl"
    notes = [json.loads(note) for note in kept.read_text().splitlines()] if kept.exists() else []
    wanted = [(number, line) for number, line in enumerate(lines, 1) if found[number - 1]["status"] == "invalid_utf8"]
    assert [note["line"] for note in notes] == [number for number, _ in wanted]
    for note, (_, line) in zip(notes, wanted, strict=True):
        assert base64.b64decode(note["base64"]) == line.removeprefix(
            b"\xef\xbb\xbf" * (note["line"] == 1)
        ).removesuffix(b"\r")


def as_json(line: bytes) -> bytes:
    """Return an object with a text, whose bytes stay unchanged even if they are not UTF-8."""
    record = {"text": line.decode("utf-8", "surrogateescape")}
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogateescape")


def write_input(kind: str, lines: list[bytes], file: Path) -> None:
    if kind == "parquet":
        pq.write_table(pa.table({"text": pa.array(lines, pa.binary())}), file)
        return
    row: Callable[[bytes], bytes] = {
        "txt": lambda line: line,
        "tsv": lambda line: b"1\t" + line,
        "csv": lambda line: b'1,"' + line.replace(b'"', b'""') + b'"',
        "jsonl": as_json,
    }[kind]
    names = {"tsv": b"id\ttext\n", "csv": b"id,text\n"}.get(kind, b"")
    file.write_bytes(names + b"".join(row(line) + b"\n" for line in lines))


def text_in(kind: str, line: bytes) -> str:
    """Return the text that a format takes from a line, without the marks of the format."""
    if kind in ("txt", "tsv"):
        line = line.removesuffix(b"\r")
    return (line.split(b"\t")[0] if kind == "tsv" else line).decode()


def rows_in(file: Path) -> list[dict[str, str]]:
    """Return the rows of an output. A file of lines holds the translation alone."""
    if file.suffix == ".parquet":
        return pl.read_parquet(file).to_dicts()
    text = file.read_bytes().decode()
    if file.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(text, newline="")))
    lines = text.split("\n")[:-1]
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in lines]
    if file.suffix == ".txt":
        return [{"translation": line} for line in lines]
    names, *rows = (line.split("\t") for line in lines)
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.parametrize(
    ("source", "target"),
    [("txt", "tsv"), ("tsv", "csv"), ("csv", "jsonl"), ("jsonl", "parquet"), ("parquet", "txt")],
)
def test_any_bytes_give_a_row_in_every_format(
    source: str, target: str, job: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    @settings(max_examples=5, suppress_health_check=list(HealthCheck))
    @given(heads=parts(8), tails=parts(8))
    def check(heads: list[bytes], tails: list[bytes]) -> None:
        folder = tmp_path_factory.mktemp("any")
        lines = [b"now", *(first + second for first in heads for second in tails)]
        write_input(source, lines, folder / f"in.{source}")
        outcome = job.run(folder / f"in.{source}", folder / f"out.{target}", chunk_lines=40)
        found = rows_in(folder / f"out.{target}")
        assert len(found) == len(lines) == outcome.done.lines == sum(outcome.done.statuses.values())
        assert outcome.done.statuses.get("invalid_utf8", 0) == sum(not is_utf8(line) for line in lines)
        if target == "txt":
            return
        assert outcome.done.statuses == Counter(row["status"] for row in found)
        for line, row in zip(lines, found, strict=True):
            assert (row["status"] == "invalid_utf8") == (not is_utf8(line))
            if is_utf8(line):
                text = text_in(source, line)
                assert (row["status"] == "null_byte") == (source == "csv" and "\0" in text)
                one_line = str.maketrans("\t\r", "  ") if target == "tsv" else {}
                assert row["source"] == text.translate(one_line)

    check()


@pytest.mark.parametrize("first", ["BZh", "BZh9 rest", "PAR1", "Rar!", "%PDF-1.4", "PK", "7z", '{"', "<html>", "\x1f"])
def test_a_text_that_begins_like_another_format_is_text(first: str, job: Any, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(f"{first}\nnow\n")
    job.run(tmp_path / "in.txt", tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet")["source"].to_list() == [first, "now"]


LONG: dict[str, tuple[str, str]] = {
    "sentences": ("the cat sees a dog. " * 2_500, "split"),
    "words": ("house " * 8_333, "split"),
    "one word": ("c" * 50_000, "no_language"),
    "full stops": ("." * 50_000, "no_language"),
    "controls": ("\x07" * 50_000, "empty"),
    "spaces": ("\u3000" * 50_000, "empty"),
    "emoji": ("\U0001f600" * 50_000, "no_language"),
    "combining": ("e" + "\u0301" * 49_999, "no_language"),
}


def test_lines_of_50_000_characters_are_split(job: Any, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{text}\nnow\n" for text, _ in LONG.values()))
    search = SearchConfig(beam_size=1, max_length_offset=1)
    outcome = job.run(tmp_path / "in.txt", tmp_path / "out.parquet", search=search)
    found = pl.read_parquet(tmp_path / "out.parquet")["status"].to_list()
    wanted = [status for _, status in LONG.values()]
    assert ["split" if status in {"unfinished", *FAULTS} else status for status in found[::2]] == wanted
    assert outcome.done.lines == 16 and len(set(found[1::2])) == 1


def test_a_line_that_no_memory_should_hold_keeps_its_place(job: Any, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"now\n" + b"x " * MAX_LINE_BYTES + b"\nnow\n")
    job.run(tmp_path / "in.txt", tmp_path / "out.parquet")
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert found["status"][1] == "too_long_line" and found["translation"][0] == found["translation"][2]
    assert len(found["source"][1]) == 200
