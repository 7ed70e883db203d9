"""Compute corpus scores by sacreBLEU, each with the signature that makes it comparable (Post 2018).

Letters in names of arrays: S sentences, K counts of a metric.
"""

import copy
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from nmt_core.config import BuiltInMetric, MetricName
from nmt_core.errors import ConfigError, DataError, counted
from nmt_core.text import chrf

_BLEU_TOKENIZERS = {"zh": "zh", "ja": "char"}
"""BLEU tokenizer by target language, for languages without spaces between words. All other languages use 13a,
sacreBLEU's default."""

_MAIN_METRICS: tuple[MetricName, ...] = ("BLEU", "chrF")
"""Metrics that every evaluation has."""
_BLEU_ORDER = 4
"""Length of the longest n-grams of BLEU."""
_FLORES = "flores200"
"""Name of sacreBLEU's tokenizer for spBLEU."""
_DIGITS = 12
_SHOWN = 200
Counts = NDArray[Any]


class Score(BaseModel):
    """Score of the translation of one test set."""

    model_config = ConfigDict(frozen=True)
    test_set: str
    metric: str
    """Name of the metric: BLEU or chrF, a metric of `evaluate.metrics`, BLEU ko-mecab or BLEU no UNK."""
    score: float
    """Value. BLEU and chrF are from 0 to 100, and higher is better. TER, the number of edits for 100 words of the
    reference, has no upper bound, and lower is better. The score of a command is in its own unit."""
    signature: str
    """sacreBLEU's description of the computation, or the name, version and checkpoint of a command."""
    low: float | None = None
    """Lower end of the 95% confidence interval. None means that it was not computed."""
    high: float | None = None
    """Upper end of the 95% confidence interval. None means that it was not computed."""


class Statistics:
    """Counts of each sentence of a test set, from which the score of any selection of its sentences is computed.

    Args:
        metric: name of the metric.
        counts_SK: counts of each sentence.
        signature: description of the computation.
    """

    def __init__(self, metric: str, counts_SK: Counts, signature: str) -> None:
        self.metric = metric
        self.counts_SK = counts_SK
        self.signature = signature
        self.lower_is_better = False
        """True if a lower score is better, as for TER."""

    @property
    def score(self) -> float:
        """Score of all sentences."""
        return self.score_of(self.counts_SK.sum(axis=0))

    def of_sentences(self, places: Sequence[int]) -> "Statistics":
        """Return the statistics of some of the sentences, by their indices."""
        chosen = copy.copy(self)
        chosen.counts_SK = self.counts_SK[list(places)]
        return chosen

    def score_of(self, sums_K: Counts) -> float:
        """Return the score of any selection of sentences, from the sums of their counts."""
        raise NotImplementedError


class SentenceStatistics(Statistics):
    """Statistics of a metric of sacreBLEU, from its public interface (Post 2018).

    Args:
        metric: BLEU (Papineni et al. 2002), chrF (Popović 2015), chrF++ (Popović 2017), TER (Snover et al. 2006), or
            spBLEU (Goyal et al. 2022), which is BLEU over the pieces of one vocabulary for all languages.
        hypotheses: translations of a test set.
        references: one reference for each translation.
        target_language: language that decides how BLEU finds words.
        pieces: vocabulary of spBLEU. Other metrics have none.
    """

    def __init__(
        self,
        metric: MetricName | BuiltInMetric,
        hypotheses: Sequence[str],
        references: Sequence[str],
        target_language: str,
        pieces: "Pieces | None" = None,
    ) -> None:
        if pieces:
            hypotheses, references = ([pieces.split(text) for text in texts] for texts in (hypotheses, references))
        tokenizer = "none" if pieces else _BLEU_TOKENIZERS.get(target_language, "13a")
        count = {"TER": _edits, "chrF": _characters, "chrF++": _characters_and_words}.get(metric)
        sentence_bleu = _of_sentence("BLEU", tokenizer) if not count else None
        pairs = zip(hypotheses, references, strict=True)
        counts = [(count or functools.partial(_word_matches, sentence_bleu))(*pair) for pair in pairs]
        signature = _signature(metric, tokenizer)
        signature = signature.replace("|tok:none|", f"|tok:{pieces.name}|") if pieces else signature
        super().__init__(metric, np.array(counts, dtype=np.int64), signature)
        self.lower_is_better = metric == "TER"

    def score_of(self, sums_K: Counts) -> float:
        """Return the score of any selection of sentences, from the sums of their counts."""
        if self.metric.startswith("chrF"):
            return chrf.f_score(sums_K)
        if self.metric == "TER":
            edits, length = (float(count) for count in sums_K)
            return 100 * (edits / length if length else float(edits > 0))
        hypothesis_length, reference_length, *ngrams = sums_K.tolist()
        matches, totals = ngrams[:_BLEU_ORDER], ngrams[_BLEU_ORDER:]
        return float(BLEU.compute_bleu(matches, totals, hypothesis_length, reference_length, "exp").score)


