"""Scores as sacreBLEU's own command gives them, and never without a signature."""

import pytest
import sacrebleu

from nmt_core import scoring
from nmt_core.errors import DataError
from nmt_core.scoring import score, score_morphemes

HYPOTHESES = ["The cat sits on the mat .", "A dog runs, fast."]
REFERENCES = ["The cat sat on the mat.", "A dog runs fast."]


def test_scores_match_sacrebleu() -> None:
    bleu, chrf = score("news", HYPOTHESES, REFERENCES, "en")
    assert (bleu.test_set, bleu.metric, chrf.metric) == ("news", "BLEU", "chrF")
    assert bleu.score == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score, abs=1e-4)
    assert chrf.score == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score, abs=1e-4)


@pytest.mark.parametrize(("language", "tokenizer"), [("en", "13a"), ("ko", "13a"), ("zh", "zh"), ("ja", "char")])
def test_the_signature_names_the_tokenizer_of_the_language(language: str, tokenizer: str) -> None:
    bleu, chrf = score("news", HYPOTHESES, REFERENCES, language)
    assert bleu.signature.startswith(f"nrefs:1|case:mixed|eff:no|tok:{tokenizer}|smooth:exp|version:")
    assert chrf.signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_korean_is_scored_by_morphemes_as_well() -> None:
    hypotheses, references = (
        ["서버는 다시 시작했습니다."] * 2,
        ["서버를 다시 시작하였습니다.", "서버는 다시 시작했습니다."],
    )
    (found,) = score_morphemes("news", hypotheses, references)
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="ko-mecab").score
    assert found.metric == "BLEU ko-mecab"
    assert found.score == pytest.approx(expected, abs=1e-4)
    assert found.score > score("news", hypotheses, references, "ko")[0].score
    assert "|tok:ko-mecab-0.996/ko-0.9.2-KO|" in found.signature


def test_without_the_analyser_there_is_no_such_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ko_mecab.MeCab", None)
    monkeypatch.setattr("nmt_core.scoring._bleu_of_morphemes", scoring._bleu_of_morphemes.__wrapped__)
    assert score_morphemes("news", ["가"], ["가"]) == []


def test_a_perfect_translation_scores_100() -> None:
    assert [one.score for one in score("news", REFERENCES, REFERENCES, "en")] == pytest.approx([100, 100])


@pytest.mark.parametrize("count", [0, 1])
def test_unequal_or_empty_sets_are_refused(count: int) -> None:
    with pytest.raises(DataError, match=f"test set news: {count} hypothes[ie]s for {2 * count} references"):
        score("news", HYPOTHESES[:count], REFERENCES[: 2 * count], "en")
