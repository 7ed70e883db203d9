"""From a user's file to the pairs of `clean`: rows that are used are kept, and the rest is counted with a reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.config import LanguagesConfig, PipelineConfig
from nmt_core.store.artifacts import Artifact

Recipe = Callable[..., PipelineConfig]
Run = Callable[..., dict[str, Artifact]]

PAIRS = [("The house is large.", "Das Haus ist groß."), ("The dog is small.", "Der Hund ist klein.")]


def cleaned(made: dict[str, Artifact]) -> tuple[pl.DataFrame, dict[str, Any]]:
    return pl.read_parquet(made["clean"].path / "train-*.parquet"), dict(made["clean"].report())


def test_documents_and_columns_are_kept_and_reported(tmp_path: Path, recipe: Recipe, run_until: Run) -> None:
    talks, other = tmp_path / "talks.tsv", tmp_path / "other.tsv"
    rows = [f"{source}\t{target}\n" for source, target in PAIRS]
    talks.write_text(f"{rows[0]}\n\n{rows[1]}")
    other.write_text("id\tsource\ttarget\n1\tThe bird sings loud.\tDer Vogel singt laut.\n")
    train = [{"name": "talks", "address": str(talks), "documents": "blank_lines"}, {"name": "o", "address": str(other)}]
    kept, report = cleaned(run_until(recipe(corpus={"train": train}), "clean"))

    assert kept.select("corpus", "line", "document").rows() == [("talks", 1, 1), ("talks", 4, 2), ("o", 1, None)]
    assert report["dropped"] == {"document_end": 2}
    assert report["notes"] == {"o": "took 'source' as source and 'target' as target; not used: id"}


def test_a_recipe_without_documents_has_no_such_column(tmp_path: Path, recipe: Recipe, run_until: Run) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    kept, report = cleaned(run_until(recipe(corpus={"train": [{"name": "a", "address": str(path)}]}), "clean"))

    assert kept.columns == ["source", "target", "corpus", "line", "licence"]
    assert report["notes"] == {}


@pytest.mark.parametrize("column", [1, "1"])
def test_numbers_and_charsets_of_a_recipe(column: int | str, tmp_path: Path, recipe: Recipe, run_until: Run) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in PAIRS).encode("windows-1252"))
    corpus = {"name": "a", "address": str(path), "source_column": column, "target_column": 2}
    kept, _ = cleaned(run_until(recipe(corpus={"train": [corpus | {"encoding": "windows-1252"}]}), "clean"))

    assert kept.select("source", "target").rows() == PAIRS


@pytest.mark.parametrize(("key", "value"), [("encoding", "klingon"), ("source_column", True), ("encoding", "base64")])
def test_a_charset_that_does_not_exist_is_refused(key: str, value: object, recipe: Recipe) -> None:
    with pytest.raises(ValueError, match=key):
        recipe(corpus={"train": [{"name": "a", "address": "a.tsv", key: value}]})


@pytest.mark.parametrize(
    ("tag", "stored"),
    [
        ("zh_Hant", {"source": "zh", "source_variant": "Hant"}),
        ("pt-br", {"source": "pt", "source_variant": "BR"}),
        ("sr@latin", {"source": "sr", "source_variant": "Latn"}),
        ("zho_Hans", {"source": "zh", "source_variant": "Hans"}),
        ("de", {"source": "de"}),
    ],
)
def test_a_recipe_names_scripts_and_regions(tag: str, stored: dict[str, str]) -> None:
    languages = LanguagesConfig.model_validate({"source": tag, "target": "en"})

    assert languages.model_dump() == {**stored, "target": "en"}
    assert LanguagesConfig.model_validate(languages.model_dump()) == languages
    assert languages.tag("source") == "_".join(stored.values())


@pytest.mark.parametrize("tag", ["english", "deu", "EN", "en_", "d", "zh-Hans-x_1!"])
def test_what_is_no_tag_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="source"):
        LanguagesConfig.model_validate({"source": tag, "target": "ko"})
