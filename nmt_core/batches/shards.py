"""Write and read token shards. Any row group can be read by itself, and is verified as it is read.

A shard is a Parquet file of pairs. It has the ids of both sides (`list<uint16>` or `list<uint32>`, each with </s> at
the end), the corpus and the line of each pair, and the lengths of both sides in columns of their own, so that batches
can be planned without reading ids. With `encode.alignments` it also has the source position that each target token is
linked with. The footer holds the number of tokens of each row group, and a hash of its ids and
lengths.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.config import SIDES
from nmt_core.errors import DataError

TRAIN_FILES = "train-*.parquet"
DEV_FILE = "dev.parquet"
SAMPLE = "sample"
"""Key of a shard's footer for the number of its segmentation, from 0. Without the key, the number is 0."""
ROW_GROUP_PAIRS = 10_000
"""Number of pairs of a row group: the least that is read at a time, and the unit in which an epoch is shuffled."""

LINKS = "links"
"""Column of the links of target tokens."""
_LENGTHS = ("source_length", "target_length")
_ROW_GROUPS = b"row_groups"
_REMEDY = "run with `--force encode`"


@dataclass(frozen=True)
class SideTokens:
    """Sentences of one language: sentence i is `ids[starts[i] : starts[i] + lengths[i]]`."""

    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True)
class TokenPairs:
    """Sentence pairs as token ids. Each side ends with </s>."""

    source: SideTokens
    target: SideTokens
    links: SideTokens | None = None
    """Source position that each target token is linked with, or the position of the source's </s> if it is linked with
    none. None if the pairs are not aligned."""

    def __len__(self) -> int:
        return len(self.source.lengths)

    @property
    def lengths(self) -> np.ndarray:
        """Number of source and target tokens of each pair, [N, 2]."""
        return np.stack([self.source.lengths, self.target.lengths], axis=1)


@dataclass(frozen=True)
class RowGroup:
    """Entry of a shard's footer for one row group."""

    file: Path
    number: int
    pairs: int
    source_tokens: int
    target_tokens: int
    digest: str
    """Hash of the lengths and ids."""
    sample: int = 0
    """Number of the segmentation of the text that it holds."""


