"""Text of one side is cleaned, deduplicated and kept apart from dev and test text, and every sentence is counted."""

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.config import MonolingualCorpus, ParallelCorpus, PipelineConfig
from nmt_core.corpus.funnel import CleanReport
from nmt_core.corpus.split import SplitReport
from nmt_core.errors import ConfigError, DataError
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import REPORT

GERMAN = [
    "Der alte Mann liest jeden Morgen die Zeitung.",
    "Die Kinder spielen heute im Garten hinter dem Haus.",
    "Wir fahren morgen mit dem Zug nach Berlin.",
    "Das Wetter ist seit gestern viel besser geworden.",
]


@pytest.fixture
def base(
    sound: Sequence[tuple[str, str]], write_corpus: Callable[..., ParallelCorpus], recipe: Callable[..., PipelineConfig]
) -> Callable[..., PipelineConfig]:
    """A recipe with parallel text, and with other corpora by role."""

    def make(**corpus: Any) -> PipelineConfig:
        return recipe(
            corpus={"train": [write_corpus("train", sound)], **corpus}, split={"dev_pairs": 2, "test_pairs": 2}
        )

    return make


def text_of(folder: Path, pattern: str = "monolingual-[0-9]*.parquet") -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in sorted(folder.glob(pattern))])


def test_sentences_are_filtered_deduplicated_and_decontaminated(
    base: Callable[..., PipelineConfig],
    write_corpus: Callable[..., ParallelCorpus],
    run_until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    lines = [
        *GERMAN,
        "",
        GERMAN[0].upper(),
        "12345 67890",
        "The old man reads the newspaper every morning.",
        "ＤＩＥ Probe zählt.",
    ]
    path = tmp_path / "mono.de.gz"
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    config = base(
        test=[write_corpus("test", [("The sample counts.", "Die Probe zählt.")])],
        monolingual=[{"name": "news", "side": "target", "address": str(path)}],
    )
    made = run_until(config, "split")

    report = CleanReport.model_validate_json((made["clean"].path / REPORT).read_bytes()).monolingual
    assert report
    expected = {"empty": 1, "duplicate": 1, "few_letters": 1, "wrong_language": 1, "held_out": 1}
    assert (report.items_in, report.items_out, report.dropped) == (9, 4, dict(sorted(expected.items())))
    kept, dropped = text_of(made["split"].path), text_of(made["clean"].path, "monolingual-dropped-*.parquet")
    assert kept["text"].to_list() == GERMAN
    assert kept.columns == ["text", "side", "corpus", "line", "licence"]
    assert set(kept["side"]) == {"target"}
    assert dropped["line"].to_list() == [5, 6, 7, 8, 9]
    assert dropped["source"].to_list() == [""] * 5


def test_sentences_that_are_taken_out_for_testing_are_dropped(
    base: Callable[..., PipelineConfig], sound: Sequence[tuple[str, str]], run_until: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "mono.en"
    path.write_text("".join(f"{source}\n" for source, _ in sound), encoding="utf-8")
    config = base(monolingual=[{"name": "same", "side": "source", "address": str(path)}])
    made = run_until(config, "split")

    report = SplitReport.model_validate_json((made["split"].path / REPORT).read_bytes()).monolingual
    held_out = pl.concat(
        [pl.read_parquet(made["split"].path / name) for name in ("dev.parquet", "test-held-out.parquet")]
    )
    kept = text_of(made["split"].path)
    assert report
    assert report.items_in == report.items_out + sum(report.dropped.values()) == len(sound)
    assert report.items_out == kept.height == len(sound) - held_out.height
    assert not set(kept["text"]) & set(held_out["source"])


@pytest.mark.parametrize(
    ("name", "text", "extra"),
    [
        ("a.txt", "A sentence\twith a tab.\nAnother one.\n", {}),
        ("a.tsv", "id\ttext\n1\tA sentence\n2\tAnother one.\n", {}),
        ("a.csv", 'id,body\n1,"A sentence"\n2,Another one.\n', {"column": "body"}),
        ("a.tsv", "1\tA sentence\n2\tAnother one.\n", {"column": "2"}),
        ("a.jsonl", '{"text": "A sentence"}\n{"text": "Another one."}\n', {}),
        ("a.json", '[\n {"text": "A sentence"},\n {"text": "Another one."}\n]', {}),
        (
            "a.tmx",
            '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>A sentence</seg></tuv>'
            '<tuv xml:lang="de"><seg>Ein Satz</seg></tuv></tu><tu><tuv xml:lang="en"><seg>Another one.</seg></tuv>'
            '<tuv xml:lang="de"><seg>Noch einer.</seg></tuv></tu></body></tmx>',
            {},
        ),
    ],
)
def test_text_may_have_any_format(
    base: Callable[..., PipelineConfig],
    run_until: Callable[..., Any],
    tmp_path: Path,
    name: str,
    text: str,
    extra: dict[str, str],
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    alone = {"name": "alone", "side": "source", "address": str(tmp_path / name), **extra}
    made = run_until(base(monolingual=[alone]), "clean")

    both = pl.concat(
        [
            text_of(made["clean"].path).select("line", "text"),
            text_of(made["clean"].path, "monolingual-dropped-*.parquet").select("line", text="source"),
        ]
    ).sort("line")
    first = "A sentence with a tab." if name == "a.txt" else "A sentence"
    assert both.rows() == [(1, first), (2, "Another one.")]


def test_text_in_another_charset_is_read(
    base: Callable[..., PipelineConfig], run_until: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "a.de").write_bytes("Die Straße führt über die Brücke.\n".encode("windows-1252"))
    (tmp_path / "b.de").write_bytes("Die Kühe stehen auf der grünen Wiese.\n".encode("utf-16"))
    old = {"name": "old", "side": "target", "address": str(tmp_path / "a.de"), "encoding": "windows-1252"}
    wide = {"name": "wide", "side": "target", "address": str(tmp_path / "b.de")}
    made = run_until(base(monolingual=[old, wide]), "clean")

    found = text_of(made["clean"].path)["text"].to_list()
    assert found == ["Die Straße führt über die Brücke.", "Die Kühe stehen auf der grünen Wiese."]


def test_a_folder_is_read_file_by_file(
    base: Callable[..., PipelineConfig], run_until: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, line in enumerate(GERMAN):
        (folder / f"{number}.txt").write_text(f"{line}\n", encoding="utf-8")
    made = run_until(base(monolingual=[{"name": "all", "side": "target", "address": str(folder)}]), "clean")

    assert text_of(made["clean"].path)["text"].to_list() == GERMAN


def test_a_recipe_without_monolingual_text_keeps_its_fingerprints(base: Callable[..., PipelineConfig]) -> None:
    config = base()
    assert "monolingual" not in config.model_dump()["corpus"]
    assert "monolingual" not in STAGES["download"].identity_of(config, {})["config"]


def test_mistakes_are_explained(
    base: Callable[..., PipelineConfig], run_until: Callable[..., Any], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"visible to all who read the recipe"):
        MonolingualCorpus(name="x", side="source", address="https://me:secret@host/x")
    with pytest.raises(ValueError, match="uses the name 'train' twice"):
        base(monolingual=[{"name": "train", "side": "source", "address": "x"}])
    with pytest.raises((DataError, ConfigError), match="missing"):
        run_until(
            base(monolingual=[{"name": "x", "side": "source", "address": str(tmp_path / "missing.txt")}]), "clean"
        )
