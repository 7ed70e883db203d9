"""The lines most worth a human's time are written with reasons, and read back as parallel text once corrected."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.bundle.folder import sha256_of
from nmt_core.jobs.inputs import find_inputs
from nmt_core.jobs.order import ModelVersion, Shadow
from nmt_core.jobs.review import COLUMNS, Line, Scores, _reasons
from nmt_core.jobs.shadow_result import GOOD

LINES = ["the cat sees a dog.", "", "a big house", "now", 'a "small" house,\nand it runs', "\x00", "XYZ ΑΒΓ"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES * 6))
    return file


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def test_doubtful_lines_come_first_each_once_and_with_reasons(job: Any, source: Path, tmp_path: Path) -> None:
    outcome = job.run(source, tmp_path / "out.parquet", review=3)
    rows = rows_of(tmp_path / "out.parquet.review.csv")
    assert list(rows[0]) == list(COLUMNS)
    assert outcome.done.review == len(rows) <= 3
    assert len({row["source"] for row in rows}) == len(rows), "a sentence is corrected once"
    assert all(row["reasons"] and row["correction"] == "" for row in rows)
    assert {row["source"] for row in rows} <= {line for line in LINES if line and line != "\x00"}
    translated = pl.read_parquet(tmp_path / "out.parquet")
    for row in rows:
        own = translated.row(int(row["row"]) - 1, named=True)
        assert (own["source"], own["translation"], own["status"]) == (row["source"], row["translation"], row["status"])
        assert row["file"] == "in.jsonl" and row["model"] == "tiny"
    bad = translated.filter(~pl.col("status").is_in([*GOOD, "null_byte"]))["source"].unique().to_list()
    job.run(source, tmp_path / "all.parquet", review=99)
    everything = rows_of(tmp_path / "all.parquet.review.csv")
    assert set(bad) <= {row["source"] for row in everything}
    assert everything[: len(rows)] == rows, "a shorter list is the beginning of a longer one"


@pytest.mark.cpu(15)
def test_a_challenger_that_disagrees_is_a_reason(job: Any, other_bundle: Path, source: Path, tmp_path: Path) -> None:
    version = ModelVersion(name="other", version="2", sha256=sha256_of(other_bundle / "config.json"))
    shadow = Shadow(asked="other", model=version, search=job.search, share=1.0)
    beside = replace(job, means=replace(job.means, shadow=str(other_bundle)))
    beside.run(source, tmp_path / "out.jsonl", review=50, shadow=shadow)
    rows = rows_of(tmp_path / "out.jsonl.review.csv")
    disagreeing = [row for row in rows if "the challenger disagrees" in row["reasons"]]
    assert disagreeing and all(float(row["agreement"]) < 40 for row in disagreeing)
    assert all(row["challenger"] for row in disagreeing)


def test_the_file_is_made_again_if_it_is_gone_and_is_no_input(job: Any, source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    source.rename(folder / "in.jsonl")
    job.run(folder / "in.jsonl", folder / "out.jsonl", review=2)
    written = folder / "out.jsonl.review.csv"
    before = written.read_bytes()
    assert job.run(folder / "in.jsonl", folder / "out.jsonl", review=2).reused
    written.unlink()
    assert not job.run(folder / "in.jsonl", folder / "out.jsonl", review=2).reused
    assert written.read_bytes() == before
    names = [file.name for file in find_inputs(str(folder)).files]
    assert names == ["in.jsonl", "out.jsonl"]


def test_more_reasons_come_first_then_lower_scores() -> None:
    def line(score: float | None, *reasons: str) -> Line:
        return Line("a", "b", "ok", score, "", None, 0, 1, reasons)

    mixed = [line(None, "x"), line(-1.0, "x"), line(-3.0, "x"), line(-0.5, "x", "y")]
    assert sorted(mixed, key=lambda one: one.priority) == mixed[::-1]
    unknown = line(-1.0)._replace(status="partly_unknown", agreement=39.0)
    assert list(_reasons(unknown, Scores(-0.1, 0.1))) == ["unknown text", "low score", "the challenger disagrees"]
    assert list(_reasons(line(-1.0)._replace(status="copied"), Scores(-1.0, 0.1))) == ["status copied"]
    scores = Scores(-1.0, 0.4)
    assert scores.is_low(-1.7) and not scores.is_low(-1.5) and not scores.is_low(None)
    assert not Scores(-1.0, 0.0).is_low(-1.0), "all scores are equal"
