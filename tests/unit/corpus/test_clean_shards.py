"""The stage `clean` in shards: workers, cuts and the place of the files do not change the result."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from nmt_core.config import PipelineConfig
from nmt_core.corpus import shard
from nmt_core.corpus.clean import DROPPED_FILES, TRAIN_FILES
from nmt_core.corpus.funnel import CleanReport
from nmt_core.execution.pool import InProcess, LocalWorkers, Workers
from nmt_core.stages.stage import Resources
from nmt_core.store.artifacts import Artifact, describe_outputs

Pair = tuple[str, str]
Recipe = Callable[..., PipelineConfig]
DownloadOf = Callable[..., Artifact]
CleanInto = Callable[..., CleanReport]


def sentences(count: int) -> Iterator[Pair]:
    """Pairs in which every fifth is a copy of an earlier one, and every seventh has a fault."""
    for number in range(count):
        one, two = divmod(number - number % 5 if number % 5 == 4 else number, 600)
        sound = (f"Number {one} and number {two} are here.", f"Nummer {one} und Nummer {two} sind hier.")
        yield (sound[0], "") if number % 7 == 3 else sound


@dataclass
class Removing:
    """Workers that begin when a file has been removed."""

    workers: Workers
    file: Path

    @property
    def count(self) -> int:
        return self.workers.count

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        self.file.unlink(missing_ok=True)
        return self.workers.map(function, tasks)


def test_the_same_bytes_whatever_the_number_of_workers(
    tmp_path: Path, recipe: Recipe, download_of: DownloadOf, clean_into: CleanInto, three_workers: LocalWorkers
) -> None:
    config = recipe(corpus={"toy": {}}, clean={"shard_pairs": 1_000, "max_per_target": 1})
    corpora = {("train", "news"): list(sentences(3_500)), ("train", "web"): list(sentences(2_200))}
    download = download_of(tmp_path / "download", corpora | {("test", "main"): list(sentences(3))})
    both: dict[str, Workers] = {"one": InProcess(), "three": three_workers}
    made = {name: clean_into(tmp_path / name, config, download, workers) for name, workers in both.items()}

    outputs = describe_outputs(tmp_path / "one")
    assert len(outputs) == 2 * (4 + 3)
    assert describe_outputs(tmp_path / "three") == outputs
    assert made["one"] == made["three"]
    assert made["one"].dropped.keys() == {"empty", "duplicate", "held_out"}


def test_where_the_shards_are_cut_decides_nothing(
    tmp_path: Path, recipe: Recipe, download_of: DownloadOf, clean_into: CleanInto
) -> None:
    download = download_of(tmp_path / "download", {("train", "news"): list(sentences(2_500))})
    found = []
    for size in (1_000, 2_500):
        config = recipe(corpus={"toy": {}}, clean={"shard_pairs": size})
        clean_into(tmp_path / str(size), config, download)
        files = [sorted((tmp_path / str(size)).glob(names)) for names in (TRAIN_FILES, DROPPED_FILES)]
        found.append([pl.read_parquet(some) for some in files])

    assert found[0][0].equals(found[1][0])
    assert found[0][1].equals(found[1][1])


def test_files_between_the_steps_may_lie_in_any_store(
    tmp_path: Path, recipe: Recipe, download_of: DownloadOf, clean_into: CleanInto
) -> None:
    download = download_of(tmp_path / "download", {("train", "news"): list(sentences(2_500))})
    config = recipe(corpus={"toy": {}}, clean={"shard_pairs": 1_000})
    clean_into(tmp_path / "beside", config, download)
    clean_into(tmp_path / "away", config, download, resources=Resources(scratch="memory://scratch"))

    assert describe_outputs(tmp_path / "away") == describe_outputs(tmp_path / "beside")


def test_a_worker_that_lives_on_does_not_mistake_old_held_out_text_for_new(
    tmp_path: Path, recipe: Recipe, download_of: DownloadOf, clean_into: CleanInto
) -> None:
    """Clean the same folder twice, as after `--force download` of a file that has changed under its address."""
    text = list(sentences(20))
    download = download_of(tmp_path / "download", {("train", "news"): text, ("test", "main"): text[:1]})
    before = clean_into(tmp_path / "out", recipe(corpus={"toy": {}}), download)
    (tmp_path / "out").rename(tmp_path / "old")
    download = download_of(tmp_path / "download", {("train", "news"): text, ("test", "main"): text[1:2]})

    after = clean_into(tmp_path / "out", recipe(corpus={"toy": {}}), download)

    assert before.held_out == {"test/main": 2}  # a sentence and its copy
    assert after.held_out == {"test/main": 1}


def test_a_word_list_is_read_once_where_the_recipe_is(
    tmp_path: Path,
    recipe: Recipe,
    download_of: DownloadOf,
    clean_into: CleanInto,
    three_workers: LocalWorkers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its path means nothing to workers elsewhere, and an edit during cleaning changes nothing."""
    pairs = [
        (f"The {word} number {n} is here.", f"Nummer {n} ist hier.") for n in range(1_300) for word in ("ham", "egg")
    ]
    download = download_of(tmp_path / "download", {("train", "news"): pairs})
    here = tmp_path / "here"
    here.mkdir()
    (here / "words.txt").write_text("ham\n", encoding="utf-8")
    clean = {"shard_pairs": 1_000, "source_word_list": "words.txt", "min_language_probability": 0}
    monkeypatch.chdir(here)
    assert str(here) not in three_workers.map(os.path.abspath, [".", "."])  # they stay where they are
    config = recipe(corpus={"toy": {}}, clean=clean)
    report = clean_into(tmp_path / "out", config, download, Removing(three_workers, here / "words.txt"))

    assert not (here / "words.txt").exists()
    assert report.dropped == {"source_word_list": 1_300}
    assert report.items_out == 1_300


def test_rows_are_grouped_as_a_reader_unpacks_them(
    tmp_path: Path, recipe: Recipe, download_of: DownloadOf, clean_into: CleanInto
) -> None:
    pairs = [(f"Number {n} is here.", f"Nummer {n} ist hier.") for n in range(120_000)]
    download = download_of(tmp_path / "download", {("train", "news"): pairs + [(source, "") for source, _ in pairs]})
    clean_into(tmp_path / "out", recipe(corpus={"toy": {}}, clean={"min_language_probability": 0}), download)

    assert shard.ROW_GROUP_PAIRS == 50_000
    for name in ("train", "dropped"):
        file = pq.ParquetFile(tmp_path / "out" / f"{name}-00000.parquet")
        groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        assert sum(groups) == 120_000
        assert len(groups) == 3 and max(groups) <= 50_000
