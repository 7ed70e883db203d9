"""Token shards in memory, and padded tensors of some of their rows."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.artifacts import Artifact
from nmt_core.batches.collate import collate
from nmt_core.batches.shards import Side, TokenPairs, read_shards
from nmt_core.errors import DataError
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID

sentences = st.lists(st.integers(4, 99), max_size=6).map(lambda ids: [*ids, EOS_ID])
pairs_of_sentences = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8)


def side(rows: list[list[int]]) -> Side:
    lengths = np.array([len(row) for row in rows])
    return Side(np.array([i for row in rows for i in row], dtype=np.uint16), np.cumsum(lengths) - lengths, lengths)


@given(pairs_of_sentences, st.data())
def test_rows_are_padded_behind_and_the_decoder_reads_the_target_shifted(
    rows: list[tuple[list[int], list[int]]], data: st.DataObject
) -> None:
    pairs = TokenPairs(side([source for source, _ in rows]), side([target for _, target in rows]), 100)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=8))
    batch = collate(pairs, np.array(chosen))
    width = max(len(rows[row][0]) for row in chosen)
    height = max(len(rows[row][1]) for row in chosen)
    for place, row in enumerate(chosen):
        source, target = rows[row]
        assert batch.source_BS[place].tolist() == source + [PAD_ID] * (width - len(source))
        assert batch.target_BT[place].tolist() == target + [PAD_ID] * (height - len(target))
        shifted = [BOS_ID, *target[:-1]]
        assert batch.decoder_input_BT[place].tolist() == shifted + [PAD_ID] * (height - len(target))
    assert batch.source_BS.dtype == batch.decoder_input_BT.dtype == batch.target_BT.dtype == torch.int64


def test_shards_are_read_in_the_order_given(tmp_path: Path) -> None:
    schema = pa.schema([("source", pa.list_(pa.uint16())), ("target", pa.list_(pa.uint16()))], {"vocab_size": "9"})
    parts = [[[4, 3], [5, 3]], [], [[6, 7, 3]]]
    files = [tmp_path / f"{number}.parquet" for number in range(len(parts))]
    for file, rows in zip(files, parts, strict=True):
        pq.write_table(pa.table({"source": rows, "target": rows}, schema=schema), file)
    pairs = read_shards(files)
    assert len(pairs) == 3
    assert pairs.vocab_size == 9
    assert collate(pairs, np.array([2, 0])).source_BS.tolist() == [[6, 7, 3], [4, 3, 0]]
    assert len(read_shards(files[1:2])) == 0


def test_a_damaged_shard_is_named_with_the_remedy(
    tiny: dict[str, Artifact], copy_of: Callable[[Artifact], Artifact]
) -> None:
    shard = copy_of(tiny["encode"]).path / "train-00000.parquet"
    shard.write_bytes(shard.read_bytes()[:1_000])
    with pytest.raises(DataError, match=r"damaged token shard .* run with `--force encode`") as caught:
        read_shards([shard])
    assert str(shard.parent) in str(caught.value)


def test_without_shards_there_is_a_remedy() -> None:
    with pytest.raises(DataError, match="run the stage `encode` again"):
        read_shards([])
