import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.artifacts import Artifact, describe_outputs
from nmt_core.config import ParallelCorpus, PipelineConfig
from nmt_core.corpus import split as stage
from nmt_core.corpus.funnel import CleanReport
from nmt_core.errors import DataError, StageError
from nmt_core.stage import Job, Resources, SilentReporter
from nmt_core.workers import LocalWorkers

Pair = tuple[str, str]
WriteCorpus = Callable[[str, Sequence[Pair]], ParallelCorpus]
Recipe = Callable[..., PipelineConfig]
RunUntil = Callable[..., dict[str, Artifact]]

WORDS = [("dog", "Hund"), ("cat", "Katze"), ("horse", "Pferd"), ("bird", "Vogel"), ("mouse", "Maus"), ("cow", "Kuh")]
SOUND = [(f"The {a} sees the {b}.", f"Das {x} sieht die {y}.") for a, x in WORDS for b, y in WORDS]
DEV, TEST = SOUND[:2], SOUND[2:4]
TRAIN = SOUND[4:]


def read(artifact: Artifact, files: str) -> pl.DataFrame:
    return pl.read_parquet(sorted(artifact.path.glob(files)))


def test_what_the_recipe_names_is_handed_on_unaltered(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil
) -> None:
    odd = [("  A  dog &amp; a cat\u2028", "\u00a0Ein Hund"), ("", "Leer")]
    corpus = {
        "train": [write_corpus("news", SOUND)],
        "dev": [write_corpus("dev", odd), write_corpus("dev2", odd[:1])],
        "test": [write_corpus("zeta", odd), write_corpus("alpha", odd)],
    }
    made = run_until(recipe(corpus=corpus), "split")
    split = made["split"]

    splits = json.loads((split.path / stage.SPLITS).read_text(encoding="utf-8"))
    assert splits == {"dev": "dev.parquet", "tests": {"zeta": "test-zeta.parquet", "alpha": "test-alpha.parquet"}}
    assert list(splits["tests"]) == ["zeta", "alpha"]
    assert read(split, "test-zeta.parquet").rows() == odd
    assert read(split, "dev.parquet").rows() == odd + odd[:1]
    assert (split.path / "train-00000.parquet").samefile(made["clean"].path / "train-00000.parquet")
    assert split.report()["tests"] == {"zeta": 2, "alpha": 2}


@pytest.mark.parametrize("named", [(), ("dev",), ("test",)])
def test_what_the_recipe_does_not_name_is_taken_out(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, named: tuple[str, ...]
) -> None:
    corpus: dict[str, Any] = {"train": [write_corpus("news", TRAIN)]}
    corpus |= {role: [write_corpus(role, {"dev": DEV, "test": TEST}[role])] for role in named}
    split = run_until(recipe(corpus=corpus, split={"dev_pairs": 3, "test_pairs": 4}), "split")["split"]

    report = split.report()
    assert report["dev"] == (2 if "dev" in named else 3)
    assert report["tests"] == ({"test": 2} if "test" in named else {"held-out": 4})
    test_file = f"test-{next(iter(report['tests']))}.parquet"
    parts = [read(split, files) for files in ("train-*.parquet", "dev.parquet", test_file)]
    for side in ("source", "target"):
        found = [sentence for part in parts for sentence in set(part[side])]
        assert len(found) == len(set(found))
    assert report["items_in"] == len(TRAIN)
    assert report["items_out"] == parts[0].height


def test_too_little_text_to_take_some_out(write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil) -> None:
    with pytest.raises(StageError, match=r"36 clean pairs are too few.*split.test_pairs"):
        run_until(recipe(corpus={"train": [write_corpus("news", SOUND)]}), "split")


def test_too_little_text_would_be_left(write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil) -> None:
    config = recipe(
        corpus={"train": [write_corpus("news", SOUND)]},
        split={"test_pairs": 15, "dev_pairs": 10},
    )
    with pytest.raises(StageError, match=r"36 clean pairs are too few .*\(11 would be left\)"):
        run_until(config, "split")


