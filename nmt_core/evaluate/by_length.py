"""How good translations of short and of long sentences are (after Bahdanau et al. 2015, figure 2).

Their figure has buckets of ten words. Ours hold about equally many sentences each, so that no point of the curve is
that of three sentences. They follow from the sources alone: two models have the same on the same test set.
"""

from collections import Counter
from collections.abc import Sequence

from nmt_core.config import LanguagesConfig
from nmt_core.evaluate.length_bucket import LengthBucket
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.scoring import score
from nmt_core.search.long_lines import joiner

_MOST_BUCKETS = 8
_FEWEST_SENTENCES = 10


def by_length(test: TestSet, hypotheses: Sequence[str], languages: LanguagesConfig) -> list[LengthBucket]:
    """The buckets of one test set, shortest sentences first."""
    has_words = bool(joiner(languages.source))
    lengths = [len(source.split()) if has_words else len("".join(source.split())) for source in test.sources]
    buckets = []
    for shortest, longest in ranges(lengths):
        places = [place for place, length in enumerate(lengths) if shortest <= length <= longest]
        ours, theirs = [hypotheses[place] for place in places], [test.references[place] for place in places]
        bleu = next(each.score for each in score(test.name, ours, theirs, languages.target) if each.metric == "BLEU")
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


def ranges(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Shortest and longest length of each bucket: at most eight of about the same size, and none of under ten sentences
    unless there are no more."""
    enough = max(_FEWEST_SENTENCES, len(lengths) / _MOST_BUCKETS)
    found: list[tuple[int, int]] = []
    first, held, left = None, 0, len(lengths)
    for length, sentences in sorted(Counter(lengths).items()):
        first = length if first is None else first
        held, left = held + sentences, left - sentences
        if held >= enough and (left >= enough or not left):
            found.append((first, length))
            first, held = None, 0
    if first is not None:
        found.append((first, max(lengths)))
    return found
