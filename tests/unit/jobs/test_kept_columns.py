"""Columns of the input reach the output with their types, row by row, even if the job is stopped in between."""

import csv
import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.facts import raises

from nmt_core.errors import ConfigError, DataError
from nmt_core.jobs.kept_columns import ALL
from nmt_core.jobs.order import JobRequest
from nmt_core.jobs.run import Means, run_job

TEXTS = ["the cat sees a dog.", "now", "a big house", "", "to it"]
RECORDS: list[dict[str, Any]] = [
    {"id": 7, "text": TEXTS[0], "meta": {"lang": "en", "tags": ["a", "b"]}, "score": 0.5, "ok": True},
    {"id": 8, "text": TEXTS[1], "meta": {"lang": None}, "note": 'a "quoted",\tnote'},
    {"text": TEXTS[2], "id": None, "score": 1},
    {"id": 1 << 40, "text": TEXTS[3], "ok": False},
]


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    lines = [json.dumps(record) for record in RECORDS]
    lines.insert(2, "no json")
    (tmp_path / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "in.jsonl"


def test_json_stays_json(jsonl: Path, job: Any, tmp_path: Path) -> None:
    job.run(jsonl, tmp_path / "out.jsonl", keep=ALL, chunk_lines=2)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["status"] == "invalid_json" for row in rows] == [False, False, True, False, False]
    for row, record in zip([*rows[:2], *rows[3:]], RECORDS, strict=True):
        others = {name: value for name, value in record.items() if name not in ("text", "score")}
        assert {name: row[name] for name in others} == others
        assert row["source"] == record["text"]
        assert row.get("input_score", "none") == record.get("score", "none")


def test_named_columns_are_kept_and_nested_ones_by_their_path(jsonl: Path, job: Any, tmp_path: Path) -> None:
    for target in ("out.csv", "out.parquet", "out.tsv"):
        job.run(jsonl, tmp_path / target, keep=("id", "meta.lang", "note", "ok"), chunk_lines=2)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["7", "8", "", "", str(1 << 40)]
    assert [row["note"] for row in rows] == ["", 'a "quoted",\tnote', "", "", ""]
    assert [row["ok"] for row in rows] == ["true", "", "", "", "false"]
    table = pq.read_table(tmp_path / "out.parquet")
    assert (table.schema.field("id").type, table.schema.field("ok").type) == (pa.int64(), pa.bool_())
    assert table.column("id").to_pylist() == [7, 8, None, None, 1 << 40]
    assert table.column("meta.lang").to_pylist() == ["en", None, None, None, None]
    header, *lines = (tmp_path / "out.tsv").read_text().split("\n")[:-1]
    assert header.split("\t")[-4:] == ["id", "meta.lang", "note", "ok"]
    assert [line.split("\t")[-2] for line in lines] == ["", 'a "quoted", note', "", "", ""]


def test_parquet_keeps_its_types(job: Any, tmp_path: Path) -> None:
    table = pa.table(
        {
            "day": pa.array([date(2026, 11, 27), None, date(1, 1, 1), None, None]),
            "source": TEXTS,
            "price": pa.array([Decimal("1.10"), None, None, Decimal("2.00"), None], pa.decimal128(9, 2)),
            "kind": pa.array(["a", "b", "a", None, "a"]).dictionary_encode(),
            "deep": [{"x": [1, 2], "y": {"z": "w"}}, None, {"x": None, "y": None}, None, None],
            "model": pa.array([1, 2, 3, 4, 5], pa.int8()),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    job.run(tmp_path / "in.parquet", tmp_path / "out.parquet", keep=ALL, chunk_lines=2)
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.column("model").to_pylist() == ["tiny"] * 5
    for name in table.column_names:
        if name != "source":
            kept = f"input_{name}" if name == "model" else name
            assert found.schema.field(kept).type == table.schema.field(name).type
            assert found.column(kept).to_pylist() == table.column(name).to_pylist()
    job.run(tmp_path / "in.parquet", tmp_path / "out.jsonl", keep=("deep.y.z", "day", "price"))
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [rows[0][name] for name in ("deep.y.z", "day", "price")] == ["w", "2026-11-27", "1.10"]


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_tables_are_kept_as_text(kind: str, job: Any, tmp_path: Path) -> None:
    mark = "\t" if kind == "tsv" else ","
    rows = [["id", "text", "note"], ["007", TEXTS[0], "x"], ["8", TEXTS[1]], ["9", TEXTS[2], ""]]
    (tmp_path / f"in.{kind}").write_text("".join(mark.join(row) + "\n" for row in rows))
    job.run(tmp_path / f"in.{kind}", tmp_path / "out.jsonl", keep=ALL)
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["id"], row["note"]) for row in found] == [("007", "x"), ("8", None), ("9", "")]
    (tmp_path / f"bare.{kind}").write_text("".join(mark.join(row) + "\n" for row in rows[1:]))
    job.run(tmp_path / f"bare.{kind}", tmp_path / "bare.jsonl", keep=("1",), column="2")
    bare = [json.loads(line) for line in (tmp_path / "bare.jsonl").read_text().splitlines()]
    assert [row["1"] for row in bare] == ["007", "8", "9"]


@pytest.mark.parametrize("target", ["out.jsonl", "out.parquet", "out.csv.gz"])
def test_a_job_that_was_stopped_writes_the_same_bytes(target: str, jsonl: Path, job: Any, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    job.run(jsonl, tmp_path / target, keep=ALL, chunk_lines=1)
    order = job.order(jsonl, tmp_path / "again" / target, keep=ALL, chunk_lines=1)

    def stop(done: float, total: float, note: str) -> None:
        if total and done >= 2:
            raise KeyboardInterrupt

    stopped: Means = replace(job.means, progress=stop)
    with pytest.raises(KeyboardInterrupt):
        run_job(JobRequest("tiny"), order, job.folder(order), stopped)
    run_job(JobRequest("tiny"), order, job.folder(order), job.means)
    assert (tmp_path / "again" / target).read_bytes() == (tmp_path / target).read_bytes()


def test_what_cannot_be_kept_is_explained_before_anything_is_done(jsonl: Path, job: Any, tmp_path: Path) -> None:
    with raises(ConfigError, r"out\.txt", r"omit --keep"):
        job.run(jsonl, tmp_path / "out.txt", keep=ALL)
    with raises(DataError, r"in\.jsonl", "nmae", "--keep"):
        job.run(jsonl, tmp_path / "out.jsonl", keep=("nmae",))
    (tmp_path / "in.tsv").write_text("id\ttext\n1\tnow\n")
    with raises(DataError, r"in\.tsv", "'nmae'", "id, text"):
        job.run(tmp_path / "in.tsv", tmp_path / "out.jsonl", keep=("nmae",))
    (tmp_path / "in.txt").write_text("now\n")
    with raises(DataError, r"in\.txt", "no columns", "--keep"):
        job.run(tmp_path / "in.txt", tmp_path / "out.jsonl", keep=ALL)
