"""The stage `split`: every clean pair is trained on, held out, or listed."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.config import ParallelCorpus, PipelineConfig
from nmt_core.corpus import split as stage
from nmt_core.corpus.funnel import CleanReport
from nmt_core.errors import DataError, StageError
from nmt_core.execution.child import pack
from nmt_core.execution.pool import InProcess, LocalWorkers
from nmt_core.stages.stage import Job, Resources, SilentReporter
from nmt_core.store.artifacts import Artifact, describe_outputs

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
        mix={"corpora": [{"corpus": "web", "weight": 0.5, "tag": "<BT>"}, {"corpus": "news", "weight": 2}]},
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
    assert train.filter(corpus="web")["source"].str.starts_with("<BT> ").all()
    assert not read(split, "test-*.parquet")["source"].str.contains("<BT>").any()


RUN = "and so the story of this old house by the river goes on from year to year until it ends"  # 20 words


def sharing_a_run(count: int) -> list[Pair]:
    return [(f"Person {n} says {RUN}.", f"Person {n} redet, und das ist Satz Nummer {n}.") for n in range(count)]


def different(count: int) -> list[Pair]:
    names = [f"{a}{b}" for a in "bdfgklmnprst" for b in "aeiou"]
    return [
        (f"The {names[n % 60]} and {names[n // 60]} see it.", f"Der {names[n % 60]} und {names[n // 60]} sehen es.")
        for n in range(count)
    ]


@pytest.mark.parametrize("options", [{}, {"ngram_words": 30, "short_ngram_words": 18}, {"decontaminate": False}])
def test_no_run_of_words_of_what_is_taken_out_is_trained_on(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, options: dict[str, Any]
) -> None:
    pairs = [*sharing_a_run(50), *different(200)]
    sizes = {"test_pairs": 12, "dev_pairs": 10}
    config = recipe(corpus={"train": [write_corpus("news", pairs)]}, clean=options, split=sizes)
    split = run_until(config, "split")["split"]

    report = stage.SplitReport.model_validate(split.report())
    train, dropped = read(split, "train-*.parquet"), read(split, "dropped-*.parquet")
    taken_out = [read(split, file).filter(pl.col("source").str.contains(RUN)).height for file in ("dev*", "test-*")]
    leaking = train.filter(pl.col("source").str.contains(RUN))
    assert min(taken_out) > 0
    if options.get("decontaminate") is False:
        assert leaking.height == 50 - sum(taken_out)
        assert report.held_out == {}
    else:
        assert leaking.is_empty()
        assert report.dropped["held_out"] == 50 - sum(taken_out) == sum(report.held_out.values())
        listed = dropped.filter(reason="held_out")
        assert dict(listed["value"].value_counts().iter_rows()) == report.held_out
        assert report.held_out == {"dev/held-out": 50 - sum(taken_out)}  # the first set of several that it shares with
        assert listed["source"].str.contains(RUN).all()
    assert train.height + dropped.height + 22 == report.items_in == 250


def test_where_most_text_leaks_there_is_too_little(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil
) -> None:
    config = recipe(
        corpus={"train": [write_corpus("news", sharing_a_run(50))]}, split={"test_pairs": 5, "dev_pairs": 5}
    )
    with pytest.raises(StageError, match=r"50 clean pairs are too few .*\(0 would be left\)"):
        run_until(config, "split")


@pytest.mark.parametrize("rule", [{"tag": "<BT>"}, {"weight": 0}])
def test_back_translated_and_left_out_text_is_not_scored_on_unless_there_is_no_other(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, rule: dict[str, Any]
) -> None:
    made = [(f"{source} So.", f"{target} Ja.") for source, target in different(300)]
    news, web = write_corpus("news", different(100)), write_corpus("web", made)
    options: dict[str, Any] = {"split": {"test_pairs": 20, "dev_pairs": 20}}
    options["mix"] = {"corpora": [{"corpus": "web"} | rule]}

    split = run_until(recipe(corpus={"train": [news, web]}, **options), "split")["split"]

    genuine = {source for source, _ in different(100)}
    assert genuine.issuperset([*read(split, "dev.parquet")["source"], *read(split, "test-*.parquet")["source"]])
    if "tag" in rule:
        alone = run_until(recipe(corpus={"train": [web]}, **options), "split")["split"]
        assert (alone.report()["dev"], alone.report()["tests"]) == (20, {"held-out": 20})


def test_only_what_split_applies_of_clean_decides_it(recipe: Recipe) -> None:
    plain = recipe(corpus={"toy": {}})

    assert stage.identity(recipe(corpus={"toy": {}}, clean={"source_word_list": "elsewhere"})) == stage.identity(plain)
    for option, value in {"decontaminate": False, "ngram_words": 12, "short_ngram_words": 8}.items():
        assert stage.identity(recipe(corpus={"toy": {}}, clean={option: value})) != stage.identity(plain)


def test_a_mix_of_nothing_says_what_to_change(write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil) -> None:
    corpus = {"train": [write_corpus("news", TRAIN)], "dev": [write_corpus("dev", DEV)]}
    corpus |= {"test": [write_corpus("test", TEST)]}
    with pytest.raises(StageError, match=r"draws no pair.*mix\.corpora"):
        run_until(recipe(corpus=corpus, mix={"corpora": [{"corpus": "news", "weight": 0}]}), "split")


def test_a_test_set_with_a_row_that_cannot_be_read_is_not_used(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil
) -> None:
    test = write_corpus("main", [*TEST, ("A d\x00g.", "Ein Hund.")])
    with pytest.raises(DataError, match=r"test set main, line 3: null byte: repair the line"):
        run_until(recipe(corpus={"train": [write_corpus("news", TRAIN)], "test": [test]}), "split")


def test_the_same_bytes_whatever_the_number_of_workers(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, three_workers: LocalWorkers, tmp_path: Path
) -> None:
    pairs = [(f"Number {n} is a big number.", f"Nummer {n} ist eine große Nummer.") for n in range(2_200)]
    pairs = [pair for both in zip(pairs, sharing_a_run(2_200), strict=True) for pair in both][:2_500]
    config = recipe(
        corpus={"train": [write_corpus("news", pairs)]},
        clean={"shard_pairs": 1_000},
        split={"test_pairs": 30, "dev_pairs": 20},
        mix={"corpora": [{"corpus": "news", "weight": 1.5}]},
    )
    made = run_until(config, "split")
    (tmp_path / "three").mkdir()
    inputs = {"download": made["download"], "clean": made["clean"]}
    stage.run(config, inputs, tmp_path / "three", Job(SilentReporter(), Resources(), three_workers))

    assert made["split"].report()["dropped"]["held_out"] > 1_000
    outputs = describe_outputs(tmp_path / "three")
    assert len(outputs) == 3 + 3 + 3
    assert outputs.items() <= describe_outputs(made["split"].path).items()


def test_the_toy_corpus_is_found_dirty_and_left_clean(recipe: Recipe, run_until: RunUntil) -> None:
    config = recipe(
        languages={"source": "en", "target": "ko"},
        corpus={"toy": {"pairs": 2000, "held_out": 100}},
        clean={"expected_length_ratio": 2.0},
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


def test_a_pair_that_is_nowhere_stops_the_stage(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = stage.mix.mixed

    def losing(*arguments: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
        train, not_drawn = mixed(*arguments)
        return train.filter(pl.col("line") != train["line"][0]), not_drawn

    monkeypatch.setattr(stage.mix, "mixed", losing)
    config = recipe(
        corpus={"train": [write_corpus("news", SOUND)]},
        split={"test_pairs": 3, "dev_pairs": 2},
        mix={"corpora": [{"corpus": "news", "weight": 2}]},
    )
    with pytest.raises(StageError, match=r"split: 36 pairs went in, .*\d+ trained on, 5 taken out, \d+ dropped"):
        run_until(config, "split")


def test_tasks_name_what_was_taken_out_and_do_not_hold_it(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, tmp_path: Path
) -> None:
    """A task is sent to a worker for every shard of the text."""
    sizes: list[int] = []

    class Weighing(InProcess):
        def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
            for task in tasks:
                if function is stage._split_shard:
                    sizes.append(len(pack(function, task)))
                yield function(task)

    corpus = {"train": [write_corpus("news", different(1_000))]}
    made = run_until(recipe(corpus=corpus), "clean")
    for pairs in (10, 200):
        config = recipe(corpus=corpus, split={"dev_pairs": pairs, "test_pairs": pairs})
        out = tmp_path / str(pairs)
        out.mkdir()
        stage.run(config, made, out, Job(SilentReporter(), Resources(), Weighing()))
        assert not (out / ".scratch").exists()
    few, many = sizes
    assert many - few < 100


def test_what_a_killed_worker_left_half_written_is_not_published(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()

    class Littering(InProcess):
        def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
            for result in super().map(function, tasks):
                (out / "train-00000.parquet.0123abcd.partial").write_bytes(b"half of it")
                yield result

    config = recipe(corpus={"train": [write_corpus("news", SOUND)]}, split={"dev_pairs": 3, "test_pairs": 4})
    made = run_until(config, "clean")
    stage.run(config, made, out, Job(SilentReporter(), Resources(), Littering()))
    files = {file.name for file in out.iterdir()}
    assert {name for name in files if name.startswith("train")} == {"train-00000.parquet"}
