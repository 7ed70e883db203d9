"""The `encode` stage: every pair is in a shard or among the dropped ones."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nmt_core.batches.encode import TOO_LONG, EncodeReport, cut, run
from nmt_core.batches.plan import Plan
from nmt_core.batches.shards import DEV_FILE, ROW_GROUP_PAIRS, TRAIN_FILES, TokenShards
from nmt_core.errors import ConfigError, StageError
from nmt_core.execution.pool import InProcess, LocalWorkers
from nmt_core.stages.stage import Job, Resources
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.learn import run as learn
from nmt_core.tokenizer.sample import text_shards
from nmt_core.tokenizer.tokenizer import EOS_ID, SPM_FILE, UNK_ID, Tokenizer


@pytest.fixture
def encode(tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job) -> Any:
    """Encode the tiny corpus into the test's folder."""

    def run_with(**options: int) -> EncodeReport:
        inputs = {name: tiny[name] for name in ("split", "tokenizer")}
        return run(make_config(encode=options), inputs, tmp_path, job)

    return run_with


@pytest.fixture
def learn_into(tiny: dict[str, Artifact], make_config: Any, job: Job) -> Any:
    """Learn another tokenizer from the tiny corpus."""

    def learn_with(out: Path, **options: Any) -> Artifact:
        out.mkdir()
        learn(make_config(tokenizer=options), {"split": tiny["split"]}, out, job)
        return Artifact("tokenizer", "0" * 32, out)

    return learn_with


def test_shards_hold_the_text(tiny: dict[str, Artifact]) -> None:
    tokenizer = Tokenizer(tiny["tokenizer"].path / SPM_FILE)
    for name in ("train", "dev"):
        text = pl.read_parquet(tiny["split"].path / f"{name}*.parquet")
        (file,) = tiny["encode"].path.glob(f"{name}*.parquet")
        encoded = pq.read_table(file)
        for side in ("source", "target"):
            rows = encoded[side].to_pylist()
            assert all(row[-1] == EOS_ID and row.count(EOS_ID) == 1 for row in rows)
            assert tokenizer.decode(rows) == text[side].to_list()


def test_ids_take_two_bytes(tiny: dict[str, Artifact]) -> None:
    schema = pq.read_schema(tiny["encode"].path / "train-00000.parquet")
    assert schema.field("source").type == schema.field("target").type == pa.list_(pa.uint16())
    assert schema.metadata[b"vocab_size"] == b"600"


