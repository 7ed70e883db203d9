"""The loader gives every process its part of the planned updates, in order, from any update on."""

import threading
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from support.until import patient, until

from nmt_core.batches import shards as shards_module
from nmt_core.batches.loader import Loader, Share, Update
from nmt_core.batches.plan import Batching, Plan
from nmt_core.batches.shards import ShardWriter, TokenShards
from nmt_core.errors import DataError
from nmt_core.tokenizer.tokenizer import EOS_ID


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> TokenShards:
    """2,000 pairs in row groups of 50. The first id of each source is the number of the pair."""
    draw, file = np.random.default_rng(1), tmp_path_factory.mktemp("shards") / "train-00000.parquet"
    sides: list[list[list[int]]] = [[], []]
    for number in range(2_000):
        for side in sides:
            side.append([100 + number, *draw.integers(4, 99, draw.integers(0, 30)).tolist(), EOS_ID])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards_module, "ROW_GROUP_PAIRS", 50)
        with ShardWriter(file, [pa.uint16()] * 2, {"vocab_size": "3000"}) as writer:
            ids = [pa.array(side, pa.list_(pa.uint16())) for side in sides]
            writer.write(ids, pa.array(["toy"] * 2_000), pa.array(range(2_000)))
    return TokenShards([file])


def load(
    shards: TokenShards, batching: Batching, share: Share, updates: int, start: tuple[int, int] = (0, 0)
) -> list[Update]:
    plan = Plan(shards, batching, micro_batch_tokens=128, max_tokens=1_024, seed=1)
    with Loader(shards, plan, batching, share, start) as loader:
        return list(islice(loader, updates))


def numbers(update: Update) -> list[int]:
    """The pairs whose tokens count."""
    found: list[int] = []
    for each in update.passes:
        if each.target_tokens:
            ids = each.batch.source.flatten()
            found += (ids[ids >= 100] - 100).tolist()
    return sorted(found)


@pytest.mark.parametrize("batching", ["padded", "packed"])
@pytest.mark.parametrize("world_size", [2, 3, 8, 11])
def test_processes_share_each_update(shards: TokenShards, batching: Batching, world_size: int) -> None:
    (whole, *others) = (
        load(shards, batching, Share(rank, size, 256), 20)
        for size, ranks in ((1, [0]), (world_size, range(world_size)))
        for rank in ranks
    )
    for number, update in enumerate(whole):
        parts = [other[number] for other in others]
        assert sorted(pair for part in parts for pair in numbers(part)) == numbers(update)
        assert {len(part.passes) for part in parts} == {len(parts[0].passes)}, "they exchange gradients in step"
        assert {part.target_tokens for part in parts} == {update.target_tokens}
        counted = sum(each.target_tokens for part in parts for each in part.passes)
        assert counted == update.target_tokens == sum(each.target_tokens for each in update.passes)


@pytest.mark.parametrize("batching", ["padded", "packed"])
def test_an_epoch_holds_every_pair_once_and_another_follows(shards: TokenShards, batching: Batching) -> None:
    updates = load(shards, batching, Share(max_tokens_per_pass=512), 150)
    counts = Counter(pair for update in updates if update.epoch == 0 for pair in numbers(update))
    assert counts == Counter(range(2_000))
    assert [update.epoch for update in updates] == sorted(update.epoch for update in updates)
    assert updates[-1].epoch >= 1
    first_of_epoch = {update.epoch: update.number for update in reversed(updates)}
    assert set(first_of_epoch.values()) == {0}


@pytest.mark.parametrize("batching", ["padded", "packed"])
def test_it_resumes_from_anywhere(shards: TokenShards, batching: Batching) -> None:
    whole = load(shards, batching, Share(0, 2, 256), 120)
    last_of_first_epoch = max(update.number for update in whole if update.epoch == 0)
    for start in ((0, 0), (0, 7), (0, last_of_first_epoch), (0, last_of_first_epoch + 1), (1, 3)):
        expected = [update for update in whole if (update.epoch, update.number) >= start][:5]
        found = load(shards, batching, Share(0, 2, 256), 5, start)
        assert [(update.epoch, update.number) for update in found] == [(each.epoch, each.number) for each in expected]
        for one, other in zip(found, expected, strict=True):
            for mine, theirs in zip(one.passes, other.passes, strict=True):
                assert torch.equal(mine.batch.source, theirs.batch.source)
                assert torch.equal(mine.batch.decoder_input, theirs.batch.decoder_input)


def test_packed_slices_are_joined_as_far_as_a_pass_goes(shards: TokenShards) -> None:
    (one,) = load(shards, "packed", Share(max_tokens_per_pass=128), 1)
    (some,) = load(shards, "packed", Share(max_tokens_per_pass=400), 1)
    (all_,) = load(shards, "packed", Share(max_tokens_per_pass=10_000), 1)
    assert [len(update.passes) for update in (one, some, all_)] == [8, 3, 1]
    assert [len(each.batch.target) for each in some.passes] == [384, 384, 256]
    assert numbers(one) == numbers(some) == numbers(all_)


def test_a_damaged_row_group_ends_it_where_it_is_wanted(shards: TokenShards, tmp_path: Path) -> None:
    file = tmp_path / "train-00000.parquet"
    whole = shards.groups[0].file.read_bytes()
    middle = len(whole) // 2
    file.write_bytes(whole[:middle] + bytes(byte ^ 255 for byte in whole[middle : middle + 64]) + whole[middle + 64 :])
    with pytest.raises(DataError, match=r"train-00000\.parquet, row group \d+: damaged token shard"):
        load(TokenShards([file]), "padded", Share(), 100)


def test_it_counts_how_long_it_kept_training_waiting(shards: TokenShards, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock is used on which reading a block takes a second. Only reads for which training waits count."""
    read, now, may_read, takes_time = TokenShards.read, [0.0], threading.Event(), [1.0]

    def slow(self: TokenShards, *arguments: Any) -> Any:
        assert may_read.wait(patient(60))
        now[0] += takes_time[0]
        return read(self, *arguments)

    def clock() -> float:
        value = now[0]
        may_read.set()
        return value

    monkeypatch.setattr(TokenShards, "read", slow)
    plan = Plan(shards, "padded", micro_batch_tokens=128, max_tokens=1_024, seed=1)
    with Loader(shards, plan, "padded", Share(), clock=clock) as loader:
        updates = iter(loader)
        next(updates)
        assert loader.seconds_waited >= 1, "for the first it has to wait"
        until(loader._ready.full)
        takes_time[0] = 0
        now[0] += 1_000  # training computes
        waited = loader.seconds_waited
        list(islice(updates, 5))
        assert loader.seconds_waited == waited, "the others were made in the meantime"
