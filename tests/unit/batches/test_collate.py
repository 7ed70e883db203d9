"""Pairs of token ids as tensors: padded, and packed."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.batches.collate import pack, pad
from nmt_core.batches.layout import Packed, Padded
from nmt_core.batches.plan import Capacity
from nmt_core.batches.shards import SideTokens, TokenPairs
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID

sentences = st.lists(st.integers(4, 99), max_size=6).map(lambda ids: [*ids, EOS_ID])
Rows = list[tuple[list[int], list[int]]]
some_pairs: st.SearchStrategy[Rows] = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8)


def side(rows: list[list[int]]) -> SideTokens:
    lengths = np.array([len(row) for row in rows])
    return SideTokens(
        np.array([i for row in rows for i in row], dtype=np.uint16), np.cumsum(lengths) - lengths, lengths
    )


def pairs_of(rows: Rows) -> TokenPairs:
    return TokenPairs(side([source for source, _ in rows]), side([target for _, target in rows]))


@given(some_pairs, st.data())
def test_rows_are_padded_behind_and_the_decoder_reads_the_target_shifted(rows: Rows, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=8))
    batch = pad(pairs_of(rows), np.array(chosen))
    width = max(len(rows[row][0]) for row in chosen)
    height = max(len(rows[row][1]) for row in chosen)
    for place, row in enumerate(chosen):
        source, target = rows[row]
        assert batch.source[place].tolist() == source + [PAD_ID] * (width - len(source))
        assert batch.target[place].tolist() == target + [PAD_ID] * (height - len(target))
        shifted = [BOS_ID, *target[:-1]]
        assert batch.decoder_input[place].tolist() == shifted + [PAD_ID] * (height - len(target))
    assert batch.source.dtype == batch.decoder_input.dtype == batch.target.dtype == torch.int64
    assert batch.computed_tokens == len(chosen) * (width + height)
    assert isinstance(batch.source_layout, Padded)
    assert torch.equal(batch.source_layout.is_token_BL, batch.source != PAD_ID)


@given(some_pairs, some_pairs, st.integers(0, 600), st.integers(0, 600))
def test_streams_hold_the_sentences_end_to_end(one: Rows, other: Rows, room_before: int, room_behind: int) -> None:
    rows = one + other
    needed = [sum(len(pair[number]) for pair in rows) for number in (0, 1)]
    capacity = Capacity(needed[0] + room_before, needed[1] + room_behind)
    batch = pack([(pairs_of(part), np.arange(len(part))) for part in (one, other)], capacity)
    assert batch.source.shape == (capacity.source,)
    assert batch.target.shape == batch.decoder_input.shape == (capacity.target,)
    layouts = (batch.source_layout, batch.target_layout)
    assert isinstance(layouts[0], Packed)
    assert isinstance(layouts[1], Packed)
    assert layouts[0].starts.shape == layouts[1].starts.shape == (1 + max(capacity.source, capacity.target),)
    assert layouts[0].sentences == layouts[1].sentences
    for ids, layout, number in ((batch.source, layouts[0], 0), (batch.target, layouts[1], 1)):
        found = [ids[start:end].tolist() for start, end in zip(layout.starts, layout.starts[1:], strict=False)]
        assert found[: len(rows)] == [pair[number] for pair in rows]
        assert all(set(padding) <= {PAD_ID} and len(padding) <= 256 for padding in found[len(rows) :])
        assert layout.starts[-1] == len(ids)
        assert layout.starts.dtype == torch.int32
        assert layout.longest == max(map(len, found))
        for sentence, ids_of_one in enumerate(found):
            places = torch.nonzero(layout.sentence_N == sentence).flatten()
            assert layout.position_N[places].tolist() == list(range(len(ids_of_one)))
    starts = layouts[1].starts
    for number, (_, target) in enumerate(rows):
        assert batch.decoder_input[starts[number] : starts[number + 1]].tolist() == [BOS_ID, *target[:-1]]
