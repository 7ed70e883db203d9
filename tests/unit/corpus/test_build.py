import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.artifacts import Artifact, describe_outputs
from nmt_core.config import ParallelFiles, PipelineConfig
from nmt_core.corpus.build import CleanReport, clean_pairs
from nmt_core.errors import DataError, StageError

Pair = tuple[str, str]
WriteCorpus = Callable[[str, Sequence[Pair]], ParallelFiles]
Recipe = Callable[..., PipelineConfig]
RunUntil = Callable[..., dict[str, Artifact]]

WORDS = [("dog", "Hund"), ("cat", "Katze"), ("horse", "Pferd"), ("bird", "Vogel"), ("mouse", "Maus"), ("cow", "Kuh")]
SOUND = [(f"The {a} sees the {b}.", f"Tier {x} sieht Tier {y}.") for a, x in WORDS for b, y in WORDS]
DEV, TEST = SOUND[:2], SOUND[2:4]
TRAIN = SOUND[4:]
DIRT = {
    "empty": ("", "Nichts."),
    "broken_encoding": ("The c\ufffdt sleeps.", "Die Katze schläft."),
    "too_many_words": ("very " * 200 + "long", "sehr lang"),
    "long_word": ("x" * 50, "Ein Wort ohne Ende."),
    "few_letters": ("12 + 34 = 46 !", "Eine Rechnung."),
    "copy": ("Just a copy.", "just a copy"),
    "wrong_script": ("The cat sleeps now.", "Кошка сейчас спит."),
    "length_ratio": ("No.", "Das kann man so wirklich nicht sagen."),
    "duplicate": (TRAIN[0][0].upper(), TRAIN[0][1]),
    "held_out": (TEST[0][0].lower(), "Etwas anderes."),
}


@pytest.fixture
def dirty(write_corpus: WriteCorpus, recipe: Recipe) -> PipelineConfig:
    """A recipe whose training text holds one pair of each kind of dirt, after the sound ones."""
    return recipe(
        corpus={
            "train": [
                write_corpus("news", [*TRAIN, *DIRT.values()]),
                write_corpus("web", [("Caf&eacute; Q.", "Café Q")]),
            ],
            "dev": [write_corpus("dev", DEV)],
            "test": [write_corpus("main", TEST), write_corpus("other", SOUND[:1])],
            "licence": "CC0",
        }
    )


def read(artifact: Artifact, file: str) -> pl.DataFrame:
    return pl.read_parquet(artifact.path / file)


def test_download_keeps_the_bytes_and_lists_them(dirty: PipelineConfig, run_until: RunUntil) -> None:
    download = run_until(dirty, "download")["download"]

    index = json.loads((download.path / "corpora.json").read_text(encoding="utf-8"))["corpora"]
    assert [(corpus["role"], corpus["name"]) for corpus in index] == [
        ("train", "news"),
        ("train", "web"),
        ("dev", "dev"),
        ("test", "main"),
        ("test", "other"),
    ]
    assert index[0]["licence"] == "CC0"
    stored = index[0]["target"]
    assert stored["file"] == "train/news.target.txt"
    original = Path(dirty.corpus.train[0].target)
    assert (download.path / stored["file"]).read_bytes() == original.read_bytes()
    assert (stored["address"], stored["bytes"]) == (str(original), original.stat().st_size)
    assert download.report()["items_out"] == 10


def test_clean_drops_each_kind_of_dirt_for_its_reason(dirty: PipelineConfig, run_until: RunUntil) -> None:
    clean = run_until(dirty, "clean")["clean"]

    dropped = read(clean, "dropped.parquet")
    assert dropped.columns == ["corpus", "line", "reason", "value", "source", "target"]
    news = dropped.filter(corpus="news").select("reason", "line").rows()
    assert news == [(reason, line) for line, reason in enumerate(DIRT, start=len(TRAIN) + 1)]
    assert dropped.filter(corpus="web").select("reason", "line").rows() == [("copy", 1)]
    values = dict(dropped.select("reason", "value").rows())
    assert (values["duplicate"], values["held_out"], values["too_many_words"]) == ("news:1", "test/main", "201")


def test_what_is_kept_is_every_other_pair_in_order(dirty: PipelineConfig, run_until: RunUntil) -> None:
    train = read(run_until(dirty, "clean")["clean"], "train.parquet")

    assert train.columns == ["source", "target", "corpus", "line"]
    assert train.select("source", "target").rows() == TRAIN
    assert train["line"].to_list() == list(range(1, len(TRAIN) + 1))