def test_every_clean_pair_is_trained_on_or_held_out_or_listed(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil
) -> None:
    twice = [*SOUND, *((f"{source} Again.", target) for source, target in SOUND)]
    web = [(f"{source} So.", f"{target} Ja.") for source, target in SOUND]
    config = recipe(
        corpus={"train": [write_corpus("news", twice), write_corpus("web", web)]},
        split={"test_pairs": 3, "dev_pairs": 2},
        mix={"corpora": [{"corpus": "web", "weight": 0.5}, {"corpus": "news", "weight": 2, "tag": "<BT>"}]},
    )
    split = run_until(config, "split")["split"]

    report = stage.SplitReport.model_validate(split.report())
    train, dropped = read(split, "train-*.parquet"), read(split, "dropped-*.parquet")
    assert report.items_in == 3 * len(SOUND)
    assert report.dropped == dict(dropped["reason"].value_counts().rows())
    held_out = report.dev + sum(report.tests.values())
    targets = set(pl.concat([read(split, "dev.parquet"), read(split, "test-*.parquet")])["target"])
    assert report.dropped["shares_a_side"] == sum(target in targets for _, target in [*twice, *web]) - held_out > 0
    assert train.select("corpus", "line").unique().height + dropped.height + held_out == report.items_in
    assert report.items_out == train.height == sum(row.trained_on for row in report.mix)
    assert train.filter(corpus="news")["source"].str.starts_with("<BT> ").all()
    assert not read(split, "test-*.parquet")["source"].str.contains("<BT>").any()


def test_a_mix_of_nothing_says_what_to_change(write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil) -> None:
    corpus = {"train": [write_corpus("news", TRAIN)], "dev": [write_corpus("dev", DEV)]}
    corpus |= {"test": [write_corpus("test", TEST)]}
    with pytest.raises(StageError, match=r"draws no pair.*mix\.corpora"):
        run_until(recipe(corpus=corpus, mix={"corpora": [{"corpus": "news", "weight": 0}]}), "split")


def test_a_test_set_with_a_row_that_cannot_be_read_is_not_used(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil
) -> None:
    test = write_corpus("main", [*TEST, ("A d\x00g.", "Ein Hund.")])
    with pytest.raises(DataError, match=r"test set main, line 3: null byte: mend the line"):
        run_until(recipe(corpus={"train": [write_corpus("news", TRAIN)], "test": [test]}), "split")


def test_the_same_bytes_whatever_the_number_of_workers(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, tmp_path: Path
) -> None:
    pairs = [(f"Number {n} is a big number.", f"Nummer {n} ist eine große Nummer.") for n in range(2_500)]
    config = recipe(
        corpus={"train": [write_corpus("news", pairs)]},
        clean={"shard_pairs": 1_000},
        split={"test_pairs": 30, "dev_pairs": 20},
        mix={"corpora": [{"corpus": "news", "weight": 1.5}]},
    )
    made = run_until(config, "split")
    (tmp_path / "two").mkdir()
    with LocalWorkers(2) as workers:
        inputs = {"download": made["download"], "clean": made["clean"]}
        stage.run(config, inputs, tmp_path / "two", Job(SilentReporter(), Resources(), workers))

    outputs = describe_outputs(tmp_path / "two")
    assert len(outputs) == 3 + 3 + 3
    assert outputs.items() <= describe_outputs(made["split"].path).items()


def test_the_toy_corpus_is_found_dirty_and_left_clean(recipe: Recipe, run_until: RunUntil) -> None:
    config = recipe(
        languages={"source": "en", "target": "ko"},
        corpus={"toy": {"pairs": 2000, "held_out": 100}},
        clean={"characters_per_character": 2.0},
    )
    made = run_until(config, "split")

    planted = made["download"].report()["planted"]
    report = CleanReport.model_validate(made["clean"].report())
    assert sum(planted.values()) == sum(report.dropped.values()) + report.repaired
    assert report.dropped["duplicate"] == planted["duplicate"]
    assert report.dropped["copy"] == planted["copy"]
    assert report.dropped["wrong_script"] == planted["wrong_language"]
    assert report.dropped["held_out"] == planted["leak"] == sum(report.held_out.values())
    assert report.dropped["broken_encoding"] + report.repaired == planted["encoding"]
    assert made["split"].report()["tests"] == {"toy": 100}
