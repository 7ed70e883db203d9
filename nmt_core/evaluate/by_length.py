"""Compute BLEU by the length of the source (after Bahdanau et al. 2015, figure 2).

Bahdanau et al. use buckets of ten words, which `evaluate.length_bucket` sets. By default the buckets hold about equally
many sentences each, so that no point of the curve comes from three sentences. They depend on the sources alone, so two
models have the same buckets on the same test set.
"""

from collections import Counter
from collections.abc import Sequence

import polars as pl

from nmt_core.config import LanguagesConfig
from nmt_core.corpus import scripts
from nmt_core.evaluate.length_bucket import LengthBucket
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.scoring import score

_MOST_BUCKETS = 8
_FEWEST_SENTENCES = 10


def by_length(
    test: TestSet, hypotheses: Sequence[str], languages: LanguagesConfig, width: int = 0
) -> list[LengthBucket]:
    """Return the buckets of one test set, shortest sentences first.

    Args:
        test: test set.
        hypotheses: translations of its sentences.
        languages: languages of the test set.
        width: width of a bucket (`evaluate.length_bucket`). 0 means buckets of about the same size.
    """
    has_words = not scripts.is_mostly_unspaced(pl.Series(test.sources, dtype=pl.String))
    lengths = [len(source.split()) if has_words else len("".join(source.split())) for source in test.sources]
    buckets = []
    for shortest, longest in ranges_of_width(lengths, width) if width else ranges(lengths):
        places = [place for place, length in enumerate(lengths) if shortest <= length <= longest]
        texts, references = [hypotheses[place] for place in places], [test.references[place] for place in places]
        scores = score(test.name, texts, references, languages.target)
        bleu = next(one.score for one in scores if one.metric == "BLEU")
        buckets.append(
            LengthBucket(
                test_set=test.name,
                shortest=shortest,
                longest=longest,
                mean=round(sum(lengths[place] for place in places) / len(places), 2),
                unit="words" if has_words else "characters",
                sentences=len(places),
                bleu=round(bleu, 2),
            )
        )
    return buckets


def ranges_of_width(lengths: Sequence[int], width: int) -> list[tuple[int, int]]:
    """Return the shortest and longest length of each bucket that has sentences: of 1 to `width`, then as many more."""
    found: dict[int, list[int]] = {}
    for length in sorted(lengths):
        found.setdefault(max(length - 1, 0) // width, []).append(length)
    return [(own[0], own[-1]) for own in found.values()]


def ranges(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return the shortest and longest length of each bucket.

    There are at most eight buckets of about the same size. Each has at least ten sentences, unless there are fewer in
    all.
    """
    enough = max(_FEWEST_SENTENCES, len(lengths) / _MOST_BUCKETS)
    buckets: list[tuple[int, int]] = []
    first, held, left = None, 0, len(lengths)
    for length, sentences in sorted(Counter(lengths).items()):
        first = length if first is None else first
        held, left = held + sentences, left - sentences
        if held >= enough and (left >= enough or not left):
            buckets.append((first, length))
            first, held = None, 0
    if first is not None:
        buckets.append((first, max(lengths)))
    return buckets