def test_the_report_of_clean_adds_up(dirty: PipelineConfig, run_until: RunUntil) -> None:
    report = CleanReport.model_validate(run_until(dirty, "clean")["clean"].report())

    assert report.items_in == len(TRAIN) + len(DIRT) + 1
    assert report.items_in == report.items_out + sum(report.dropped.values())
    assert report.dropped == {"copy": 2} | dict.fromkeys(sorted(DIRT.keys() - {"copy"}), 1)
    assert report.held_out == {"test/main": 1}
    assert {sample.reason for sample in report.samples} == set(DIRT)
    assert all(len(sample.source) <= 200 for sample in report.samples)


def test_repaired_pairs_are_kept_and_counted(write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil) -> None:
    rows = [("A cafÃ© here.", "Ein Café &amp; mehr."), ("A sound pair.", "Ein gutes Paar.")]
    clean = run_until(recipe(corpus={"train": [write_corpus("news", rows)]}), "clean")["clean"]

    assert read(clean, "train.parquet").row(0)[:2] == ("A café here.", "Ein Café & mehr.")
    assert clean.report()["repaired"] == 1


def test_samples_are_ten_of_each_reason(write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil) -> None:
    copies = [(f"Copy {number}.", f"copy {number}") for number in range(15)]
    config = recipe(corpus={"train": [write_corpus("news", [*SOUND, *copies])]})
    report = CleanReport.model_validate(run_until(config, "clean")["clean"].report())

    assert report.dropped == {"copy": 15}
    assert [sample.line for sample in report.samples] == list(range(37, 47))


def test_strange_characters_inside_lines_break_no_pair(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil
) -> None:
    rows = [('A "quote\u2028and\rmore\x00.', "Ein Zitat\u2029und\tmehr."), *SOUND]
    clean = run_until(recipe(corpus={"train": [write_corpus("news", rows)]}), "clean")["clean"]

    train = read(clean, "train.parquet")
    assert train.height == len(rows)
    assert train.row(0)[:2] == ('A "quote and more.', "Ein Zitat und mehr.")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [("Same.", "same")] * 3,
            r"none of the 3 pairs is left; 'copy' dropped most \(3\).*news, line 1.*clean.drop_copies",
        ),
        ([("", "x"), ("", "y"), ("a", "a")], r"'empty' dropped most \(2\).*check corpus.train"),
        (TEST, r"'held_out' dropped most \(2\).*clean.decontaminate"),
    ],
)
def test_an_empty_corpus_after_cleaning_says_what_to_change(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, rows: list[Pair], message: str
) -> None:
    config = recipe(corpus={"train": [write_corpus("news", rows)], "test": [write_corpus("main", TEST)]})

    with pytest.raises(StageError, match=message):
        run_until(config, "clean")


def test_files_of_unequal_length_stop_clean(write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil) -> None:
    files = write_corpus("news", SOUND)
    with Path(files.target).open("a", encoding="utf-8") as file:
        file.write("Eine Zeile zu viel.\n")

    with pytest.raises(DataError, match=r"news.source.txt has 36 lines and .*news.target.txt has 37"):
        run_until(recipe(corpus={"train": [files]}), "clean")


def test_a_wrong_checksum_leaves_no_artifact(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, tmp_path: Path
) -> None:
    files = write_corpus("news", SOUND).model_copy(update={"target_sha256": "0" * 64})

    with pytest.raises(DataError, match=r"corpus news, target side.*expects 0000"):
        run_until(recipe(corpus={"train": [files]}), "download")
    assert [path.name for path in (tmp_path / "store" / "download").iterdir() if path.is_dir()] == []


def test_split_hands_on_what_the_recipe_names_unaltered(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil
) -> None:
    odd = [("  A  dog &amp; a cat\u2028", "\u00a0Ein Hund\x00"), ("", "Leer")]
    corpus = {
        "train": [write_corpus("news", SOUND)],
        "dev": [write_corpus("dev", odd), write_corpus("dev2", odd[:1])],
        "test": [write_corpus("zeta", odd), write_corpus("alpha", odd)],
    }
    made = run_until(recipe(corpus=corpus), "split")
    split = made["split"]

    splits = json.loads((split.path / "splits.json").read_text(encoding="utf-8"))
    assert splits == {"dev": "dev.parquet", "tests": {"zeta": "test-zeta.parquet", "alpha": "test-alpha.parquet"}}
    assert list(splits["tests"]) == ["zeta", "alpha"]
    assert read(split, "test-zeta.parquet").rows() == odd
    assert read(split, "dev.parquet").rows() == odd + odd[:1]
    assert (split.path / "train.parquet").samefile(made["clean"].path / "train.parquet")
    assert split.report()["tests"] == {"zeta": 2, "alpha": 2}


