"""Compute corpus scores by sacreBLEU, each with the signature that makes it comparable (Post 2018).

Letters in names of arrays: S sentences, K counts of a metric.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from sacrebleu.metrics import BLEU, CHRF

from nmt_core.config import METRICS, MetricName
from nmt_core.errors import DataError, counted

_BLEU_TOKENIZERS = {"zh": "zh", "ja": "char"}
"""BLEU tokenizer by target language, for languages without spaces between words. All other languages use 13a,
sacreBLEU's default."""

Counts = NDArray[np.int64]


class Score(BaseModel):
    """Score of the translation of one test set."""

    model_config = ConfigDict(frozen=True)
    test_set: str
    metric: str
    """Name of the metric: BLEU or chrF, or another one such as BLEU ko-mecab or BLEU no UNK."""
    score: float
    """Value from 0 to 100. Higher is better."""
    signature: str
    """sacreBLEU's description of the computation."""
    low: float | None = None
    """Lower end of the 95% confidence interval. None means that it was not computed."""
    high: float | None = None
    """Upper end of the 95% confidence interval. None means that it was not computed."""


class SentenceStatistics:
    """Numbers of matches and lengths of each sentence, from which a corpus score is computed.

    Args:
        metric: BLEU (Papineni et al. 2002) or chrF (Popović 2015).
        hypotheses: translations of a test set.
        references: one reference for each translation.
        target_language: language that decides how BLEU finds words.
    """

    def __init__(
        self, metric: MetricName, hypotheses: Sequence[str], references: Sequence[str], target_language: str
    ) -> None:
        is_bleu = metric == "BLEU"
        self.metric = metric
        self._sacrebleu: Any = BLEU(tokenize=_BLEU_TOKENIZERS.get(target_language, "13a")) if is_bleu else CHRF()
        counted = self._sacrebleu._extract_corpus_statistics(list(hypotheses), [list(references)])
        self.counts_SK: Counts = np.array(counted, dtype=np.int64)

    @property
    def score(self) -> float:
        """Score of all sentences, 0 to 100."""
        return self.score_of(self.counts_SK.sum(axis=0))

    @property
    def signature(self) -> str:
        """sacreBLEU's description of the computation."""
        return str(self._sacrebleu.get_signature())

    def score_of(self, sums_K: Counts) -> float:
        """Return the score of any selection of sentences, from the sums of their counts."""
        return float(self._sacrebleu._compute_score_from_stats(sums_K.tolist()).score)


def statistics(
    test_set: str, hypotheses: Sequence[str], references: Sequence[str], target_language: str
) -> list[SentenceStatistics]:
    """Return the statistics for BLEU and chrF of the whole set, against one reference per sentence.

    Raises:
        DataError: there are no sentences, or not as many hypotheses as references.
    """
    if not references or len(hypotheses) != len(references):
        raise DataError(
            f"test set {test_set}: {counted(len(hypotheses), 'hypothesis', 'hypotheses')} for "
            f"{counted(len(references), 'reference')}: give one non-empty pair of files of equal length"
        )
    return [SentenceStatistics(metric, hypotheses, references, target_language) for metric in METRICS]


def score(test_set: str, hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> list[Score]:
    """Return BLEU and chrF of the whole set, without confidence intervals.

    Raises:
        DataError: there are no sentences, or not as many hypotheses as references.
    """
    return [
        Score(
            test_set=test_set, metric=statistic.metric, score=round(statistic.score, 4), signature=statistic.signature
        )
        for statistic in statistics(test_set, hypotheses, references, target_language)
    ]


def most_similar(metric: MetricName, candidates: Sequence[str], reference: str, target_language: str) -> int:
    """Return the index of the candidate with the highest score of one sentence, the first of equal ones.

    Orders of n-grams that are longer than the sentence do not count in BLEU (sacreBLEU's `effective_order`).
    """
    of_sentence = _of_sentence(metric, _BLEU_TOKENIZERS.get(target_language, "13a"))
    scores = [of_sentence.sentence_score(candidate, [reference]).score for candidate in candidates]
    return scores.index(max(scores))


@functools.cache
def _of_sentence(metric: MetricName, tokenizer: str) -> BLEU | CHRF:
    return BLEU(tokenize=tokenizer, effective_order=True) if metric == "BLEU" else CHRF()


def score_morphemes(test_set: str, hypotheses: Sequence[str], references: Sequence[str]) -> list[Score]:
    """Return BLEU over Korean morphemes, by sacreBLEU's tokenizer ko-mecab. Empty if that is not installed.

    Korean words have very many endings, so BLEU over words, the main score, counts few matches.
    """
    metric = _bleu_of_morphemes()
    return [_scored(test_set, "BLEU ko-mecab", metric, hypotheses, references)] if metric else []


@functools.cache
def _bleu_of_morphemes() -> BLEU | None:
    """Return one metric for the process.

    Each one maps a dictionary into memory and never releases it.
    """
    try:
        return BLEU(tokenize="ko-mecab")
    except (RuntimeError, AttributeError):  # AttributeError: python-mecab-ko-dic, whose module has the same name
        return None


def _scored(
    test_set: str, name: str, metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]
) -> Score:
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(test_set=test_set, metric=name, score=round(result.score, 4), signature=str(metric.get_signature()))
