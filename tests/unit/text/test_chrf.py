"""chrF from counts, and chrF of all pairs of texts, against sacreBLEU."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from nmt_core.text import chrf

TEXT = st.text(alphabet="ab c.,(é\u3042\u2028", max_size=12)


@pytest.mark.parametrize("word_order", [0, chrf.PLUS_PLUS_WORD_ORDER])
@given(pairs=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_the_score_of_any_texts_is_what_sacrebleu_computes(word_order: int, pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [own for own, _ in pairs], [other for _, other in pairs]
    sums_K = np.array([chrf.sentence_counts(*pair, word_order) for pair in pairs]).sum(axis=0)
    expected = CHRF(word_order=word_order).corpus_score(hypotheses, [references]).score
    assert chrf.f_score(sums_K) == pytest.approx(expected, abs=1e-9)


@given(candidates=st.lists(TEXT, min_size=1, max_size=4), references=st.lists(TEXT, min_size=1, max_size=3))
def test_all_pairs_at_once_have_the_scores_of_each_pair(candidates: list[str], references: list[str]) -> None:
    metric = CHRF()
    expected = [[metric.sentence_score(own, [other]).score for other in references] for own in candidates]
    np.testing.assert_allclose(chrf.pairwise(candidates, references), expected, atol=1e-6)
