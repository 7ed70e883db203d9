"""A recipe names the members of an archive to read, and they count in the fingerprint of the download."""

import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from nmt_core.config import PipelineConfig


def test_a_recipe_may_name_the_members(tmp_path: Path, recipe: Any, run_until: Any) -> None:
    lines = [f"Number {number} is a small sentence.\n" for number in range(2)]
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number, side in product((0, 1), ("en", "de")):
            archive.writestr(f"{number}.{side}", lines[number])
    clean: dict[str, Any] = {"min_language_probability": 0, "drop_copies": False, "max_copied_share": 1}

    def made(**corpus: str) -> tuple[str, list[str]]:
        config: PipelineConfig = recipe(corpus={"train": [{"name": "all", **corpus}]}, clean=clean)
        found = run_until(config, "clean")
        return found["download"].fingerprint, pl.read_parquet(found["clean"].path / "train-*.parquet")[
            "source"
        ].to_list()

    first, second = (made(address=str(path), member=f"{number}.*") for number in (0, 1))
    assert [first[1], second[1]] == [[line.strip()] for line in lines]
    assert first[0] != second[0]
    assert made(source=str(path), target=str(path), member="1.*")[1] == second[1]
