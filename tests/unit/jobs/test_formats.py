"""Every input format gives its lines in order in every output format. Bad rows keep their place with their fault."""

import base64
import bz2
import csv
import gzip
import json
import lzma
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from nmt_core.errors import DataError
from nmt_core.jobs.checks import FAULTS
from nmt_core.jobs.order import JobRequest
from nmt_core.jobs.run import run_job
from nmt_core.jobs.writers import COLUMNS
from nmt_core.store import storage

TEXTS = ["the cat sees a dog.", "now", "", 'a "big" house, and', "나는 학생 이다."] * 4
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": zstandard.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}


def expected(job: Any, tmp_path: Path) -> list[str]:
    """Return the translations in plain lines."""
    (tmp_path / "plain.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    job.run(tmp_path / "plain.txt", tmp_path / "plain.out.txt")
    lines = (tmp_path / "plain.out.txt").read_text().split("\n")[:-1]
    assert len(set(lines)) == 5
    return lines


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


SOURCES: dict[str, bytes] = {
    "txt": "".join(f"{text}\r\n" for text in TEXTS).encode(),
    "de": "\n".join(TEXTS).encode(),
    "tsv": ("id\ttext\n" + "".join(f"{place}\t{text}\n" for place, text in enumerate(TEXTS))).encode(),
    "csv": ("id,text\n" + "".join(f"{place},{quoted(text)}\n" for place, text in enumerate(TEXTS))).encode(),
    "jsonl": "".join(json.dumps({"id": place, "text": text}) + "\n" for place, text in enumerate(TEXTS)).encode(),
}


@pytest.mark.parametrize(
    ("kind", "packing"),
    [*((kind, "") for kind in [*SOURCES, "parquet"]), *(("txt", how) for how in PACKERS), ("tsv", "gz")],
)
def test_what_comes_in_goes_out_in_the_same_format(kind: str, packing: str, job: Any, tmp_path: Path) -> None:
    name = f"in.{kind}" + (f".{packing}" if packing else "")
    source, target = tmp_path / name, tmp_path / name.replace("in", "out", 1)
    if kind == "parquet":
        pl.DataFrame({"id": range(len(TEXTS)), "text": TEXTS}).write_parquet(source)
    else:
        source.write_bytes(PACKERS[packing](SOURCES[kind]) if packing else SOURCES[kind])
    wanted = expected(job, tmp_path)
    job.run(source, target)
    assert translations(target) == wanted
    if kind not in ("txt", "de"):
        assert [row["source"] for row in table(target)] == TEXTS
        assert {row["status"] for row in table(target) if not row["source"]} == {"empty"}
        assert (table(target)[0]["model"], table(target)[0]["model_version"]) == ("tiny", "1")


def opened(file: Path) -> bytes:
    content = file.read_bytes()
    match file.suffix:
        case ".gz":
            return gzip.decompress(content)
        case ".zst":
            return zstandard.ZstdDecompressor().stream_reader(content).read()
        case ".xz":
            return lzma.decompress(content)
        case ".bz2":
            return bz2.decompress(content)
    return content


def table(file: Path) -> list[dict[str, str]]:
    """Rows of an output that is a table."""
    if ".parquet" in file.name:
        return pl.read_parquet(file).to_dicts()
    text = opened(file).decode()
    if ".jsonl" in file.name:
        return [json.loads(line) for line in text.splitlines()]
    how: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if ".tsv" in file.name else {}
    return list(csv.DictReader(text.splitlines(), **how))


def translations(file: Path) -> list[str]:
    if any(f".{kind}" in file.name for kind in ("tsv", "csv", "jsonl", "parquet")):
        assert tuple(table(file)[0]) == COLUMNS
        return [row["translation"] for row in table(file)]
    return opened(file).decode().split("\n")[:-1]


def test_any_format_becomes_parquet(job: Any, tmp_path: Path) -> None:
    wanted = expected(job, tmp_path)
    for kind, content in SOURCES.items():
        (tmp_path / f"in.{kind}").write_bytes(content)
        job.run(tmp_path / f"in.{kind}", tmp_path / f"{kind}.parquet")
        found = pl.read_parquet(tmp_path / f"{kind}.parquet")
        assert tuple(found.columns) == COLUMNS
        assert found["translation"].to_list() == wanted
        assert found["source"].to_list() == TEXTS
        assert found["score"].dtype == pl.Float64 and found["score"].max() < 0  # type: ignore[operator]
        assert found["score"].is_null().to_list() == [not text.strip() for text in TEXTS]


def test_a_folder_becomes_a_folder_and_a_pattern_one_file(job: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "b.txt").write_text("now\nthe cat\n")
    (folder / "a.jsonl").write_text('{"source": "a dog"}\n')
    (folder / "deep" / "c.txt.gz").write_bytes(gzip.compress(b"sees\n"))
    (folder / "empty.txt").write_bytes(b"")
    (folder / ".hidden").write_text("no\n")
    job.run(folder, folder / "out")
    job.run(folder, folder / "out")  # what is below the output is no input
    made = sorted(str(file.relative_to(folder / "out")) for file in (folder / "out").rglob("*") if file.is_file())
    assert made == ["a.jsonl", "b.txt", "deep/c.txt.gz", "empty.txt"]
    assert (folder / "out" / "b.txt").read_text().count("\n") == 2
    assert (folder / "out" / "empty.txt").read_bytes() == b""
    job.run(f"{folder}/*.*", tmp_path / "all.parquet")
    assert pl.read_parquet(tmp_path / "all.parquet")["source"].to_list() == ["a dog", "now", "the cat"]


def test_what_is_written_into_the_folder_that_is_read_is_no_input(job: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_bytes(b"now\n\xff\n")
    for _ in range(2):
        assert job.run(tmp_path / "in", tmp_path / "in" / "all.parquet").done.lines == 2
        (tmp_path / "in" / "all.parquet.0123.partial").touch()  # of a job that was killed
    assert (tmp_path / "in" / "all.parquet.unreadable.jsonl").exists()


@pytest.fixture(params=["memory", "s3"])
def bucket(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty folder of a store."""
    yield "memory://bucket" if request.param == "memory" else request.getfixturevalue("s3_folder")
    fsspec.filesystem("memory").store.clear()


def test_a_store_is_read_and_written_without_a_file_here(bucket: str, job: Any, tmp_path: Path) -> None:
    storage.write_bytes([gzip.compress(b"the cat\nnow\n")], f"{bucket}/in/a.txt.gz")
    storage.write(pl.DataFrame({"text": ["a dog", None]}), f"{bucket}/in/b.parquet")
    before = sorted(tmp_path.iterdir())
    job.run(f"{bucket}/in", f"{bucket}/out")
    job.run(f"{bucket}/in/*", f"{bucket}/all.jsonl")
    store, name = storage.store_of(bucket)
    assert store.find(f"{name}/out") == [f"{name}/out/a.txt.gz", f"{name}/out/b.parquet"]
    rows = [json.loads(line) for line in store.cat_file(f"{name}/all.jsonl").splitlines()]
    assert [row["source"] for row in rows] == ["the cat", "now", "a dog", ""]
    assert rows[3]["status"] == "missing_value"
    assert sorted(tmp_path.iterdir()) == before
    former = job.order(f"{bucket}/in/a.txt.gz", f"{bucket}/again.txt")
    storage.write_bytes([gzip.compress(b"the dog\nnow\n")], f"{bucket}/in/a.txt.gz")
    with pytest.raises(DataError, match=r"/in/a\.txt\.gz: is gone or has changed since the job began"):
        run_job(JobRequest("tiny"), former, job.folder(former), job.means)
    for source in ("nowhere/x.txt", "nowhere/*.txt", "nowhere"):
        with pytest.raises(DataError, match=rf"{bucket}/{re.escape(source)}: there is no such file"):
            job.run(f"{bucket}/{source}", f"{bucket}/none.txt")


OPEN_QUOTE = b'id,text\n2\n1,"now"\n3,\xff\n\n5,"open\n6,now\n'
RECORDS = b'id,text\n1,"now\nand\nthen"\n2,\xff\n'
OBJECTS = [b'"now"', b"3", b"null", b'"\xff"', b'"\\ud800"']
BAD: dict[str, tuple[bytes, str]] = {
    "in.txt": (b"\xff\xfa\nnow\n\n" + b"x" * 1_100_000 + b"\nno\0w\n", "invalid_utf8 ok empty too_long_line ok"),
    "in.tsv": (b"id\ttext\n2\n1\tnow\n3\t\xff\n5\t \n\n", "missing_column ok invalid_utf8 empty missing_column"),
    "in.csv": (OPEN_QUOTE, "missing_column ok invalid_utf8 missing_column invalid_csv ok"),
    "records.csv": (RECORDS, "ok invalid_utf8"),
    "in.jsonl": (
        b'{}\n[1]\n{"text"\n\n' + b"".join(b'{"text": %s}\n' % text for text in OBJECTS),
        "missing_column invalid_json invalid_json invalid_json ok no_text missing_value invalid_utf8 invalid_utf8",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_stop_nothing_and_say_what_they_are(name: str, job: Any, tmp_path: Path) -> None:
    content, statuses = BAD[name][0], BAD[name][1].split()
    (tmp_path / name).write_bytes(content)
    outcome = job.run(tmp_path / name, tmp_path / "out.parquet")
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert ["ok" if status == "unfinished" else status for status in found["status"]] == statuses
    assert all(
        not row["translation"]
        for row in found.to_dicts()
        if row["status"] not in ("ok", "unfinished", "partly_unknown", "unknown", *FAULTS)
    )
    assert outcome.done.statuses["invalid_utf8"] == statuses.count("invalid_utf8")
    notes = [json.loads(line) for line in (tmp_path / "out.parquet.unreadable.jsonl").read_text().splitlines()]
    assert len(notes) == statuses.count("invalid_utf8")
    for note in notes:
        kept = base64.b64decode(note["base64"])
        assert note["file"] == name and (b"\xff" in kept or b"\\ud800" in kept)
        if name.endswith(".csv"):  # records may have several lines
            assert kept in content and statuses[note["row"] - 1] == "invalid_utf8"
        else:
            assert kept == content.split(b"\n")[note["line"] - 1]


def test_parquet_that_is_not_utf8_keeps_its_bytes(job: Any, tmp_path: Path) -> None:
    column = pa.array([b"now", b"\xff\xfe\n", None]).view(pa.binary())
    pq.write_table(pa.table({"text": column}), tmp_path / "in.parquet")
    job.run(tmp_path / "in.parquet", tmp_path / "out.jsonl")
    rows = table(tmp_path / "out.jsonl")
    assert [row["status"] for row in rows][1:] == ["invalid_utf8", "missing_value"]
    note = json.loads((tmp_path / "out.jsonl.unreadable.jsonl").read_text())
    assert (note["row"], base64.b64decode(note["base64"])) == (2, b"\xff\xfe\n")
    (tmp_path / "in.parquet").unlink()
    pl.DataFrame({"text": ["now"]}).write_parquet(tmp_path / "in.parquet")
    job.run(tmp_path / "in.parquet", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl.unreadable.jsonl").exists(), "it told of an output that is no more"


def test_a_table_without_a_header_stays_without_one(job: Any, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("now\tthe cat\nthe\ta dog\n")
    job.run(tmp_path / "in.tsv", tmp_path / "out.tsv", column="2")
    rows = (tmp_path / "out.tsv").read_text().splitlines()
    assert [row.split("\t")[0] for row in rows] == ["the cat", "a dog"]


def test_the_column_may_have_a_name_a_path_or_a_number(job: Any, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("now\tthe cat\nthe\ta dog\n")
    (tmp_path / "in.jsonl").write_text('{"text": "no", "data": {"en": "the cat"}}\n{"data": {"en": "a dog"}}\n')
    pl.DataFrame({"data": [{"en": "the cat"}, {"en": "a dog"}]}).write_parquet(tmp_path / "in.parquet")
    for name, column in {"in.tsv": "2", "in.jsonl": "data.en", "in.parquet": "data.en"}.items():
        job.run(tmp_path / name, tmp_path / f"out-{name}", column=column)
        job.run(tmp_path / name, tmp_path / "out.parquet", column=column)
        assert pl.read_parquet(tmp_path / "out.parquet")["source"].to_list() == ["the cat", "a dog"]


WRONG: dict[str, tuple[str, bytes, str, str]] = {
    "no column": ("in.tsv", b"a\tb\n1\t2\n", "text", r"in\.tsv: no column 'text': there are a, b; .* --column"),
    "no usual column": ("in.jsonl", b'{"a": "1"}\n', "", r"in\.jsonl: no column, or more than one, is called source"),
    "no column in lines": ("in.txt", b"now\n", "text", r"in\.txt: a text without columns: leave out --column"),
    "no column in Parquet": ("in.parquet", b"", "text", r"in\.parquet: no column 'text': there are id"),
    "numbers in Parquet": ("in.parquet", b"", "id", r"in\.parquet, column id: .* no text .*name another column"),
    "half of Parquet": ("a.parquet", b"PAR1 and no more", "", r"a\.parquet: the Parquet file is truncated, damaged"),
    "two columns of CSV": ("in.csv", b"text,text\nnow,then\n", "text", r"in\.csv: 2 columns are called 'text': rename"),
    "two columns of Parquet": ("two.parquet", b"", "text", r"two\.parquet: 2 columns are called 'text': rename"),
    "an array": ("in.json", b'[{"text": "now"}]', "", r"in\.json: is one value of JSON, .*`jq -c"),
    "an object over lines": ("in.jsonl", b'{\n "text": "now"\n}\n', "", r"in\.jsonl: is one value of JSON"),
    "lines of an old Mac": ("in.txt", b"now\rthen\r", "", r"in\.txt: its lines end in CR alone.*`tr "),
    "a table of an old Mac": ("in.csv", b"text,id\rnow,1\r", "text", r"in\.csv: its lines end in CR alone"),
    "a PDF": (
        "in.pdf",
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n",
        "",
        r"in\.pdf: a PDF document, not text: unpack or convert",
    ),
    "an old .doc": (
        "in.doc",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0",
        "",
        r"in\.doc: a document of an old Office program",
    ),
    "RTF": ("in.rtf", b"{\\rtf1\\ansi now}", "", r"in\.rtf: an RTF document, not text"),
    "a picture": ("in.png", b"\x89PNG\r\n\x1a\n\0\0", "", r"in\.png: a picture, not text"),
    "half of a gz": ("in.txt.gz", gzip.compress(b"now\n" * 999)[:-9], "", r"in\.txt\.gz: the gz file is truncated"),
    "a zip": ("in.zip", b"PK\x03\x04 and more", "", r"in\.zip: a zip archive, not text: unpack"),
    "no file": ("", b"", "", r": there is no such file, or nothing in it: give a text file, a folder or a pattern"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_cannot_be_read_is_named_with_the_remedy(case: str, job: Any, tmp_path: Path) -> None:
    name, content, column, message = WRONG[case]
    if name == "in.parquet":
        pl.DataFrame({"id": [1, 2]}).write_parquet(tmp_path / name)
    elif name == "two.parquet":
        pq.write_table(pa.table([["now"], ["then"]], ["text", "text"]), tmp_path / name)
    elif name:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        job.run(tmp_path / (name or "nowhere"), tmp_path / "out.txt", column=column)
    assert not (tmp_path / "out.txt").exists()


def test_an_input_that_is_the_output_is_refused(job: Any, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("now\n")
    with pytest.raises(DataError, match="is both input and output"):
        job.run(tmp_path / "in.txt", tmp_path / "in.txt")
    with pytest.raises(DataError, match=r"xyz://a/b: .* give a path, or an address such as s3://bucket/file"):
        job.run("xyz://a/b", tmp_path / "out.txt")
