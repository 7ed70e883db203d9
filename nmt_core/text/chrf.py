"""Character n-gram F-score, chrF (Popović 2015) and chrF++ (Popović 2017), from counts that can be added up.

The numbers equal sacreBLEU's with its default options, which a test compares. sacreBLEU offers corpus and sentence
scores. A confidence interval also needs the counts of each sentence, and minimum Bayes risk the scores of all pairs of
candidates. This module imports numpy alone.

Letters in names of arrays: C candidates, G different n-grams, K counts of a metric.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHARACTER_ORDER = 6
"""Length of the longest character n-grams."""
PLUS_PLUS_WORD_ORDER = 2
"""Length of the longest word n-grams of chrF++. chrF has none."""
_BETA = 2
"""Weight of recall relative to precision."""
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

Sums = NDArray[np.float64]


def sentence_counts(hypothesis: str, reference: str, word_order: int = 0) -> list[int]:
    """Return three counts for each order: n-grams of the hypothesis, of the reference, and of both.

    Args:
        hypothesis: translation.
        reference: reference translation.
        word_order: length of the longest word n-grams. 0 means chrF, and 2 chrF++.
    """
    counts = []
    for own, other in zip(_ngrams(hypothesis, word_order), _ngrams(reference, word_order), strict=True):
        # An order that the reference is too short for does not count.
        counts += [own.total() if other else 0, other.total(), (own & other).total()]
    return counts


def f_score(sums_K: Sequence[Any] | NDArray[Any]) -> float:
    """Return the F-score with beta = 2, 0 to 100, for the sums of the counts of any sentences.

    Precision and recall are means over the orders for which both sides have n-grams.
    """
    precisions, recalls = [], []
    for order in range(0, len(sums_K), 3):
        own, other, both = (float(count) for count in sums_K[order : order + 3])
        if own > 0 and other > 0:
            precisions.append(both / own)
            recalls.append(both / other)
    if not any(precisions):
        return 0.0
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * (1 + _BETA**2) * precision * recall / (_BETA**2 * precision + recall)


def pairwise(candidates: Sequence[str], references: Sequence[str]) -> Sums:
    """Return chrF of each candidate against each reference, 0 to 100, [candidates, references].

    The n-grams that two texts share are counted by products of matrices: min(a, b) is the number of k from 1 on with
    a >= k and b >= k.
    """
    shape = (len(candidates), len(references))
    precision_sum, recall_sum, orders = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    own_ngrams, other_ngrams = ([_ngrams(text, 0) for text in texts] for texts in (candidates, references))
    for order in range(CHARACTER_ORDER):
        own_CG, other_CG = _count_table([found[order] for found in own_ngrams], [one[order] for one in other_ngrams])
        both = np.zeros(shape)
        for times in range(1, int(min(own_CG.max(initial=0), other_CG.max(initial=0))) + 1):
            both += (own_CG >= times).astype(np.float32) @ (other_CG >= times).astype(np.float32).T
        own, other = own_CG.sum(1)[:, None], other_CG.sum(1)[None]
        is_counted = (own > 0) & (other > 0)
        precision_sum += np.where(is_counted, both / np.maximum(own, 1), 0)
        recall_sum += np.where(is_counted, both / np.maximum(other, 1), 0)
        orders += is_counted
    precision, recall = precision_sum / np.maximum(orders, 1), recall_sum / np.maximum(orders, 1)
    denominator = _BETA**2 * precision + recall
    scores: Sums = 100 * (1 + _BETA**2) * precision * recall / np.where(denominator > 0, denominator, 1)
    return scores


def _count_table(own: Sequence[Counter[str]], other: Sequence[Counter[str]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return how often each text has each n-gram, [C, G], with one column for each n-gram of any text."""
    columns: dict[str, int] = {}
    tables = []
    for texts in (own, other):
        for counts in texts:
            for ngram in counts:
                columns.setdefault(ngram, len(columns))
    for texts in (own, other):
        table_CG = np.zeros((len(texts), len(columns)), dtype=np.int32)
        for row, counts in enumerate(texts):
            table_CG[row, [columns[ngram] for ngram in counts]] = list(counts.values())
        tables.append(table_CG)
    return tables[0], tables[1]


def _ngrams(text: str, word_order: int) -> list[Counter[str]]:
    """Return the n-grams of each order: characters without white space, then words."""
    characters = "".join(text.split())
    found = [_counted(characters, order) for order in range(1, CHARACTER_ORDER + 1)]
    if word_order:
        words = _words(text)
        found += [
            Counter(" ".join(words[place : place + order]) for place in range(len(words) - order + 1))
            for order in range(1, word_order + 1)
        ]
    return found


def _counted(text: str, order: int) -> Counter[str]:
    return Counter(text[place : place + order] for place in range(len(text) - order + 1))


def _words(text: str) -> list[str]:
    """Split a text into words, and one mark of punctuation off each word: its last character, or else its first."""
    words = []
    for word in text.split():
        if len(word) > 1 and word[-1] in _PUNCTUATION:
            words += [word[:-1], word[-1]]
        elif len(word) > 1 and word[0] in _PUNCTUATION:
            words += [word[0], word[1:]]
        else:
            words.append(word)
    return words
