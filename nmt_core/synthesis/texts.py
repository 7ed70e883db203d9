"""Collect the sentences of a part, and divide them among its teachers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from nmt_core.config import SIDES, MixConfig, SyntheticPart
from nmt_core.corpus import normalize
from nmt_core.corpus.clean import MONOLINGUAL_FILES, TRAIN_FILES
from nmt_core.corpus.joining import originals
from nmt_core.store import storage

COLUMNS = ("text", "line", "from_corpus", "from_line", "licence")
"""Columns of the sentences to translate: the text, its number in the part from 1, and its origin."""
REFERENCE = "reference"
"""Further column if there is a reference: the other side of the parallel text."""


@dataclass
class Texts:
    """Sentences of one part that were written for its teachers."""

    sentences: int = 0
    files: list[list[Path]] = field(default_factory=list)
    """Files of each teacher, in the order of the text."""


def write_texts(part: SyntheticPart, split: Path, mix: MixConfig, folder: Path) -> Texts:
    """Write the sentences for each teacher to `<number of the teacher>/text/NNNNN.parquet`.

    Files that an earlier attempt has written are left as they are, because a translation job accepts no other file.

    Args:
        part: synthetic corpus.
        split: folder of the artifact `split`.
        mix: rules of the mix, whose tags are removed from parallel text.
        folder: folder of the part.
    """
    limit, texts = _limit(part, split, mix), Texts(files=[[] for _ in part.teachers])
    for number, offered in enumerate(_offered(part, split, mix)):
        taken = offered if limit is None else offered.filter(_draw(part) <= pl.lit(limit, pl.UInt64))
        taken = taken.with_columns(line=pl.int_range(texts.sentences + 1, texts.sentences + taken.height + 1))
        texts.sentences += taken.height
        share = normalize.hashed(pl.col("text")) % len(part.teachers)
        for teacher, files in enumerate(texts.files):
            own = taken.filter(share == teacher) if len(part.teachers) > 1 else taken
            file = folder / f"{teacher}" / "text" / f"{number:05d}.parquet"
            if own.height:
                files.append(file)
            if own.height and not file.exists():
                storage.write(own.select(*COLUMNS, *({REFERENCE} & {*own.columns})), str(file))
    return texts


def _offered(part: SyntheticPart, split: Path, mix: MixConfig) -> Iterator[pl.DataFrame]:
    """Yield the sentences of each shard from which the part may take some."""
    is_parallel = part.text == "parallel_source"
    for shard in sorted(split.glob(TRAIN_FILES if is_parallel else MONOLINGUAL_FILES)):
        rows = storage.read(str(shard))
        if part.corpora:
            rows = rows.filter(pl.col("corpus").is_in(part.corpora))
        if is_parallel:
            rows = originals(rows.filter(pair=part.pair) if part.pair else rows, mix)
            rows = rows.with_columns(text="source", reference="target")
        elif part.pair:
            rows = rows.filter(language=part.pair.split("-")[SIDES.index(part.side)])
        else:
            rows = rows.filter(side=part.side)
        yield rows.rename({"corpus": "from_corpus", "line": "from_line"})


def _limit(part: SyntheticPart, split: Path, mix: MixConfig) -> int | None:
    """Return the largest draw of a sentence that is taken. None takes all sentences."""
    if not part.most_sentences:
        return None
    draws = [rows.select(_draw(part)).to_series().to_numpy() for rows in _offered(part, split, mix)]
    all_draws = np.concatenate([np.empty(0, np.uint64), *draws])
    if len(all_draws) <= part.most_sentences:
        return None
    return int(np.partition(all_draws, part.most_sentences - 1)[part.most_sentences - 1])


def _draw(part: SyntheticPart) -> pl.Expr:
    """Return the draw of each sentence, a UInt64 by its place."""
    return normalize.hashed(pl.format("{}\t{}\t{}", pl.lit(part.name), "from_corpus", "from_line"))
