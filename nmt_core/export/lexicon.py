"""Find the likely translations of each source piece by word alignment, counted over training text.

The model is IBM model 1 (Brown et al. 1993, section 4.1): each target piece is the translation of one source piece of
its sentence, or of none, regardless of positions. Expectation maximisation finds the table t(target | source) that
makes the text most probable. Mere co-occurrence would also propose the neighbours of a piece's translations. The
model attributes these neighbours to the source pieces that they translate.

Letters in names of arrays: V source vocabulary, K translations of a piece.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nmt_core.batches.lexical_model import LexicalModel, Pieces, encoded
from nmt_core.config import SIDES, ExportConfig
from nmt_core.search.shortlist import Shortlist
from nmt_core.tokenizer.bulk import BulkEncoder
from nmt_core.tokenizer.sample import Sample, count_pairs, text_shards
from nmt_core.tokenizer.tokenizer import PAD_ID, Tokenizers

_SEED = 1
"""Seed of the sample."""
_ITERATIONS = 4


def make_shortlist(split: Path, tokenizers: Tokenizers, config: ExportConfig) -> Shortlist:
    """Make the shortlist of a model. With a joint vocabulary, the first translation of each piece is itself, for names.

    Args:
        split: folder of the artifact `split` with the training text. The text is tokenized like text to translate. The
            shards of `encode` may not be, because of `encode.subword_sampling`.
        tokenizers: tokenizers of the model.
        config: section `export`, whose options `shortlist_*` are used.

    Raises:
        DataError: there is no training text.
    """
    shards = text_shards(split)
    sample = Sample(shards, min(1.0, config.shortlist_pairs / max(sum(map(count_pairs, shards)), 1)), _SEED)
    source, target = (
        encoded(sample.lines(side), BulkEncoder(tokenizer))
        for side, tokenizer in zip(SIDES, (tokenizers.source, tokenizers.target), strict=True)
    )
    sizes = (tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    found_VK = likeliest(source, target, sizes, config.shortlist_translations)
    if not tokenizers.source_vocab_size:
        found_VK = with_copies(found_VK)
    counts = np.bincount(target.ids, minlength=sizes[1])
    most = np.argsort(-counts, kind="stable")[: config.shortlist_frequent]
    narrowest = np.min_scalar_type(sizes[1] - 1)
    return Shortlist(most.astype(narrowest), found_VK.astype(narrowest), sizes[1])


def likeliest(source: Pieces, target: Pieces, sizes: Sequence[int], count: int) -> np.ndarray:
    """Return the likeliest translations of each source piece [V, K], likeliest first, padded with `PAD_ID`.

    Args:
        source: source side of a text.
        target: target side of the text.
        sizes: sizes of the source and the target vocabulary.
        count: K, the number of translations.
    """
    model = LexicalModel(*sizes)
    for _ in range(_ITERATIONS):
        model.learn(source, target)
    pairs, counts = model.expected(source, target)
    sources, targets = np.divmod(pairs, sizes[1])
    order = np.lexsort((targets, -counts, sources))
    sources, targets = sources[order], targets[order]
    ranks = np.arange(len(sources)) - np.searchsorted(sources, sources)
    is_kept = (ranks < count) & (sources < sizes[0])
    found_VK = np.full((sizes[0], count), PAD_ID, dtype=np.int64)
    found_VK[sources[is_kept], ranks[is_kept]] = targets[is_kept]
    return found_VK


def with_copies(translations_VK: np.ndarray) -> np.ndarray:
    """Return translations [V, K] in which each piece is its own first translation."""
    own_V1 = np.arange(len(translations_VK))[:, None]
    others_VK = np.where(translations_VK == own_V1, PAD_ID, translations_VK)
    closed_VK = np.take_along_axis(others_VK, np.argsort(others_VK == PAD_ID, axis=1, kind="stable"), axis=1)
    return np.concatenate([own_V1, closed_VK], axis=1)[:, : translations_VK.shape[1]]
