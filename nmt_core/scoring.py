"""Corpus scores by sacreBLEU, each with the signature that makes it comparable (Post 2018)."""

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
    """BLEU or chrF."""
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
    scores = []
    for name, metric in (("BLEU", bleu), ("chrF", CHRF())):
        result = metric.corpus_score(list(hypotheses), [list(references)])
        scores.append(
            Score(
                test_set=test_set,
                metric=name,
                score=round(result.score, 4),
                signature=str(metric.get_signature()),
            )
        )
    return scores
