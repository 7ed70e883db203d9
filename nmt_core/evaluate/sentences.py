"""Every sentence of a test set with its translation and how good that is: `<test set>.sentences.parquet`.

Scores of one sentence are rough; they serve to find the sentences that a model finds hardest, and those that people
should look at.
"""

from collections.abc import Sequence
from pathlib import Path

import polars
from sacrebleu.metrics import CHRF

from nmt_core.evaluate.test_sets import TestSet
from nmt_core.search.translation import Translation

_SUFFIX = ".sentences.parquet"


def write_sentences(folder: Path, test: TestSet, translations: Sequence[Translation]) -> None:
    """Write one row a sentence, in the order of the test set.

    Columns: `source`, `reference`, `hypothesis`; `chrf`, sentence chrF (Popović 2015), 0 to 100; `model_score`, see
    `Translation.score`; `tokens` of the translation; `status`, see `Translation.status`.
    """
    chrf = CHRF()
    hypotheses = [translation.text for translation in translations]
    pairs = zip(hypotheses, test.references, strict=True)
    scores = [round(chrf.sentence_score(ours, [theirs]).score, 2) for ours, theirs in pairs]
    rows = {
        "source": test.sources,
        "reference": test.references,
        "hypothesis": hypotheses,
        "chrf": scores,
        "model_score": [round(translation.score, 4) for translation in translations],
        "tokens": [translation.tokens for translation in translations],
        "status": [translation.status for translation in translations],
    }
    polars.DataFrame(rows).write_parquet(folder / f"{test.name}{_SUFFIX}")


def read_sentences(folder: Path, test_set: str) -> polars.DataFrame | None:
    """The rows; None if an earlier version of this package evaluated, which kept none."""
    file = folder / f"{test_set}{_SUFFIX}"
    return polars.read_parquet(file, glob=False) if file.is_file() else None