@pytest.mark.parametrize("named", [(), ("dev",), ("test",)])
def test_split_takes_out_what_the_recipe_does_not_name(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, named: tuple[str, ...]
) -> None:
    corpus: dict[str, Any] = {"train": [write_corpus("news", TRAIN)]}
    corpus |= {role: [write_corpus(role, {"dev": DEV, "test": TEST}[role])] for role in named}
    split = run_until(recipe(corpus=corpus, split={"dev_pairs": 3, "test_pairs": 4}), "split")["split"]

    report = split.report()
    assert report["dev"] == (2 if "dev" in named else 3)
    assert report["tests"] == ({"test": 2} if "test" in named else {"held-out": 4})
    parts = [
        read(split, file) for file in ("train.parquet", "dev.parquet", f"test-{next(iter(report['tests']))}.parquet")
    ]
    for side in ("source", "target"):
        sentences = [sentence for part in parts for sentence in set(part[side])]
        assert len(sentences) == len(set(sentences))
    assert report["items_in"] == len(TRAIN)
    assert report["items_out"] == parts[0].height


def test_too_little_text_to_take_some_out(write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil) -> None:
    with pytest.raises(StageError, match=r"36 clean pairs are too few.*split.test_pairs"):
        run_until(recipe(corpus={"train": [write_corpus("news", SOUND)]}), "split")


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


def test_the_same_input_gives_the_same_bytes_whatever_the_threads(
    dirty: PipelineConfig, run_until: RunUntil, tmp_path: Path
) -> None:
    made = run_until(dirty, "clean")
    script = (
        "import sys; from pathlib import Path; from nmt_core.artifacts import Artifact; "
        "from nmt_core.config import PipelineConfig; from nmt_core.corpus.build import clean; "
        "from nmt_core.stage import Job, Resources, SilentReporter; "
        "config = PipelineConfig.model_validate_json(sys.argv[1]); "
        "download = Artifact('download', '', Path(sys.argv[2])); "
        "clean(config, {'download': download}, Path(sys.argv[3]), Job(SilentReporter(), Resources()))"
    )
    arguments = [dirty.model_dump_json(), str(made["download"].path), str(tmp_path / "there")]
    (tmp_path / "there").mkdir()
    one_thread = {**os.environ, "POLARS_MAX_THREADS": "1"}
    subprocess.run([sys.executable, "-c", script, *arguments], check=True, env=one_thread)

    assert describe_outputs(tmp_path / "there").items() <= describe_outputs(made["clean"].path).items()
    assert len(describe_outputs(tmp_path / "there")) == 2


PIECES = ["dog", "Dog", "cat", "&amp;", "Ã", "©", "\ufffd", "\x85", "\u200b", " ", "  ", ".", "1", "Б", "ß", "\x00"]
texts = st.lists(st.sampled_from(PIECES) | st.characters(codec="utf-8"), max_size=8).map("".join)
rows = st.lists(st.tuples(texts, texts), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(rows, rows, rows, st.booleans())
def test_nothing_vanishes_and_a_second_pass_drops_nothing(
    news: list[Pair], web: list[Pair], test: list[Pair], exact: bool
) -> None:
    config = PipelineConfig.model_validate(
        {
            "name": "test",
            "languages": {"source": "en", "target": "de"},
            "corpus": {"toy": {}},
            "clean": {"deduplicate": "exact" if exact else "normalised", "min_letter_share": 0.2},
        }
    )
    held_out = {"test/test": table(test)}
    kept, dropped = clean_pairs(config, {"news": table(news), "web": table(web)}, held_out)

    places = kept.select("corpus", "line").rows() + dropped.select("corpus", "line").rows()
    assert sorted(places) == [("news", n + 1) for n in range(len(news))] + [("web", n + 1) for n in range(len(web))]
    assert dropped.null_count().sum_horizontal().item() == 0

    again, dropped_again = clean_pairs(config, {"all": kept.select("source", "target", "line")}, held_out)
    assert dropped_again.is_empty()
    assert again.select("source", "target").equals(kept.select("source", "target"))


def table(pairs: list[Pair]) -> pl.DataFrame:
    frame = pl.DataFrame(pairs, schema={"source": pl.String, "target": pl.String}, orient="row")
    return frame.with_row_index("line", offset=1)
