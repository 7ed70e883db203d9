"""The `encode` stage: every pair is in a shard or among the dropped ones."""

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nmt_core.artifacts import Artifact
from nmt_core.batches.encode import DEV_FILE, EncodeReport, run
from nmt_core.errors import StageError
from nmt_core.stage import Job
from nmt_core.tokenizer.tokenizer import EOS_ID, SPM_FILE, Tokenizer


@pytest.fixture
def encode(tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job) -> Any:
    """Encodes the tiny corpus into the test's folder."""

    def run_with(**knobs: int) -> EncodeReport:
        inputs = {name: tiny[name] for name in ("split", "tokenizer")}
        return run(make_config(encode=knobs), inputs, tmp_path, job)

    return run_with


def test_shards_hold_the_text(tiny: dict[str, Artifact]) -> None:
    tokenizer = Tokenizer(tiny["tokenizer"].path / SPM_FILE)
    for name in ("train", "dev"):
        text = pl.read_parquet(tiny["split"].path / f"{name}.parquet")
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


def test_the_report_counts_what_is_there(tiny: dict[str, Artifact]) -> None:
    report = tiny["encode"].report()
    table = pq.read_table(tiny["encode"].path / "train-00000.parquet")
    sizes = {side: [len(row) for row in table[side].to_pylist()] for side in ("source", "target")}
    assert report["items_out"] == len(table) == 930
    assert (report["source_tokens"], report["target_tokens"]) == (sum(sizes["source"]), sum(sizes["target"]))
    assert report["longest"] == max(max(side) for side in sizes.values())
    assert report["dev_pairs"] == 20


def test_pairs_that_are_too_long_are_dropped_and_listed(encode: Any, tiny: dict[str, Artifact], tmp_path: Path) -> None:
    report = encode(max_length=20)
    dropped = pl.read_parquet(tmp_path / "dropped.parquet")
    kept = pq.read_table(tmp_path / "train-00000.parquet")
    assert report.dropped == {"too many tokens": len(dropped)}
    assert 0 < len(dropped) < 930
    assert report.items_out == len(kept) == 930 - len(dropped)
    assert report.longest == 20
    assert all(len(row) <= 20 for side in ("source", "target") for row in kept[side].to_pylist())

    text = pl.read_parquet(tiny["split"].path / "train.parquet")
    tokenizer = Tokenizer(tiny["tokenizer"].path / SPM_FILE)
    for line, reason, value in dropped.select("line", "reason", "value").iter_rows():
        (pair,) = text.filter(pl.col("line") == line).select("source", "target").rows()
        assert value == max(len(ids) for ids in tokenizer.encode(pair)) + 1  # </s>
        assert value > 20
        assert reason == "too many tokens"


def test_when_nothing_is_left_the_knob_is_named(encode: Any) -> None:
    with pytest.raises(StageError, match=r"encode\.max_length=4: all 930 pairs are longer: set it higher"):
        encode(max_length=4)


def test_text_is_cut_into_shards(tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job) -> None:
    split = Artifact("split", "0" * 32, tmp_path / "split")
    split.path.mkdir()
    text = pl.read_parquet(tiny["split"].path / "train.parquet")
    pl.concat([text, text, text]).write_parquet(split.path / "train.parquet")
    text.head(5).write_parquet(split.path / DEV_FILE)
    inputs = {"split": split, "tokenizer": tiny["tokenizer"]}
    run(make_config(encode={"shard_pairs": 1_000}), inputs, tmp_path, job)
    shards = sorted(tmp_path.glob("train-*.parquet"))
    assert [len(pq.read_table(shard)) for shard in shards] == [1_000, 1_000, 790]
    whole = pq.read_table(tiny["encode"].path / "train-00000.parquet")
    assert pa.concat_tables([pq.read_table(shard) for shard in shards]).equals(pa.concat_tables([whole] * 3))
