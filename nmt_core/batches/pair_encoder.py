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
from nmt_core.config import SIDES, TOKEN_COLUMNS, Side
from nmt_core.tokenizer.bulk import BulkEncoder, Sampling, can_sample
from nmt_core.tokenizer.tokenizer import EOS_ID, UNK_ID, Tokenizer, Tokenizers, files_of


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
        """Encode pairs, and write those that have at most `max_length` tokens on both sides.

        Args:
            text: columns source, target, corpus and line. With many pairs of languages, also `source_token` or
                `target_token`, the piece with which that side begins.
            max_length: maximum number of tokens on each side, including the end mark and a language token.
            writer: writer of the shard.
            sampling: parameters of sampled segmentations. None means the likeliest ones.
        """
        first = {side: text[name] for side, name in TOKEN_COLUMNS.items() if name in text.columns}
        sides = [
            self._encode(text[side], encoder, sampling and sampling.other(number))
            for number, (side, encoder) in enumerate(zip(SIDES, self._encoders, strict=True))
        ]
        for number, side in enumerate(SIDES):
            if side in first:
                sides[number] = _beginning_with(sides[number], self._ids_of(first[side], side))
        lengths_N2 = np.stack([side.value_lengths().to_numpy() for side in sides], axis=1)
        is_short = lengths_N2.max(axis=1) <= max_length
        kept = pa.array(is_short)
        corpus, line = (text[name].to_arrow().filter(kept) for name in ("corpus", "line"))
        written = [side.filter(kept) for side in sides]
        begins = (int("source" in first), int("target" in first))
        links, linked = _links(written, self._aligner, begins) if self._aligner else (None, 0)
        writer.write(written, corpus, line, links)
        unknown_2 = np.array([np.count_nonzero(side.values.to_numpy() == UNK_ID) for side in written])
        return Written(lengths_N2, is_short, unknown_2, linked)

    def _ids_of(self, pieces: pl.Series, side: Side) -> np.ndarray:
        """Return the id of the language token of each sentence, [N]."""
        tokenizer: Tokenizer = getattr(self.tokenizers, side)
        ids = {piece: tokenizer.id_of(piece) for piece in pieces.unique().to_list()}
        return pieces.replace_strict(ids, return_dtype=pl.Int64).to_numpy()

    def _encode(self, text: pl.Series, encoder: BulkEncoder, sampling: Sampling | None) -> pa.ListArray:
        """Return the ids of each sentence, with </s> at the end."""
        rows = encoder.encode(text.to_arrow(), sampling)
        offsets = rows.offsets.to_numpy()
        ids = np.insert(rows.values.to_numpy(), offsets[1:], EOS_ID)
        offsets = offsets + np.arange(len(offsets), dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids))


def _beginning_with(rows: pa.ListArray, first_N: np.ndarray) -> pa.ListArray:
    """Return the ids of each sentence, with one more id at its beginning."""
    offsets = rows.offsets.to_numpy()
    ids = np.insert(rows.values.to_numpy(), offsets[:-1], first_N.astype(rows.values.to_numpy().dtype))
    return pa.ListArray.from_arrays(pa.array(offsets + np.arange(len(offsets), dtype=np.int32)), pa.array(ids))


def _links(sides: Sequence[pa.ListArray], aligner: Aligner, begins: tuple[int, int]) -> tuple[pa.ListArray, int]:
    """Return the source position that each target token is linked with, and the number of tokens with a link.

    Tokens without a link, language tokens, and </s> are linked with the </s> of the source.

    Args:
        sides: ids of both sides, with </s>.
        aligner: aligner of text, which knows neither </s> nor language tokens.
        begins: number of language tokens with which each side begins, 0 or 1.
    """
    source, target = (_text_of(side, count) for side, count in zip(sides, begins, strict=True))
    place_T = aligner.align(source, target)
    end_N = source.lengths + begins[0]
    linked_T = np.where(place_T < 0, np.repeat(end_N, target.lengths), place_T + begins[0])
    values = np.insert(linked_T, target.starts[1:], end_N)
    if begins[1]:
        values = np.insert(values, (target.starts + np.arange(len(target.starts)))[:-1], end_N)
    offsets = np.cumsum([0, *_lengths(sides[1])], dtype=np.int32)
    rows = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.astype(np.uint16)))
    return rows, int(np.count_nonzero(place_T >= 0))


def _text_of(side: pa.ListArray, begins: int) -> Pieces:
    """Return the ids of each sentence without its </s>, and without the language token with which it begins."""
    ids, offsets = side.values.to_numpy(), side.offsets.to_numpy()
    is_text = ids != EOS_ID
    if begins:
        is_text[offsets[:-1]] = False
    return Pieces(ids[is_text], np.cumsum([0, *(_lengths(side) - 1 - begins)]))


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
