"""Options of a search reach the output: several translations, samples, and prefixes from a column."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError, DataError
from nmt_core.jobs import writers
from nmt_core.jobs.checks import FAULTS
from nmt_core.translator import Translator

THREE = SearchConfig(beam_size=5, n_best=3, max_length_offset=20, max_source_tokens=16, batch_tokens=256)
SAMPLES = THREE.model_copy(update={"method": "sample"})
TEXTS = [
    "the cat sees a dog.",
    "now",
    "",
    "a big house and",
    "to it",
    "the dog",
    "sees a cat",
    "now now",
    "a small dog",
]
PREFIXES = ["house", "", "now", "small cat", "", "", "", "", "to it"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    return tmp_path / "in.txt"


@pytest.mark.parametrize("search", [THREE, SAMPLES], ids=["beam", "sample"])
def test_tables_that_can_hold_them_have_all_translations(
    search: SearchConfig, job: Any, source: Path, tmp_path: Path
) -> None:
    job.run(source, tmp_path / "out.jsonl", search=search)
    job.run(source, tmp_path / "out.parquet", search=search, chunk_lines=2)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert rows == pl.read_parquet(tmp_path / "out.parquet").to_dicts()
    found = Translator.load(job.bundle, search).translate(TEXTS)
    assert [row["translation"] for row in rows] == [one.text for one in found]
    assert [[other["translation"] for other in row["alternatives"]] for row in rows] == [
        [other.text for other in one.alternatives] for one in found
    ]
    assert [other["score"] for row in rows for other in row["alternatives"]] == pytest.approx(
        [other.score for one in found for other in one.alternatives], abs=1e-3
    )
    assert max(len(row["alternatives"]) for row in rows) == 2
    assert rows[2] == {**rows[2], "status": "empty", "alternatives": []}


def test_the_size_of_chunks_changes_no_sample(job: Any, source: Path, tmp_path: Path) -> None:
    job.run(source, tmp_path / "all.parquet", search=SAMPLES)
    job.run(source, tmp_path / "each.parquet", search=SAMPLES, chunk_lines=1)
    every, each = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("all", "each"))
    assert every["translation"].to_list() == each["translation"].to_list()


@pytest.mark.parametrize("name", ["out.txt", "out.tsv", "out.csv.gz", "out"])
def test_a_format_with_room_for_one_is_refused_before_anything_is_done(
    name: str, job: Any, source: Path, tmp_path: Path
) -> None:
    message = rf"{name}: can hold one translation of each line, but search\.n_best=3: .* or give --set search\.n_best=1"
    with pytest.raises(ConfigError, match=message):
        job.run(source, tmp_path / name, search=THREE)
    assert [file.name for file in tmp_path.iterdir()] == ["in.txt"]


def sources_with_prefixes(folder: Path) -> list[tuple[str, dict[str, str]]]:
    """Return the same texts and prefixes in every format, and the columns that hold them."""
    rows = list(zip(TEXTS, PREFIXES, strict=True))
    (folder / "in.tsv").write_text("text\tbegin\n" + "".join(f"{text}\t{prefix}\n" for text, prefix in rows))
    (folder / "numbers.tsv").write_text("".join(f"{prefix}\t{text}\n" for text, prefix in rows))
    (folder / "in.csv").write_text("begin,text\n" + "".join(f"{prefix},{text}\n" for text, prefix in rows))
    records = [{"d": {"text": text, "begin": prefix or None}} for text, prefix in rows]
    del records[-2]["d"]["begin"]
    (folder / "in.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    pl.DataFrame({"text": TEXTS, "begin": [prefix or None for prefix in PREFIXES]}).write_parquet(folder / "in.parquet")
    named = {"prefix_column": "begin"}
    return [
        ("in.tsv", named),
        ("numbers.tsv", {"column": "2", "prefix_column": "1"}),
        ("in.csv", named),
        ("in.jsonl", {"column": "d.text", "prefix_column": "d.begin"}),
        ("in.parquet", named),
    ]


def test_translations_begin_as_a_column_says(job: Any, tmp_path: Path) -> None:
    expected = [one.text for one in Translator.load(job.bundle, job.search).translate(TEXTS, PREFIXES)]
    assert [text.startswith(prefix) for text, prefix in zip(expected, PREFIXES, strict=True)].count(False) == 1  # empty
    for name, columns in sources_with_prefixes(tmp_path):
        job.run(tmp_path / name, tmp_path / f"{name}.out.parquet", **columns)
        found = pl.read_parquet(tmp_path / f"{name}.out.parquet")
        assert found["translation"].to_list() == expected, name
        assert found["source"].to_list() == TEXTS


def test_a_prefix_that_cannot_be_read_is_a_fault_of_its_row(job: Any, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        '{"text": "now", "begin": 3}\n{"text": "now", "begin": "\\ud800"}\n{"text": "now"}\n'
    )
    job.run(tmp_path / "in.jsonl", tmp_path / "out.parquet", prefix_column="begin")
    assert pl.read_parquet(tmp_path / "out.parquet")["status"].to_list()[:2] == ["no_text", "invalid_utf8"]
    (tmp_path / "in.tsv").write_text("text\tbegin\nnow\n")
    job.run(tmp_path / "in.tsv", tmp_path / "short.parquet", prefix_column="begin")
    assert pl.read_parquet(tmp_path / "short.parquet")["status"][0] in (
        "ok",
        "unfinished",
        "partly_unknown",
        "unknown",
        *FAULTS,
    )
    columns = pl.DataFrame(
        {"text": ["now", "now"], "begin": [b"\xff", b"small"]}, schema={"text": pl.String, "begin": pl.Binary}
    )
    columns.write_parquet(tmp_path / "in.parquet")
    job.run(tmp_path / "in.parquet", tmp_path / "bytes.parquet", prefix_column="begin")
    found = pl.read_parquet(tmp_path / "bytes.parquet")
    assert found["status"][0] == "invalid_utf8" and found["translation"][1].startswith("small")


WRONG = {
    "in.txt": ({"prefix_column": "begin"}, r"in\.txt: a text without columns: leave out --prefix-column"),
    "in.tsv": (
        {"prefix_column": "end"},
        r"in\.tsv: no column 'end': there are text, begin; name one with --prefix-column",
    ),
    "numbers.tsv": (
        {"column": "2", "prefix_column": "begin"},
        r"--column 2 is a number, and --prefix-column begin is not",
    ),
    "in.parquet": ({"prefix_column": "end"}, r"in\.parquet: no column 'end'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_column_that_is_not_there_is_named(name: str, job: Any, source: Path, tmp_path: Path) -> None:
    sources_with_prefixes(tmp_path)
    columns, message = WRONG[name]
    with pytest.raises(DataError, match=message):
        job.run(tmp_path / name, tmp_path / "out.parquet", **columns)


def test_alternatives_count_for_the_size_of_a_row_group(job: Any, source: Path, tmp_path: Path) -> None:
    job.run(source, tmp_path / "out.parquet", search=THREE)
    rows = pl.read_parquet(tmp_path / "out.parquet")
    texts = [text for row in rows.to_dicts() for text in row.values() if isinstance(text, str)]
    others = [other["translation"] for row in rows["alternatives"].to_list() for other in row]
    assert sum(map(len, others)) > 100
    assert writers._text_bytes(rows) == sum(len(text.encode()) for text in [*texts, *others])
