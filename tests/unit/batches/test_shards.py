"""Token shards: written once, read by row group, and never trained on when damaged."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.batches import shards as shards_module
from nmt_core.batches.shards import ShardWriter, TokenShards, read_pairs
from nmt_core.errors import DataError
from nmt_core.store.artifacts import Artifact

UINT16 = pa.uint16()
sentences = st.lists(st.integers(0, 2**16 - 1), max_size=6)
Pairs = list[tuple[list[int], list[int]]]


def write(where: Path, pairs: Pairs, id_type: pa.DataType = UINT16) -> None:
    sides = [pa.array([pair[side] for pair in pairs], pa.list_(id_type)) for side in (0, 1)]
    with ShardWriter(where, [id_type, id_type], {"vocab_size": "9"}) as writer:
        writer.write(sides, pa.array(["news"] * len(pairs)), pa.array(range(1, len(pairs) + 1)))


def rows(found: shards_module.TokenPairs) -> Pairs:
    ids = [
        [side.ids[start : start + length].tolist() for start, length in zip(side.starts, side.lengths, strict=True)]
        for side in (found.source, found.target)
    ]
    return list(zip(*ids, strict=True))


@given(st.lists(st.tuples(sentences, sentences), max_size=9), st.sampled_from([pa.uint16(), pa.uint32()]))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, pairs: Pairs, id_type: pa.DataType) -> None:
    file = tmp_path_factory.mktemp("shard") / "shard.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards_module, "ROW_GROUP_PAIRS", 4)
        write(file, pairs, id_type)
    shards = TokenShards([file])
    assert [group.pairs for group in shards.groups] == [min(4, len(pairs) - n) for n in range(0, len(pairs), 4)]
    for number in range(len(shards.groups)):
        expected = pairs[4 * number : 4 * number + 4]
        assert rows(shards.read([number])) == expected
        sizes = [(len(source), len(target)) for source, target in expected]
        assert shards.lengths([number]).tolist() == list(map(list, sizes))
        assert shards.tokens_of_groups[number].tolist() == np.sum(sizes, axis=0).tolist()
        assert shards.origins([number], np.array([len(expected) - 1])) == [f"news:{4 * number + len(expected)}"]


def test_row_groups_of_several_shards_are_one_row(tmp_path: Path) -> None:
    parts: list[Pairs] = [[([4, 3], [5, 3]), ([7, 3], [3])], [], [([6, 7, 3], [8, 3])]]
    files = [tmp_path / f"{number}.parquet" for number in range(3)]
    for file, part in zip(files, parts, strict=True):
        write(file, part)
    shards = TokenShards(files)
    assert shards.pairs == 3
    assert rows(shards.read([1, 0])) == parts[2] + parts[0]
    assert rows(read_pairs(files)) == parts[0] + parts[2]
    assert shards.vocab_size == 9
    assert shards.source_vocab_size is None


@pytest.mark.parametrize("cut", [1_000, -3])
def test_a_shard_that_is_cut_short_is_named(
    tiny: dict[str, Artifact], copy_of: Callable[[Artifact], Artifact], cut: int
) -> None:
    shard = copy_of(tiny["encode"]).path / "train-00000.parquet"
    shard.write_bytes(shard.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"damaged token shard .* run with `--force encode`") as caught:
        TokenShards([shard])
    assert str(shard) in str(caught.value)


def test_any_flipped_bit_is_noticed_or_harmless(
    tiny: dict[str, Artifact], copy_of: Callable[[Artifact], Artifact]
) -> None:
    """The message names the row group, with both hashes if it can be read at all.

    Data that is read is data that was written.
    """
    shard = copy_of(tiny["encode"]).path / "train-00000.parquet"
    whole, expected = shard.read_bytes(), rows(read_pairs([shard]))
    messages = []
    for place in np.random.default_rng(1).integers(4, len(whole) - 4, 60).tolist():
        shard.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        try:
            assert rows(read_pairs([shard])) == expected
        except DataError as error:
            messages.append(str(error))
            assert str(shard) in messages[-1]
            assert "--force encode" in messages[-1]
    assert len(messages) > 30
    assert any("row group 0" in message for message in messages)


def test_other_ids_than_were_written_have_another_hash(
    tiny: dict[str, Artifact], copy_of: Callable[[Artifact], Artifact]
) -> None:
    """A complete and readable file in which one id differs."""
    shard = copy_of(tiny["encode"]).path / "train-00000.parquet"
    table, metadata = pq.read_table(shard), pq.read_metadata(shard).metadata
    source = table["source"].combine_chunks()
    ids = source.values.to_numpy().copy()
    ids[17] ^= 1
    changed = pa.ListArray.from_arrays(source.offsets, pa.array(ids))
    pq.write_table(table.set_column(0, "source", changed).replace_schema_metadata(metadata), shard)
    with pytest.raises(DataError, match=r"row group 0: .*its hash should be [0-9a-f]{32} and is [0-9a-f]{32}"):
        read_pairs([shard])


def test_shards_of_an_earlier_version_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"source": [[1]], "target": [[1]]}), tmp_path / "old.parquet")
    with pytest.raises(DataError, match=r"old\.parquet: not a token shard of this version: run with `--force encode`"):
        TokenShards([tmp_path / "old.parquet"])


def test_without_shards_there_is_a_remedy() -> None:
    with pytest.raises(DataError, match="run the stage `encode` again"):
        TokenShards([])
