"""Write translations, and read `<test set>.sentences.parquet`: every sentence with its translation and scores.

Scores of one sentence are rough. They help to find the sentences that are hardest for a model, and sentences that
people should look at.
"""

from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from types import MappingProxyType

import polars
from sacrebleu.metrics import CHRF

from nmt_core.evaluate.test_sets import TestSet, hypotheses_file
from nmt_core.search.translation import Translation

_SUFFIX = ".sentences.parquet"


def write_translations(
    folder: Path,
    test: TestSet,
    translations: Sequence[Translation],
    numbers: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> None:
    """Write the translations of a test set: one a line, and a table with one row for each sentence.

    The columns of the table are `source`, `reference`, `hypothesis`, `chrf` (sentence chrF, 0 to 100, Popović 2015),
    `model_score` (see `Translation.score`, null where nothing was translated), `tokens` (number of tokens in the
    translation) and `status` (see `Translation.status`). Each program of `evaluate.metrics` adds a column
    `metric:NAME` with its `numbers`.
    """
    chrf = CHRF()
    hypotheses = [translation.text for translation in translations]
    hypotheses_file(folder, test.name).write_text("".join(f"{text}\n" for text in hypotheses), encoding="utf-8")
    pairs = zip(hypotheses, test.references, strict=True)
    scores = [round(chrf.sentence_score(hypothesis, [reference]).score, 2) for hypothesis, reference in pairs]
    rows = {
        "source": test.sources,
        "reference": test.references,
        "hypothesis": hypotheses,
        "chrf": scores,
        "model_score": [None if isnan(one.score) else round(one.score, 4) for one in translations],
        "tokens": [translation.tokens for translation in translations],
        "status": [translation.status for translation in translations],
        **{f"metric:{name}": list(values) for name, values in numbers.items()},
    }
    polars.DataFrame(rows, schema_overrides={"model_score": polars.Float64}).write_parquet(
        folder / f"{test.name}{_SUFFIX}"
    )


def read_sentences(folder: Path, test_set: str) -> polars.DataFrame | None:
    """Return the rows, or None if an earlier version of this package evaluated, which did not write them."""
    file = folder / f"{test_set}{_SUFFIX}"
    return polars.read_parquet(file, glob=False) if file.is_file() else None