def _word_matches(sentence_bleu: BLEU, hypothesis: str, reference: str) -> list[int]:
    """Return the lengths of both sides in words, the matches of each order, and the n-grams of the hypothesis."""
    found = sentence_bleu.sentence_score(hypothesis, [reference])
    return [found.sys_len, found.ref_len, *found.counts, *found.totals]


def _edits(hypothesis: str, reference: str) -> list[int]:
    """Return the number of edits, and the number of words of the reference."""
    found = _ter().sentence_score(hypothesis, [reference])
    return [found.num_edits, round(found.ref_length)]


def _characters(hypothesis: str, reference: str) -> list[int]:
    return chrf.sentence_counts(hypothesis, reference)


def _characters_and_words(hypothesis: str, reference: str) -> list[int]:
    return chrf.sentence_counts(hypothesis, reference, chrf.PLUS_PLUS_WORD_ORDER)


@functools.cache
def _ter() -> TER:
    return TER()


@functools.cache
def _signature(metric: str, tokenizer: str) -> str:
    """Return sacreBLEU's description of a computation, which it gives after the first one."""
    scorer: BLEU | CHRF | TER
    if metric == "TER":
        scorer = TER()
    elif metric.startswith("chrF"):
        scorer = CHRF(word_order=chrf.PLUS_PLUS_WORD_ORDER if metric == "chrF++" else 0)
    else:
        scorer = BLEU(tokenize=tokenizer)
    scorer.corpus_score(["a"], [["a"]])
    return str(scorer.get_signature())


class Pieces:
    """SentencePiece vocabulary for spBLEU (Goyal et al. 2022, section 5).

    Args:
        file: model of SentencePiece. None means the copy of the vocabulary of FLORES-200 that sacreBLEU has downloaded
            on this machine. Nothing is downloaded here.

    Raises:
        ConfigError: the file is missing, or SentencePiece cannot read it.
    """

    def __init__(self, file: Path | None = None) -> None:
        known = Path(SACREBLEU_DIR) / "models" / Path(SPM_MODELS[_FLORES]["url"]).name
        path = file or known
        if not path.is_file():
            where = f"as {known}, where sacreBLEU keeps it," if file is None else "there,"
            raise ConfigError(
                f"{path}: the vocabulary of spBLEU is missing, and nothing is downloaded here: put the file of "
                f"{SPM_MODELS[_FLORES]['url']} {where} or name another copy by `vocabulary` of the metric"
            )
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (RuntimeError, OSError) as error:
            raise ConfigError(
                f"{path}: SentencePiece cannot read the vocabulary of spBLEU ({str(error)[:_SHOWN]}): name a file that "
                "ends in .model and that SentencePiece has made"
            ) from None
        # Only sacreBLEU's own file certainly has the content that the name of its tokenizer promises.
        self.name = _FLORES if file is None else f"sha256-{hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]}"
        """Name of the vocabulary in a signature."""

    def split(self, text: str) -> str:
        """Return the pieces of a text with spaces between them, as sacreBLEU's tokenizer does."""
        return " ".join(self._processor.encode(text.rstrip(), out_type=str))


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
    return [SentenceStatistics(metric, hypotheses, references, target_language) for metric in _MAIN_METRICS]


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
