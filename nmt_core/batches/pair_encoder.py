"""Encode pairs of text to pairs of ids, and write them to shards."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from nmt_core.batches.lexical_model import Pieces
from nmt_core.batches.shards import SAMPLE, ShardWriter
from nmt_core.batches.word_alignment import Aligner
from nmt_core.config import SIDES
from nmt_core.tokenizer.bulk import BulkEncoder, Sampling, can_sample
from nmt_core.tokenizer.tokenizer import EOS_ID, UNK_ID, Tokenizers, files_of


@dataclass(frozen=True)
class Written:
    """Counts of the pairs that `PairEncoder.write` encoded."""

    lengths_N2: np.ndarray
    """Number of source and target tokens of each pair, end marks included."""
    is_short_N: np.ndarray
    """True for each pair that was written."""
    unknown_2: np.ndarray
    """Number of <unk> on each side of the written pairs."""
    linked: int
    """Number of target tokens of the written pairs that are linked with a source token."""


class PairEncoder:
    """Encoder of text pairs to shards of ids.

    Args:
        tokenizers: tokenizers of both sides.
        aligner: aligner of the pairs. None writes no links.
    """

    def __init__(self, tokenizers: Tokenizers, aligner: Aligner | None = None) -> None:
        self.tokenizers = tokenizers
        self._aligner = aligner
        self._encoders = (BulkEncoder(tokenizers.source), BulkEncoder(tokenizers.target))
        self._metadata = {"vocab_size": str(tokenizers.target.vocab_size)}
        if tokenizers.source_vocab_size:
            self._metadata["source_vocab_size"] = str(tokenizers.source_vocab_size)

    @property
    def can_sample(self) -> bool:
        """True if both vocabularies allow more than one segmentation of a text."""
        return can_sample(self.tokenizers.source) and can_sample(self.tokenizers.target)

    def writer(self, where: Path | pa.BufferOutputStream, sample: int = 0) -> ShardWriter:
        """Return a writer of a shard for one of the segmentations."""
        metadata = self._metadata | {SAMPLE: str(sample)}
        types = [encoder.id_type for encoder in self._encoders]
        return ShardWriter(where, types, metadata, has_links=self._aligner is not None)

    def write(
        self, text: pl.DataFrame, max_length: int, writer: ShardWriter, sampling: Sampling | None = None
    ) -> Written:
        """Encode pairs, and write those that have at most `max_length` tokens on both sides."""
        sides = [
            self._encode(text[side], encoder, sampling and sampling.other(number))
            for number, (side, encoder) in enumerate(zip(SIDES, self._encoders, strict=True))
        ]
        lengths_N2 = np.stack([side.value_lengths().to_numpy() for side in sides], axis=1)
        is_short = lengths_N2.max(axis=1) <= max_length
        kept = pa.array(is_short)
        corpus, line = (text[name].to_arrow().filter(kept) for name in ("corpus", "line"))
        written = [side.filter(kept) for side in sides]
        links, linked = _links(written, self._aligner) if self._aligner else (None, 0)
        writer.write(written, corpus, line, links)
        unknown_2 = np.array([np.count_nonzero(side.values.to_numpy() == UNK_ID) for side in written])
        return Written(lengths_N2, is_short, unknown_2, linked)

    def _encode(self, text: pl.Series, encoder: BulkEncoder, sampling: Sampling | None) -> pa.ListArray:
        """Return the ids of each sentence, with </s> at the end."""
        rows = encoder.encode(text.to_arrow(), sampling)
        offsets = rows.offsets.to_numpy()
        ids = np.insert(rows.values.to_numpy(), offsets[1:], EOS_ID)
        offsets = offsets + np.arange(len(offsets), dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids))


def _links(sides: Sequence[pa.ListArray], aligner: Aligner) -> tuple[pa.ListArray, int]:
    """Return the source position that each target token is linked with, and the number of tokens with a link.

    Tokens without a link, and </s>, are linked with the </s> of the source.
    """
    source, target = (
        Pieces(side.values.to_numpy()[side.values.to_numpy() != EOS_ID], np.cumsum([0, *(_lengths(side) - 1)]))
        for side in sides
    )
    place_T = aligner.align(source, target)
    none_T = np.repeat(source.lengths, target.lengths)
    linked_T = np.where(place_T < 0, none_T, place_T)
    values = np.insert(linked_T, target.starts[1:], source.lengths)
    offsets = np.cumsum([0, *_lengths(sides[1])], dtype=np.int32)
    rows = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.astype(np.uint16)))
    return rows, int(np.count_nonzero(place_T >= 0))


def _lengths(side: pa.ListArray) -> np.ndarray:
    lengths: np.ndarray = side.value_lengths().to_numpy().astype(np.int64)
    return lengths


def encoder_of(tokenizers: str, aligner: str | None = None) -> PairEncoder:
    """Return the encoder for the tokenizers as they are now.

    A worker that lives long must not use old tokenizers after new ones have been made.

    Args:
        tokenizers: folder of the tokenizers.
        aligner: file of the aligner. None means that pairs are not aligned.
    """
    folder = Path(tokenizers)
    found = [(folder / name).stat() for name in files_of(folder)]
    if aligner is not None:
        found.append(Path(aligner).stat())
    return _encoder_of(folder, aligner, tuple((file.st_mtime_ns, file.st_size) for file in found))


@lru_cache(maxsize=1)
def _encoder_of(folder: Path, aligner: str | None, stamps: tuple[tuple[int, int], ...]) -> PairEncoder:
    """Return the encoder, cached: a worker encodes many shards with the same tokenizers."""
    return PairEncoder(Tokenizers.load(folder), Aligner.load(Path(aligner)) if aligner is not None else None)
