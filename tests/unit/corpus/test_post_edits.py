"""Corrected lines of a translation job are parallel text: what was not corrected is left out and counted."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from nmt_core.config import PipelineConfig
from nmt_core.corpus import clean as stage
from nmt_core.jobs.review import COLUMNS

Pair = tuple[str, str]
WEIGHT = 3


def test_corrections_are_read_with_their_weight_and_keep_their_row(
    write_corpus: Callable[[str, Sequence[Pair]], Any],
    recipe: Callable[..., PipelineConfig],
    run_until: Callable[..., Any],
    sound: Sequence[Pair],
    tmp_path: Path,
) -> None:
    corrected = {1: sound[6], 3: sound[7]}
    with (tmp_path / "out.txt.review.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, COLUMNS)
        rows.writeheader()
        for row in range(1, 6):
            source, correction = corrected.get(row, (f"Line {row} of the job, which was fine.", ""))
            rows.writerow({"source": source, "translation": 'Falsch, mit "Zeichen",', "correction": correction})
    edits = {
        "name": "edits",
        "address": str(tmp_path / "out.txt.review.csv"),
        "source_column": "source",
        "target_column": "correction",
    }
    config = recipe(
        corpus={
            "train": [write_corpus("news", sound[4:6]), edits],
            "dev": [write_corpus("dev", sound[:2])],
            "test": [write_corpus("main", sound[2:4])],
            "licence": "CC0",
        },
        mix={"corpora": [{"corpus": "edits", "weight": WEIGHT}]},
    )
    made = run_until(config, "split")
    clean, split = made["clean"], made["split"]
    dropped = pl.read_parquet(sorted(clean.path.glob(stage.DROPPED_FILES)))
    assert dropped.filter(corpus="edits").select("line", "reason").rows() == [(2, "empty"), (4, "empty"), (5, "empty")]
    assert clean.report()["dropped"]["empty"] == 3
    train = pl.concat([pl.read_parquet(file) for file in sorted(split.path.glob("train-*.parquet"))])
    own = train.filter(corpus="edits")
    assert set(own.select("line", "source", "target").rows()) == {(row, *pair) for row, pair in corrected.items()}
    assert own.height > train.filter(corpus="news").height, "corrections weigh more"
