"""Draw pairs from the training corpora in seconds, however large they are."""

import math

import numpy as np
import polars as pl

from nmt_core.config import PipelineConfig
from nmt_core.corpus import reading
from nmt_core.corpus.index import CorpusIndex
from nmt_core.errors import DataError, StageError
from nmt_core.store.artifacts import Artifact

_READ_FOR_EACH = 20
"""Number of pairs to read for each pair of the sample. Text further into a corpus is not seen."""
_SCATTER = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplication spreads adjacent lines far apart


def draw(config: PipelineConfig, download: Artifact, pairs: int) -> tuple[pl.DataFrame, dict[str, int]]:
    """Draw about as many pairs from each training corpus. The same text gives the same sample.

    Returns:
        The pairs (columns corpus, line, source, target, fault, fault_value) in recipe order, and the number of pairs
        that were read of each corpus.

    Raises:
        DataError: a corpus cannot be read, and `corpus.on_bad_corpus` is `fail`.
        StageError: no corpus can be read.
    """
    index = CorpusIndex.of(download)
    corpora = index.of_role("train")
    share = math.ceil(pairs / max(1, len(corpora)))
    drawn, read = [], {}
    for corpus in corpora:
        sample, seen = pl.DataFrame(), 0
        try:
            for rows in reading.rows(download, corpus, config.languages, config.clean.max_line_bytes):
                rank = pl.Series("rank", rows["line"].cast(pl.UInt64).to_numpy() * _SCATTER)
                both = pl.concat([sample, rows.with_columns(rank)]) if sample.height else rows.with_columns(rank)
                sample = both.bottom_k(share, by="rank")
                seen += rows.height
                if seen >= share * _READ_FOR_EACH:
                    break
        except DataError:
            if index.on_bad_corpus == "fail":
                raise
            continue
        read[corpus.name] = seen
        if sample.height:
            drawn.append(sample.sort("line").with_columns(corpus=pl.lit(corpus.name)))
    if not drawn:
        raise StageError("clean --sample: the training corpora hold no pairs: check corpus.train")
    table = pl.concat(drawn).select(
        "corpus", "line", pl.col("source", "target").fill_null(""), "fault", fault_value="value"
    )
    return table, read
