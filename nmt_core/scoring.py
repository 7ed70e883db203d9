"""Corpus scores by sacreBLEU, each with the signature that makes it comparable (Post 2018).

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
from nmt_core.errors import DataError

_BLEU_TOKENIZERS = {"zh": "zh", "ja": "char"}
"""By target language: text without spaces is no row of words to 13a. All others: 13a, sacreBLEU's default."""

Counts = NDArray[np.int64]


class Score(BaseModel):
    """One number that says how good the translation of one test set is."""

    model_config = ConfigDict(frozen=True)
    test_set: str
    metric: str
    """BLEU or chrF, or one of the further ones: BLEU ko-mecab, BLEU no UNK."""
    score: float
    """0 to 100; higher is better."""
    signature: str
    """sacreBLEU's own account of what was computed."""
    low: float | None = None
    """Lower end of the 95% confidence interval; None: not computed."""
    high: float | None = None
    """Upper end of it."""


class SentenceStatistics:
    """What a corpus score is computed from: numbers of matches and lengths, sentence by sentence.

    Args:
        metric: BLEU (Papineni et al. 2002) or chrF (Popović 2015).
        hypotheses: the translations of a test set.
        references: one for each.
        target_language: decides how BLEU finds words.
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
        """The score of all sentences, 0 to 100."""
        return self.score_of(self.counts_SK.sum(axis=0))

    @property
    def signature(self) -> str:
        """sacreBLEU's own account of what was computed."""
        return str(self._sacrebleu.get_signature())

    def score_of(self, sums_K: Counts) -> float:
        """The score of any selection of sentences, from the sums of their counts."""
        return float(self._sacrebleu._compute_score_from_stats(sums_K.tolist()).score)


def statistics(
    test_set: str, hypotheses: Sequence[str], references: Sequence[str], target_language: str
) -> list[SentenceStatistics]:
    """What BLEU and chrF of the whole set, against one reference per sentence, are computed from.

    Raises:
        DataError: there are no sentences, or not as many hypotheses as references.
    """
    if not references or len(hypotheses) != len(references):
        raise DataError(
            f"test set {test_set}: {len(hypotheses)} hypotheses for {len(references)} references: "
            "give one non-empty pair of files of equal length"
        )
    return [SentenceStatistics(metric, hypotheses, references, target_language) for metric in METRICS]


def score(test_set: str, hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> list[Score]:
    """BLEU and chrF of the whole set, without confidence intervals.

    Raises:
        DataError: there are no sentences, or not as many hypotheses as references.
    """
    return [
        Score(test_set=test_set, metric=found.metric, score=round(found.score, 4), signature=found.signature)
        for found in statistics(test_set, hypotheses, references, target_language)
    ]


def score_morphemes(test_set: str, hypotheses: Sequence[str], references: Sequence[str]) -> list[Score]:
    """BLEU over Korean morphemes, by sacreBLEU's tokenizer ko-mecab; nothing, if that is not installed.

    Korean words have endings without number, so that BLEU over words, which stands first, counts few matches.
    """
    metric = _bleu_of_morphemes()
    return [_scored(test_set, "BLEU ko-mecab", metric, hypotheses, references)] if metric else []


@functools.cache
def _bleu_of_morphemes() -> BLEU | None:
    """One for the process: each maps a dictionary into memory and never gives it back."""
    try:
        return BLEU(tokenize="ko-mecab")
    except (RuntimeError, AttributeError):  # the latter with python-mecab-ko-dic, which has the same module's name
        return None


def _scored(
    test_set: str, name: str, metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]
) -> Score:
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(test_set=test_set, metric=name, score=round(result.score, 4), signature=str(metric.get_signature()))
