"""Scores beside the main ones: over morphemes, and of the sentences that the vocabulary knows."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt_core import scoring
from nmt_core.config import SearchConfig
from nmt_core.evaluate.further_scores import (
    further_scores,
    known_sentences,
    translate_known,
    unknown_in_references,
)
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.models.transformer import Transformer
from nmt_core.scoring import score
from nmt_core.search.greedy import greedy_search
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import UNK_ID, Tokenizer
from nmt_core.translator import Translator

SOURCES = ["the cat sees a dog.", "the 漢 house", "now\u200b", "the dog runs"]
REFERENCES = ["나는 학생 이다.", "나는 본다", "본다", "ñ 본다"]
TEST = TestSet("news", SOURCES, REFERENCES)
HYPOTHESES = ["나는 학생 이다.", "본다", "본다", "본다"]


@pytest.fixture
def translator(tiny_bundle: Path) -> Translator:
    return Translator.load(tiny_bundle)


def test_a_sentence_is_known_if_both_sides_are(translator: Translator) -> None:
    assert known_sentences(TEST, translator) == [0, 2], "text is tidied before, as when it is translated"


def test_unknown_tokens_of_the_references_are_counted(translator: Translator) -> None:
    target = translator.tokenizers.target
    ids = target.encode(REFERENCES)
    unknown = [line.count(UNK_ID) for line in ids]
    assert unknown[:3] == [0, 0, 0] and unknown[3] > 0
    assert unknown_in_references(TEST, translator) == pytest.approx(unknown[3] / sum(map(len, ids)), abs=1e-6)
    invisible = TestSet("news", SOURCES, [f"\u200b{line}" for line in REFERENCES])
    assert unknown_in_references(invisible, translator) == unknown_in_references(TEST, translator), "tidied before"
    assert unknown_in_references(TestSet("none", [], []), translator) == 0


@pytest.fixture
def fond_of_unknown(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer, bundle_of: Callable[[Transformer], Path]
) -> Translator:
    """Make a model that finds <unk> more likely than the first token of its translation."""
    model, search = copy.deepcopy(tiny_model), SearchConfig(beam_size=1, max_length_offset=5)
    [hypothesis] = greedy_search(TorchStepper(model), tiny_tokenizer.encode(SOURCES[:1]), search)
    model.output.weight[UNK_ID] = 1.5 * model.output.weight[hypothesis.ids[0]]
    return Translator.load(bundle_of(model), search)


def test_known_sentences_are_translated_without_unknown_words(fond_of_unknown: Translator) -> None:
    said = [one.text for one in fond_of_unknown.translate(SOURCES)]
    assert "\u2047" in said[0], "or it would show nothing"
    found = translate_known(TEST, said, fond_of_unknown)
    assert found.keys() == {0, 2} and not any("\u2047" in text for text in found.values())
    assert fond_of_unknown.search.allow_unknown, "all others are what they were"
    whole = TestSet("news", SOURCES[:1], REFERENCES[:1])
    assert translate_known(whole, said[:1], fond_of_unknown) == {0: said[0]}, "no score asks for it"


def test_bleu_without_unknown_words_is_of_the_known_sentences_alone() -> None:
    lines: list[str] = []
    (found,) = further_scores(TEST, HYPOTHESES, {0: "나는 학생 이다.", 2: "본다"}, "de", lines.append)
    bleu, _ = score("news", ["나는 학생 이다.", "본다"], ["나는 학생 이다.", "본다"], "de")
    assert (found.metric, found.score, found.signature) == ("BLEU no UNK", bleu.score, bleu.signature)
    assert not lines


@pytest.mark.parametrize("known", [{}, dict(enumerate(HYPOTHESES))])
def test_where_all_or_none_are_known_there_is_no_such_score(known: dict[int, str]) -> None:
    assert further_scores(TEST, HYPOTHESES, known, "de", print) == []


def test_korean_has_one_over_morphemes_and_says_so_if_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [one.metric for one in further_scores(TEST, HYPOTHESES, {0: "본다"}, "ko", print)] == [
        "BLEU ko-mecab",
        "BLEU no UNK",
    ]
    monkeypatch.setattr(scoring, "_bleu_of_morphemes", lambda: None)
    lines: list[str] = []
    assert further_scores(TEST, HYPOTHESES, {}, "ko", lines.append) == []
    assert "pip install 'nmt-pipeline[korean]'" in lines[0]