class ShardWriter:
    """Writer of one shard. Use it as a context manager.

    Args:
        where: file or buffer to write to.
        id_types: types of the source and target ids.
        metadata: strings for the footer.
        has_links: True if the pairs are aligned.
    """

    def __init__(
        self,
        where: Path | pa.BufferOutputStream,
        id_types: Sequence[pa.DataType],
        metadata: dict[str, str],
        *,
        has_links: bool = False,
    ) -> None:
        self._schema = pa.schema(
            [
                *((side, pa.list_(id_type)) for side, id_type in zip(SIDES, id_types, strict=True)),
                *((name, pa.uint16()) for name in _LENGTHS),
                ("corpus", pa.dictionary(pa.int32(), pa.string())),
                ("line", pa.int64()),
                *([(LINKS, pa.list_(pa.uint16()))] if has_links else []),
            ],
            metadata,
        )
        self._row_groups: list[tuple[int, int, int, str]] = []
        self._writer = pq.ParquetWriter(
            where,
            self._schema,
            compression="zstd",
            use_dictionary=["corpus"],
            # High bytes apart from low ones: a sixth smaller than plain ids, and faster to write and to read.
            use_byte_stream_split=[f"{name}.list.element" for name in (*SIDES, *([LINKS] if has_links else []))],
            column_encoding={"line": "DELTA_BINARY_PACKED"},
            write_statistics=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.add_key_value_metadata({_ROW_GROUPS.decode(): json.dumps(self._row_groups)})
        self._writer.close()

    def write(
        self, sides: Sequence[pa.ListArray], corpus: pa.Array, line: pa.Array, links: pa.ListArray | None = None
    ) -> None:
        """Append pairs in row groups of `ROW_GROUP_PAIRS`. The last row group may be smaller."""
        lengths = [side.value_lengths().cast(pa.uint16()) for side in sides]
        columns = [*sides, *lengths, corpus.cast(self._schema.field("corpus").type), line]
        columns += [] if links is None else [links]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        for start in range(0, len(table), ROW_GROUP_PAIRS):
            group = table.slice(start, ROW_GROUP_PAIRS)
            pairs = _pairs(group)
            source_tokens, target_tokens = pairs.lengths.sum(axis=0).tolist()
            self._row_groups.append((len(group), source_tokens, target_tokens, _digest(pairs)))
            self._writer.write_table(group, row_group_size=ROW_GROUP_PAIRS)


class TokenShards:
    """Sequence of the row groups of several shards.

    Args:
        files: shards, in order.

    Raises:
        DataError: there are no shards, or one is damaged.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        if not files:
            raise DataError("no token shards: run the stage `encode` again (`--force encode`)")
        footers = {file: _footer(file) for file in files}
        self._footers = footers
        self.groups = tuple(
            replace(RowGroup(file, number, *row), sample=int(footer.metadata.get(SAMPLE.encode(), 0)))
            for file, footer in footers.items()
            for number, row in enumerate(json.loads(footer.metadata[_ROW_GROUPS]))
        )
        metadata = footers[files[0]].metadata
        self.vocab_size = int(metadata[b"vocab_size"])
        """Number of pieces of the target vocabulary."""
        own = metadata.get(b"source_vocab_size")
        self.source_vocab_size = int(own) if own else None
        """Number of pieces of the source's own vocabulary. None means that the vocabulary is joint."""

    @property
    def pairs(self) -> int:
        """Number of pairs of all shards."""
        return sum(group.pairs for group in self.groups)

    @property
    def tokens_of_groups(self) -> np.ndarray:
        """Number of source and target tokens of each row group, [groups, 2]."""
        tokens = [(group.source_tokens, group.target_tokens) for group in self.groups]
        return np.array(tokens, np.int64).reshape(-1, 2)

    def groups_of_epoch(self, epoch: int) -> np.ndarray:
        """Return the numbers of the row groups that an epoch reads.

        Each epoch reads one segmentation of the text. Epochs take the segmentations in turn.
        """
        samples = np.array([group.sample for group in self.groups], np.int64)
        return np.flatnonzero(samples == epoch % (samples.max(initial=0) + 1))

    def lengths(self, groups: Sequence[int]) -> np.ndarray:
        """Return the number of source and target tokens of each pair in these row groups, [N, 2]. Reads no ids."""
        tables = [self._read(self.groups[group], _LENGTHS) for group in groups]
        both = [np.concatenate([table[name].to_numpy() for table in tables]) for name in _LENGTHS]
        return np.stack(both, axis=1).astype(np.int64)

    def weights(self, groups: Sequence[int], by_corpus: Mapping[str, float]) -> np.ndarray:
        """Return the weight of each pair in these row groups, [N]: the weight of its corpus, or 0 if it has none."""
        parts = [np.zeros(0)]
        for group in groups:
            for chunk in self._read(self.groups[group], ("corpus",))["corpus"].chunks:
                of_name = np.array([by_corpus.get(name, 0.0) for name in chunk.dictionary.to_pylist()])
                parts.append(of_name[chunk.indices.to_numpy()])
        return np.concatenate(parts)

    def read(self, groups: Sequence[int]) -> TokenPairs:
        """Return the pairs of these row groups, in this order.

        Raises:
            DataError: a row group is damaged.
        """
        parts = [self._read_checked(self.groups[group]) for group in groups]
        links = [part.links for part in parts if part.links]
        return TokenPairs(
            _joined([part.source for part in parts]),
            _joined([part.target for part in parts]),
            _joined(links) if links else None,
        )

    def origins(self, groups: Sequence[int], rows: np.ndarray) -> list[str]:
        """Return the origin of some pairs of these row groups, each as `corpus:line`."""
        table = pa.concat_tables([self._read(self.groups[group], ("corpus", "line")) for group in groups]).take(rows)
        corpora = table["corpus"].cast(pa.string())
        return [f"{corpus}:{line}" for corpus, line in zip(corpora.to_pylist(), table["line"].to_pylist(), strict=True)]

    def _read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        try:
            with pq.ParquetFile(group.file, metadata=self._footers[group.file]) as file:
                return file.read_row_group(group.number, columns=columns, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{_name(group)}: damaged token shard: it cannot be read ({error}): {_REMEDY}") from None

    def _read_checked(self, group: RowGroup) -> TokenPairs:
        has_links = self._footers[group.file].schema.to_arrow_schema().get_field_index(LINKS) >= 0
        pairs = _pairs(self._read(group, (*SIDES, *_LENGTHS, *([LINKS] if has_links else []))))
        if (found := _digest(pairs)) != group.digest:
            raise DataError(
                f"{_name(group)}: damaged token shard: its hash should be {group.digest} and is {found}: {_REMEDY}"
            )
        return pairs


def read_pairs(files: Sequence[Path]) -> TokenPairs:
    """Return all pairs of some shards, such as the dev set."""
    shards = TokenShards(files)
    return shards.read(range(len(shards.groups)))


def _footer(file: Path) -> pq.FileMetaData:
    try:
        footer = pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file}: damaged token shard ({error}): {_REMEDY}") from None
    if _ROW_GROUPS not in (footer.metadata or {}):
        raise DataError(f"{file}: not a token shard of this version: {_REMEDY}")
    return footer


def _name(group: RowGroup) -> str:
    return f"{group.file}, row group {group.number}"


def _pairs(table: pa.Table) -> TokenPairs:
    links = _side(table[LINKS]) if LINKS in table.column_names else None
    return TokenPairs(_side(table["source"]), _side(table["target"]), links)


def _side(column: pa.ChunkedArray) -> SideTokens:
    rows = column.combine_chunks()
    if isinstance(rows, pa.ChunkedArray):  # pyarrow returns a column without chunks as it is
        rows = pa.concat_arrays(rows.chunks) if rows.num_chunks else pa.array([], column.type)
    offsets = rows.offsets.to_numpy().astype(np.int64)
    first = offsets[0] if len(offsets) else 0  # a slice still has the values before it
    ids = rows.values.to_numpy()[first : offsets[-1] if len(offsets) else 0]
    return SideTokens(ids, offsets[:-1] - first, np.diff(offsets))


def _joined(sides: Sequence[SideTokens]) -> SideTokens:
    if len(sides) == 1:
        return sides[0]
    before = np.cumsum([0, *(len(side.ids) for side in sides[:-1])])
    return SideTokens(
        np.concatenate([side.ids for side in sides]),
        np.concatenate([side.starts + offset for side, offset in zip(sides, before, strict=True)]),
        np.concatenate([side.lengths for side in sides]),
    )


def _digest(pairs: TokenPairs) -> str:
    """Return a hash of lengths, ids and links. It is the same on every machine."""
    found = hashlib.blake2b(digest_size=16)
    for side in (pairs.source, pairs.target, *([pairs.links] if pairs.links else [])):
        found.update(side.lengths.astype("<u2").tobytes())
        found.update(side.ids.astype(f"<u{side.ids.itemsize}", copy=False).tobytes())
    return found.hexdigest()
