"""Files of any format and packing are read as tables of pairs."""

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt_core.errors import DataError
from nmt_core.formats import Layout, TextFile, read, reader

Pair = tuple[str, str]
Reader = Callable[..., pl.DataFrame]

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "zst": zstandard.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}


def tsv(pairs: Sequence[Pair]) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def jsonl(pairs: Sequence[Pair]) -> bytes:
    return "".join(json.dumps({"en": source, "de": target}) + "\n" for source, target in pairs).encode()


def side(pairs: Sequence[Pair], number: int) -> bytes:
    return "".join(f"{pair[number]}\n" for pair in pairs).encode()


def pairs_of(rows: pl.DataFrame) -> list[Pair]:
    assert rows["fault"].null_count() == rows.height
    assert rows["line"].to_list() == list(range(1, rows.height + 1))
    return rows.select("source", "target").rows()


@pytest.mark.parametrize("packing", PACKERS)
def test_every_packing_is_read_whatever_the_name(
    packing: str, read_sides: Reader, read_both: Reader, awkward: list[Pair]
) -> None:
    pack = PACKERS[packing]

    assert pairs_of(read_sides(pack(side(awkward, 0)), side(awkward, 1))) == awkward
    assert pairs_of(read_both("misleading.xz", pack(tsv(awkward)))) == awkward
    assert pairs_of(read_both("misleading", pack(jsonl(awkward)))) == awkward


@pytest.mark.parametrize("packing", ["gz", "zst", "xz", "bz2"])
def test_members_of_a_packed_file_follow_each_other(packing: str, read_sides: Reader) -> None:
    pack = PACKERS[packing]
    rows = read_sides(pack(b"a\n") + pack(b"b\n"), b"A\nB\n")

    assert pairs_of(rows) == [("a", "A"), ("b", "B")]


def test_columns_and_their_types(read_sides: Reader) -> None:
    assert read_sides(b"a\n", b"b\n").schema == {
        "source": pl.String, "target": pl.String, "line": pl.Int64, "fault": pl.String, "value": pl.String,
    }  # fmt: skip


def test_tables_have_at_most_fifty_thousand_rows(tmp_path: Path, read_sides: Reader) -> None:
    read_sides(b"a\n" * 120_001, b"bcd\n" * 120_001)
    files = [TextFile(tmp_path / "side.en", "source"), TextFile(tmp_path / "side.de", "target")]
    frames = list(read(files, Layout("en", "de")))

    assert max(frame.height for frame in frames) <= 50_000
    assert pl.concat(frames)["line"].to_list() == list(range(1, 120_002))


def test_the_fault_is_the_sources_else_the_targets(read_sides: Reader) -> None:
    rows = read_sides(b"a\n\xff\nc\n\xfe\n", b"A\nB\nC\0\nD\0\n")

    assert rows.select("line", "fault", "value").rows() == [
        (1, None, None),
        (2, "invalid_utf8", "byte 1: ff"),
        (3, "null_byte", "byte 2"),
        (4, "invalid_utf8", "byte 1: fe"),
    ]


def test_numbers_run_on_over_a_list_of_files(tmp_path: Path, read_files: Reader) -> None:
    files = []
    for number in range(2):
        for suffix, which in (("en", "source"), ("de", "target")):
            path = tmp_path / f"{number}.{suffix}"
            path.write_bytes(f"{suffix}{number}\n".encode() * 2)
            files.append(TextFile(path, which))  # type: ignore[arg-type]
    table = tmp_path / "more"
    table.write_bytes(b"x\ty\n")

    rows = read_files([*files, TextFile(table, "both")])
    assert sorted(pairs_of(rows)) == [("en0", "de0")] * 2 + [("en1", "de1")] * 2 + [("x", "y")]


@pytest.mark.parametrize(("source", "target"), [(1200, 1199), (1199, 1200), (1200, 100), (1200, 1000)])
def test_unequal_files_are_refused_with_both_counts(source: int, target: int, read_sides: Reader) -> None:
    with pytest.raises(DataError, match=rf"side.en has {source:,} lines and \S*side.de has {target:,}:"):
        read_sides(b"a\n" * source, b"a\n" * target)


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0), zstandard.compress(b"")])
def test_an_empty_file_is_refused(content: bytes, read_sides: Reader, read_both: Reader) -> None:
    with pytest.raises(DataError, match=r"side\.en: the file is empty"):
        read_sides(content, content)
    with pytest.raises(DataError, match=r"table\.tsv: .*(is empty|holds no pair)"):
        read_both("table.tsv", content)