def test_each_pair_knows_where_it_came_from(tiny: dict[str, Artifact]) -> None:
    text = pl.read_parquet(tiny["split"].path / "train-*.parquet")
    encoded = pl.read_parquet(tiny["encode"].path / "train-*.parquet")
    assert encoded["corpus"].cast(pl.String).to_list() == text["corpus"].to_list()
    assert encoded["line"].to_list() == text["line"].to_list()
    shards = TokenShards([tiny["encode"].path / "train-00000.parquet"])
    assert shards.origins([0], np.array([17])) == [f"{text['corpus'][17]}:{text['line'][17]}"]
    assert len(shards.groups) == -(-len(text) // ROW_GROUP_PAIRS)


def test_the_report_counts_what_is_there(tiny: dict[str, Artifact]) -> None:
    report = tiny["encode"].report()
    table = pq.read_table(tiny["encode"].path / "train-00000.parquet")
    sizes = {side: [len(row) for row in table[side].to_pylist()] for side in ("source", "target")}
    assert report["items_out"] == len(table) == 930
    assert (report["source_tokens"], report["target_tokens"]) == (sum(sizes["source"]), sum(sizes["target"]))
    assert report["longest"] == max(max(side) for side in sizes.values())
    assert report["dev_pairs"] == 20
    assert report["source_tokens_per_sentence"] == pytest.approx(sum(sizes["source"]) / 930 - 1, abs=1e-3)
    assert (report["source_unknown"], report["target_unknown"]) == (0, 0)


def test_unknown_tokens_are_counted(tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job) -> None:
    split = Artifact("split", "0" * 32, tmp_path / "split")
    split.path.mkdir()
    text = pl.read_parquet(tiny["split"].path / "train-*.parquet").head(4)
    text.with_columns(target=pl.Series(["漢", "漢 漢字", "나는", ""])).write_parquet(split.path / "train-00000.parquet")
    text.head(2).write_parquet(split.path / DEV_FILE)
    report = run(make_config(), {"split": split, "tokenizer": tiny["tokenizer"]}, tmp_path, job)
    tokens = pq.read_table(tmp_path / "train-00000.parquet")["target"].to_pylist()
    unknown = sum(row.count(UNK_ID) for row in tokens)
    assert unknown == 3
    assert report.target_unknown == pytest.approx(unknown / (sum(map(len, tokens)) - 4), abs=1e-6)
    assert report.source_unknown == 0


def test_each_epoch_reads_another_segmentation(encode: Any, tiny: dict[str, Artifact], tmp_path: Path) -> None:
    report = encode(subword_sampling=0.3, samples=3)
    shards = TokenShards(sorted(tmp_path.glob(TRAIN_FILES)))
    tokenizer = Tokenizer(tiny["tokenizer"].path / SPM_FILE)
    text = pl.read_parquet(tiny["split"].path / "train-*.parquet")["target"].to_list()
    assert report.items_in == 3 * 930 == report.items_out + report.dropped[TOO_LONG]
    assert (tmp_path / DEV_FILE).read_bytes() == (tiny["encode"].path / DEV_FILE).read_bytes(), "dev is never sampled"
    plan = Plan(shards, "padded", micro_batch_tokens=256, max_tokens=512, seed=1)
    read = [
        sorted({group for update in plan.updates(epoch) for s in update for group in s.block.groups})
        for epoch in range(4)
    ]
    assert read == [[0], [1], [2], [0]]
    rows = [pq.read_table(file)["target"].to_pylist() for file in sorted(tmp_path.glob(TRAIN_FILES))]
    assert sum(one != other for one, other in zip(rows[0], rows[1], strict=False)) > 500
    assert len(set(tokenizer.decode(rows[0])) - set(text)) == 0
    whole = list(plan.updates(2))
    assert all((one[0].rows == other[0].rows).all() for one, other in zip(whole[3:], plan.updates(2, 3), strict=True))


def test_a_vocabulary_that_cuts_in_one_way_cannot_be_sampled(
    tiny: dict[str, Artifact], make_config: Any, learn_into: Any, tmp_path: Path, job: Job
) -> None:
    tokenizer = learn_into(tmp_path / "tokenizer", kind="char")
    with pytest.raises(
        ConfigError, match=r"encode\.subword_sampling=0\.1: the vocabulary allows only one segmentation"
    ):
        run(
            make_config(encode={"subword_sampling": 0.1}),
            {"split": tiny["split"], "tokenizer": tokenizer},
            tmp_path,
            job,
        )


def test_pairs_that_are_too_long_are_dropped_and_listed(encode: Any, tiny: dict[str, Artifact], tmp_path: Path) -> None:
    report = encode(max_length=20)
    dropped = pl.read_parquet(tmp_path / "dropped-00000.parquet")
    kept = pq.read_table(tmp_path / "train-00000.parquet")
    assert report.dropped == {TOO_LONG: len(dropped)}
    assert 0 < len(dropped) < 930
    assert report.items_out == len(kept) == 930 - len(dropped)
    assert report.longest == 20
    assert all(len(row) <= 20 for side in ("source", "target") for row in kept[side].to_pylist())

    text = pl.read_parquet(tiny["split"].path / "train-*.parquet")
    assert dropped.join(text, on=["corpus", "line", "source", "target"], how="semi").equals(dropped)
    tokenizer = Tokenizer(tiny["tokenizer"].path / SPM_FILE)
    for source, target, reason, value in dropped.select("source", "target", "reason", "value").iter_rows():
        assert int(value) == max(len(ids) for ids in tokenizer.encode([source, target])) + 1  # </s>
        assert int(value) > 20
        assert reason == TOO_LONG


def test_when_nothing_is_left_the_option_is_named(encode: Any) -> None:
    with pytest.raises(StageError, match=r"encode\.max_length=4: all 930 pairs are longer: set it higher"):
        encode(max_length=4)


@pytest.fixture(scope="module")
def uneven(tiny: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Artifact with three times the tiny text, in shards of unusual sizes. One shard is empty."""
    split = Artifact("split", "0" * 32, tmp_path_factory.mktemp("uneven") / "split")
    split.path.mkdir()
    text = pl.read_parquet(tiny["split"].path / "train-*.parquet")
    text.head(5).write_parquet(split.path / DEV_FILE)
    whole = pl.concat([text, text, text])
    for number, (start, rows) in enumerate([(0, 700), (700, 0), (700, 1_300), (2_000, 790)]):
        whole.slice(start, rows).write_parquet(split.path / f"train-{number:05d}.parquet", row_group_size=300)
    return split


def test_text_is_cut_into_shards(
    tiny: dict[str, Artifact], uneven: Artifact, make_config: Any, tmp_path: Path, job: Job
) -> None:
    inputs = {"split": uneven, "tokenizer": tiny["tokenizer"]}
    report = run(make_config(encode={"shard_pairs": 1_000}), inputs, tmp_path, job)
    shards = [pq.read_table(file) for file in sorted(tmp_path.glob(TRAIN_FILES))]
    assert report.shards == 3
    assert [len(shard) for shard in shards] == [1_000, 1_000, 790]
    whole = pq.read_table(tiny["encode"].path / "train-00000.parquet")
    assert pa.concat_tables(shards).equals(pa.concat_tables([whole] * 3))


@pytest.mark.parametrize("options", [{}, {"subword_sampling": 0.1, "samples": 2}], ids=["best", "sampled"])
def test_any_number_of_workers_write_the_same_bytes(
    tiny: dict[str, Artifact],
    uneven: Artifact,
    make_config: Any,
    tmp_path: Path,
    reporter: Any,
    three_workers: LocalWorkers,
    options: dict[str, Any],
) -> None:
    inputs = {"split": uneven, "tokenizer": tiny["tokenizer"]}
    written = []
    for workers in (InProcess(), three_workers):
        out = tmp_path / f"{workers.count}"
        out.mkdir()
        job = Job(reporter, Resources(), workers)
        report = run(make_config(encode={"shard_pairs": 1_000, "max_length": 25} | options), inputs, out, job)
        assert sum(report.dropped.values()) > 0
        written.append({file.name: file.read_bytes() for file in out.iterdir()} | {"report": report})
    assert len(written[0]) == (3 + 3) * options.get("samples", 1) + 1 + 1
    assert written[0] == written[1]


def test_runs_of_rows_cover_all_shards_in_order(uneven: Artifact) -> None:
    shards = text_shards(uneven.path)
    for pairs in (299, 700, 701, 1_300, 2_000, 5_000):
        rows = []
        for files, first, count in cut(shards, pairs):
            text = pl.concat([pl.read_parquet(file, columns=["line"]) for file in files])
            rows.append(text.slice(first, count))
            assert len(rows[-1]) == count
            assert first < len(pl.read_parquet(files[0]))
        assert pl.concat(rows).equals(pl.read_parquet(list(shards), columns=["line"]))


def test_each_side_has_its_own_vocabulary_if_they_are_separate(
    tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job
) -> None:
    for side in ("source", "target"):
        shutil.copyfile(tiny["tokenizer"].path / SPM_FILE, tmp_path / f"spm.{side}.model")
    inputs = {"split": tiny["split"], "tokenizer": Artifact("tokenizer", "0" * 32, tmp_path)}
    report = run(make_config(), inputs, tmp_path, job)
    assert (report.source_vocab_size, report.vocab_size) == (600, 600)
    shards = TokenShards([tmp_path / "train-00000.parquet"])
    assert (shards.source_vocab_size, shards.vocab_size) == (600, 600)
    assert TokenShards([tiny["encode"].path / "train-00000.parquet"]).source_vocab_size is None
