"""Alignments reach the output in every format, in the way that the format allows."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError
from nmt_core.formats.single import Columns
from nmt_core.jobs import stream
from nmt_core.jobs.order import ModelVersion
from nmt_core.jobs.reading import Pipe
from nmt_core.translator import Translator

WORDS = SearchConfig(beam_size=1, max_length_offset=20, max_source_tokens=16, batch_tokens=256, alignments="words")
PIECES = WORDS.model_copy(update={"alignments": "pieces"})
TEXTS = ["the cat sees a dog.", "now", "", "a big house. " * 4, "to it", "the dog", "sees\ta cat", "now", "a small dog"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    return tmp_path / "in.txt"


def expected(job: Any, search: SearchConfig) -> list[str]:
    found = [one.alignment for one in Translator.load(job.bundle, search).translate(TEXTS)]
    assert sum(bool(one and one.links) for one in found) == len(TEXTS) - 1
    return [one.pharaoh if one else "" for one in found]


def test_lines_have_them_in_a_file_beside(job: Any, source: Path, tmp_path: Path) -> None:
    job.run(source, tmp_path / "plain.txt", search=WORDS.model_copy(update={"alignments": "none"}))
    job.run(source, tmp_path / "out.txt", search=WORDS)
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "plain.txt").read_bytes()
    assert (tmp_path / "out.txt.alignment").read_text().split("\n") == [*expected(job, WORDS), ""]
    job.run(source, tmp_path / "out.gz", search=WORDS, chunk_lines=2)
    packed = gzip.decompress((tmp_path / "out.gz.alignment.gz").read_bytes())
    assert packed == (tmp_path / "out.txt.alignment").read_bytes()


def test_a_file_of_an_earlier_job_does_not_stay(job: Any, source: Path, tmp_path: Path) -> None:
    job.run(source, tmp_path / "out.txt", search=WORDS)
    (tmp_path / "out.txt.alignment").unlink()
    assert not job.run(source, tmp_path / "out.txt", search=WORDS).reused  # it is a part of the output
    assert job.run(source, tmp_path / "out.txt", search=WORDS).reused
    job.run(source, tmp_path / "out.txt", search=WORDS.model_copy(update={"alignments": "none"}))
    assert not (tmp_path / "out.txt.alignment").exists()


@pytest.mark.parametrize("search", [WORDS, PIECES], ids=["words", "pieces"])
def test_tables_have_a_column(search: SearchConfig, job: Any, source: Path, tmp_path: Path) -> None:
    for name in ("out.parquet", "out.jsonl", "out.tsv", "out.csv"):
        job.run(source, tmp_path / name, search=search)
    rows = pl.read_parquet(tmp_path / "out.parquet")
    assert rows["alignment"].to_list() == expected(job, search)
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == rows.to_dicts()
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [
            {**row, "score": float(row["score"]) if row["score"] else None} for row in csv.DictReader(file)
        ] == rows.to_dicts()
    head, *lines = (tmp_path / "out.tsv").read_text().split("\n")[:-1]
    assert head.split("\t") == rows.columns
    assert [line.split("\t")[6] for line in lines] == rows["alignment"].to_list()
    assert {len(line.split("\t")) for line in lines} == {len(rows.columns)}
    if search is PIECES:
        found = Translator.load(job.bundle, search).translate(TEXTS)
        assert rows["source_pieces"].to_list() == [
            " ".join(one.alignment.source) if one.alignment else "" for one in found
        ]
        assert rows["translation_pieces"][0].split(" ") == list(found[0].alignment.target if found[0].alignment else ())


def test_each_of_several_translations_has_its_own(job: Any, source: Path, tmp_path: Path) -> None:
    search = WORDS.model_copy(update={"beam_size": 4, "n_best": 2})
    job.run(source, tmp_path / "out.parquet", search=search)
    found = Translator.load(job.bundle, search).translate(TEXTS)
    rows = pl.read_parquet(tmp_path / "out.parquet")
    assert [[other["alignment"] for other in row] for row in rows["alternatives"]] == [
        [other.alignment.pharaoh if other.alignment else "" for other in one.alternatives] for one in found
    ]


def test_standard_output_has_them_after_a_tab(job: Any) -> None:
    written = io.BytesIO()
    cells = stream.piped(Pipe(io.BytesIO("".join(f"{text}\n" for text in TEXTS).encode())), Columns("", ""))
    model = ModelVersion(name="tiny", version="1", sha256="")
    stream.translate_stream(cells, Translator.load(job.bundle, WORDS), model, stream.to_pipe(written, WORDS))
    rows = [line.split("\t") for line in written.getvalue().decode().split("\n")[:-1]]
    assert [links for _, links in rows] == expected(job, WORDS)


@pytest.mark.parametrize("name", ["out.txt", "out"])
def test_lines_have_no_room_for_pieces(name: str, job: Any, source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{name}: cannot hold alignments of pieces: .* search\.alignments=words"):
        job.run(source, tmp_path / name, search=PIECES)