def parquet(pairs: Sequence[Pair]) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(pairs, schema={"en": pl.String, "de": pl.String}, orient="row").write_parquet(file)
    return file.getvalue()


def test_one_of_many_files_may_be_without_pairs(tmp_path: Path, read_files: Reader) -> None:
    shards = []
    for number, pairs in enumerate([[], [("a", "A")], []]):
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(parquet(pairs))
        shards.append(TextFile(path, "both"))

    assert pairs_of(read_files(shards)) == [("a", "A")]
    with pytest.raises(DataError, match=r"0\.parquet and 1 more: hold no pair: name a file that does"):
        read_files([shards[0], shards[2]])
    with pytest.raises(DataError, match=r"0\.parquet: holds no pair"):
        read_files(shards[:1])


def test_a_missing_file_is_refused(tmp_path: Path, read_files: Reader) -> None:
    with pytest.raises(DataError, match=r"gone: cannot be read .*check the path"):
        read_files([TextFile(tmp_path / "gone", "both")])


def test_sides_without_a_partner_are_refused(tmp_path: Path, read_files: Reader) -> None:
    with pytest.raises(DataError, match=r"2 source files and 0 target files \(a, b; none\)"):
        read_files([TextFile(tmp_path / "a", "source"), TextFile(tmp_path / "b", "source")])


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0\t"), max_size=20)
ANY_ROWS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=30)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANY_ROWS)
def test_any_rows_are_read_back(read_sides: Reader, read_both: Reader, pairs: list[Pair]) -> None:
    first = pairs[0][0].removeprefix("\ufeff")  # a byte order mark, for a reader
    without_mark = [(first, pairs[0][1]), *pairs[1:]]

    assert pairs_of(read_both("table.jsonl", jsonl(pairs))) == pairs
    assert pairs_of(read_both("table.tsv", b"en\tde\n" + tsv(pairs))) == pairs
    if not first.lstrip().startswith("<"):
        target = [
            (source, target.removeprefix("\ufeff") if number == 0 else target)
            for number, (source, target) in enumerate(without_mark)
        ]
        assert pairs_of(read_sides(side(pairs, 0), side(pairs, 1))) == target


def test_documents_end_at_blank_lines(read_both: Reader, read_sides: Reader) -> None:
    expected = [
        ("a", 1, None), ("b", 1, None), ("", 1, "document_end"), ("", 1, "document_end"), ("c", 2, None),
        ("", 2, "document_end"),
    ]  # fmt: skip
    sides = read_sides(b"a\nb\n\n \nc\n\n", b"A\nB\n\n\nC\n\n", documents="blank_lines")
    table = read_both("a.tsv", b"a\tA\nb\tB\n\n\t\nc\tC\n\n", documents="blank_lines")

    for found in (sides, table):
        assert (
            found.with_columns(source=found["source"].str.strip_chars()).select("source", "document", "fault").rows()
            == expected
        )


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.json", "a.parquet"])
def test_documents_by_a_column(name: str, read_both: Reader) -> None:
    rows = [("a", "A", 7), ("b", "B", 7), ("c", "C", 3), ("d", "D", 7)]
    table = pl.DataFrame(rows, schema=["en", "de", "doc"], orient="row")
    contents = {
        "a.tsv": table.write_csv(separator="\t").encode(),
        "a.csv": table.write_csv().encode(),
        "a.jsonl": table.write_ndjson().encode(),
        "a.json": table.write_json().encode(),
        "a.parquet": b"",
    }
    file = io.BytesIO()
    table.write_parquet(file)
    found = read_both(name, contents[name] or file.getvalue(), documents="doc")

    assert found.select("source", "document").rows() == [("a", 1), ("b", 1), ("c", 2), ("d", 3)]


def test_numbers_of_documents_run_on_over_tables(read_both: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "FRAME_ROWS", 2)
    content = "".join(f"a{number}\tA\td{number // 3}\n" for number in range(9))
    blank = "a\tA\n\nb\tB\n\n\nc\tC\nd\tD\n"

    by_name = read_both("a.tsv", content.encode(), documents="3", source_column="1", target_column="2")
    assert by_name["document"].to_list() == [1] * 3 + [2] * 3 + [3] * 3
    assert read_both("a.tsv", blank.encode(), documents="blank_lines")["document"].to_list() == [1, 1, 2, 2, 2, 3, 3]


def test_documents_by_a_column_need_columns(read_sides: Reader) -> None:
    with pytest.raises(DataError, match="documents='doc': the files have no columns: set it to blank_lines"):
        read_sides(b"a\n", b"A\n", documents="doc")
