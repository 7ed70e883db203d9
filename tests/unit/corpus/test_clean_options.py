"""Options that the stage `clean` passes on. Each decides about one pair here, so that none can be lost on the way."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.config import ParallelCorpus, PipelineConfig
from nmt_core.corpus.clean import DROPPED_FILES, TRAIN_FILES
from nmt_core.corpus.funnel import CleanReport
from nmt_core.store.artifacts import Artifact

Pair = tuple[str, str]
WriteCorpus = Callable[[str, Sequence[Pair]], ParallelCorpus]
Recipe = Callable[..., PipelineConfig]
RunUntil = Callable[..., dict[str, Artifact]]

MODULE = """
import polars as pl

def length(pairs):
    return pairs["target"].str.len_chars()

def marks(pairs):
    return pairs["source"].str.count_matches("!", literal=True)

def has_ship(pairs):
    return pairs["source"].str.contains("ship")
"""

NEWS = [
    ("The dog sees the mouse.", "Der Hund sieht die Maus."),  # its copy in the other corpus scores more
    ("Seven words are not too many here.", "Sieben Wörter sind hier nicht zu viele."),
    ("One old bird sings for us every day!", "Ein alter Vogel singt jeden Tag für uns!!"),  # more than the near-copy
    ("This is a darned thing.", "Das ist ein verflixtes Ding."),
    ("The ship sails today.", "Das Schiff fährt heute ab."),
    ("A good day to you.", "Ja, Tag."),
]
WEB = [
    ("The dog sees the mouse!", "Der Hund sieht die Maus!!!"),
    ("Nine words are too many here, you see, yes.", "Neun Wörter sind zu viele."),
    ("Every day one old bird sings to us", "Für uns singt jeden Tag ein alter Vogel"),
    ("The cat sleeps again.", "Die Katze schläft schon wieder."),
]


@pytest.fixture
def cleaned(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write_corpus: WriteCorpus,
    recipe: Recipe,
    run_until: RunUntil,
) -> tuple[pl.DataFrame, pl.DataFrame, CleanReport]:
    """Return the kept pairs, the dropped pairs and the report."""
    (tmp_path / "functions_of_others.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "words.txt").write_text("darned\n", encoding="utf-8")
    clean: dict[str, Any] = {
        "overrides": [{"corpus": "web", "max_words": 3}, {"corpus": "web", "pair": "en-de", "max_words": 8}],
        "source_word_list": str(tmp_path / "words.txt"),
        "filters": ["functions_of_others:has_ship"],
        "scores": [
            {"scorer": "functions_of_others:length", "min_score": 10},
            {"scorer": "functions_of_others:marks"},
        ],
        "prefer": "best",
        "near_duplicates": 0.7,
        "min_language_probability": 0,
    }
    news = write_corpus("news", NEWS).model_copy(update={"licence": "CC0"})
    web = write_corpus("web", WEB).model_copy(update={"licence": "CC-BY-4.0"})
    made = run_until(recipe(corpus={"train": [news, web]}, clean=clean), "clean")["clean"]
    train, dropped = (pl.read_parquet(sorted(made.path.glob(files))) for files in (TRAIN_FILES, DROPPED_FILES))
    return train, dropped, CleanReport.model_validate(made.report())


def test_what_is_kept_comes_with_its_corpus_line_licence_and_scores(
    cleaned: tuple[pl.DataFrame, pl.DataFrame, CleanReport],
) -> None:
    train, _, _ = cleaned

    assert train.schema == {
        **dict.fromkeys(("source", "target", "corpus"), pl.String),
        "line": pl.Int64,
        "licence": pl.String,
        **dict.fromkeys(("score_0", "score_1"), pl.Float64),
    }
    assert train.rows() == [
        (*NEWS[1], "news", 2, "CC0", 39.0, 0.0),
        (*NEWS[2], "news", 3, "CC0", 41.0, 1.0),
        (*WEB[0], "web", 1, "CC-BY-4.0", 26.0, 1.0),
        (*WEB[3], "web", 4, "CC-BY-4.0", 31.0, 0.0),
    ]


def test_what_is_dropped_says_why_and_what_decided(
    cleaned: tuple[pl.DataFrame, pl.DataFrame, CleanReport],
) -> None:
    _, dropped, report = cleaned

    assert dropped.select("corpus", "line", "reason", "value").rows() == [
        ("news", 1, "duplicate", "web:1"),
        ("news", 4, "source_word_list", "darned"),
        ("news", 5, "functions_of_others:has_ship", None),
        ("news", 6, "score:functions_of_others:length", "8.0"),
        ("web", 2, "too_many_words", "9"),
        ("web", 3, "near_duplicate", "news:3"),
    ]
    assert dropped.filter(corpus="web").select("source", "target").rows() == WEB[1:3]
    assert [(row.corpus, row.reason, row.pairs) for row in report.funnel] == [
        ("news", "read", 6),
        ("news", "source_word_list", 1),
        ("news", "functions_of_others:has_ship", 1),
        ("news", "score:functions_of_others:length", 1),
        ("news", "duplicate", 1),
        ("news", "kept", 2),
        ("web", "read", 4),
        ("web", "too_many_words", 1),
        ("web", "near_duplicate", 1),
        ("web", "kept", 2),
    ]
    assert json.loads(report.model_dump_json())["items_out"] == 4
