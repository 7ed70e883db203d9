"""Scores as sacreBLEU's own command gives them, and never without a signature."""

import re
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.tokenizers import tokenizer_spm

from nmt_core import scoring
from nmt_core.errors import ConfigError, DataError
from nmt_core.scoring import Pieces, SentenceStatistics, score, score_morphemes

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


NOISY = [
    "The cat sits on the mat .",
    "A dog runs, fast.",
    "",
    '"(hi)" there -- a',
    "the the the",
    "x",
    "one two three four five six",
]
CLEAN = [
    "The cat sat on the mat.",
    "A dog runs fast.",
    "empty",
    "(hi) there - a!",
    "the cat the the",
    "",
    "six five one two three four",
]


@pytest.mark.parametrize(
    ("metric", "of_sacrebleu", "signature"),
    [
        ("BLEU", BLEU(), "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|"),
        ("chrF", CHRF(), "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|"),
        ("chrF++", CHRF(word_order=2), "nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|"),
        ("TER", TER(), "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|"),
    ],
)
def test_every_metric_gives_what_sacrebleu_gives(metric: Any, of_sacrebleu: Any, signature: str) -> None:
    """The whole set, and any part of it from the sums of the sentences' counts."""
    found = SentenceStatistics(metric, NOISY, CLEAN, "en")
    assert found.score == pytest.approx(of_sacrebleu.corpus_score(NOISY, [CLEAN]).score, abs=1e-9)
    assert found.signature == str(of_sacrebleu.get_signature()) and found.signature.startswith(signature)
    for part in (slice(0, 2), slice(2, 3), slice(3, 7), slice(5, 6)):
        expected = of_sacrebleu.corpus_score(NOISY[part], [CLEAN[part]]).score
        assert found.score_of(found.counts_SK[part].sum(axis=0)) == pytest.approx(expected, abs=1e-9)


def test_spbleu_with_the_file_of_sacrebleu_is_what_sacrebleu_computes(
    tiny_tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a small vocabulary in the place where sacreBLEU keeps its own."""
    folder = tmp_path / "models"
    folder.mkdir()
    place = folder / Path(tokenizer_spm.SPM_MODELS["flores200"]["url"]).name
    for module in (scoring, tokenizer_spm):
        monkeypatch.setattr(module, "SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match=rf"{re.escape(str(place))}: the vocabulary of spBLEU is missing, and noth"):
        Pieces()
    place.write_bytes(tiny_tokenizer_file.read_bytes())
    found = SentenceStatistics("spBLEU", NOISY, CLEAN, "en", Pieces())
    expected = BLEU(tokenize="flores200")
    assert found.score == pytest.approx(expected.corpus_score(NOISY, [CLEAN]).score, abs=1e-9)
    assert found.signature == str(expected.get_signature())
    assert found.score != pytest.approx(SentenceStatistics("BLEU", NOISY, CLEAN, "en").score, abs=0.1)
    named = SentenceStatistics("spBLEU", NOISY, CLEAN, "en", Pieces(tiny_tokenizer_file))
    assert named.score == found.score and "|tok:sha256-" in named.signature
    damaged = tmp_path / "damaged.model"
    damaged.write_bytes(b"nothing")
    with pytest.raises(ConfigError, match=r"damaged\.model: SentencePiece cannot read the vocabulary of spBLEU"):
        Pieces(damaged)


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
