"""The preview counts what `clean` counts, and its page holds what it shows."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from nmt_core.config import ParallelCorpus, PipelineConfig
from nmt_core.corpus.funnel import CleanReport
from nmt_core.corpus.preview.judgement import Preview, judge
from nmt_core.corpus.preview.page import page
from nmt_core.corpus.preview.sample import draw
from nmt_core.store.artifacts import REPORT

DIRTY = [
    ("The same sentence here.", "The same sentence here."),
    ("Yes.", "Ja, das ist ganz bestimmt und ohne jeden Zweifel sehr richtig."),
    ("It costs 12 euros today.", "Es kostet heute 13 Euro."),
    ("12 - 34 = 56", "12 - 34 = 56 a"),
    ("A tag </script><b>is here</b>.", "Ein Tag ist hier zu sehen."),
]


def preview_of(config: PipelineConfig, download: Any, pairs: int = 1_000) -> Preview:
    drawn, read = draw(config, download, pairs)
    return judge(config, download, drawn, read)


def test_the_preview_of_all_text_agrees_with_the_stage(
    sound: Sequence[tuple[str, str]],
    write_corpus: Callable[..., ParallelCorpus],
    recipe: Callable[..., PipelineConfig],
    run_until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("Katze\n", encoding="utf-8")
    config = recipe(
        corpus={
            "train": [write_corpus("a", [*sound, *DIRTY]), write_corpus("b", DIRTY)],
            "test": [write_corpus("test", [("The dog sees the cow.", "Etwas anderes hier.")])],
        },
        clean={
            "deduplicate": "none",
            "target_word_list": str(words),
            "overrides": [{"corpus": "b", "max_length_ratio": 30, "numbers_must_match": True}],
        },
    )
    made = run_until(config, "clean")
    preview = preview_of(config, made["download"])

    report = CleanReport.model_validate_json((made["clean"].path / REPORT).read_bytes())
    dropped = pl.concat([pl.read_parquet(path) for path in sorted(made["clean"].path.glob("dropped-*.parquet"))])
    by_reason = {one.reason: one for one in preview.filters}
    assert preview.pairs.height == report.items_in
    for corpus, line, reason in dropped.select("corpus", "line", "reason").iter_rows():
        place = preview.pairs.with_row_index().filter(corpus=corpus, line=line)["index"].item()
        assert by_reason[reason].drops[place], (corpus, line, reason)
    switched_off = by_reason["numbers_differ"]
    assert switched_off.is_on  # for the corpus b
    assert by_reason["length_ratio"].limits == {"pair": [4.0, 30.0]}
    assert not by_reason["brackets_differ"].is_on
    assert sum(by_reason["target_word_list"].drops) > 0


def test_the_page_is_whole_and_cannot_be_broken_by_its_text(
    sound: Sequence[tuple[str, str]],
    write_corpus: Callable[..., ParallelCorpus],
    recipe: Callable[..., PipelineConfig],
    run_until: Callable[..., Any],
) -> None:
    config = recipe(corpus={"train": [write_corpus("a", [*sound, *DIRTY])]})
    made = run_until(config, "download")
    text = page(preview_of(config, made["download"]), "my recipe")

    assert not re.search(r"(?:src|href)=\"(?!data:)", text)
    (data,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    found = json.loads(data)
    assert DIRTY[-1][0] in found["source"]
    ratio = next(one for one in found["filters"] if one["reason"] == "length_ratio")
    assert len(ratio["measures"]["pair"]) == len(found["line"]) == len(sound) + len(DIRTY)


def test_a_sample_is_drawn_from_each_corpus_and_stays_the_same(
    sound: Sequence[tuple[str, str]],
    write_corpus: Callable[..., ParallelCorpus],
    recipe: Callable[..., PipelineConfig],
    run_until: Callable[..., Any],
) -> None:
    config = recipe(corpus={"train": [write_corpus("a", sound), write_corpus("b", sound)]})
    download = run_until(config, "download")["download"]
    first, read = draw(config, download, 20)

    assert first.group_by("corpus").len().sort("corpus").rows() == [("a", 10), ("b", 10)]
    assert first["line"].to_list()[:10] != list(range(1, 11))
    assert read == {"a": len(sound), "b": len(sound)}
    assert draw(config, download, 20)[0].equals(first)


def test_what_a_moved_threshold_drops_is_what_the_stage_would_drop(
    write_corpus: Callable[..., ParallelCorpus],
    recipe: Callable[..., PipelineConfig],
    run_until: Callable[..., Any],
) -> None:
    """Names that are on both sides count as foreign letters only if a threshold would drop the pair."""
    text = [
        ("Start grep with the option color.", "grep을 color 옵션과 시작하세요."),
        ("Start grep with the option color.", "grep color 옵션 start now please"),
        ("Close the window.", "창을 닫으세요."),
    ]
    shares = {}
    for least in (0.1, 0.9):
        config = recipe(
            languages={"source": "en", "target": "ko"},
            corpus={"train": [write_corpus("names", text)]},
            clean={"min_script_share": least},
        )
        preview = preview_of(config, run_until(config, "download")["download"])
        rule = next(one for one in preview.filters if one.reason == "wrong_script")
        shares[least] = rule.measures["target"]
    assert shares[0.1] == shares[0.9]
    assert rule.drops == [share is not None and share < 0.9 for share in shares[0.1]] == [False, True, False]
