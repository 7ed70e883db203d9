"""Corpus scores by sacreBLEU, each with the signature that makes it comparable (Post 2018)."""

import functools
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict
from sacrebleu.metrics import BLEU, CHRF

from nmt_core.errors import DataError

_BLEU_TOKENIZERS = {"zh": "zh", "ja": "char"}
"""By target language: text without spaces is no row of words to 13a. All others: 13a, sacreBLEU's default."""


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


def score(test_set: str, hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> list[Score]:
    """BLEU (Papineni et al. 2002) and chrF (Popović 2015) of the whole set, against one reference per sentence.

    Raises:
        DataError: there are no sentences, or not as many hypotheses as references.
    """
    if not references or len(hypotheses) != len(references):
        raise DataError(
            f"test set {test_set}: {len(hypotheses)} hypotheses for {len(references)} references: "
            "give one non-empty pair of files of equal length"
        )
    bleu = BLEU(tokenize=_BLEU_TOKENIZERS.get(target_language, "13a"))
    return [
        _scored(test_set, name, metric, hypotheses, references) for name, metric in (("BLEU", bleu), ("chrF", CHRF()))
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
