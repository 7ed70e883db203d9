"""In every search, sequences of tokens that may occur once occur once, and used tokens become less likely."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nmt_core.config import SearchConfig
from nmt_core.models.transformer import Transformer
from nmt_core.search.torch_step import TorchStepper
from nmt_core.translator import Translator

LINES = ["the cat sees a dog.", "now", "a big house and a small house", "to it to it", "나는 학생 이다."]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4},
    "sample": {"method": "sample", "top_k": 5},
    "sample from all": {"method": "sample"},
}


def searched(translator: Translator) -> list[tuple[int, ...]]:
    ids = translator.tokenizers.source.encode(LINES)
    return [found[0].ids for found in translator.search_ids(ids, [[] for _ in ids])]


def search(**options: Any) -> SearchConfig:
    return SearchConfig(max_length_offset=30, max_source_tokens=16, batch_tokens=256, **options)


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_no_sequence_occurs_twice(options: dict[str, Any], tiny_bundle: Path) -> None:
    free = Translator.load(tiny_bundle, search(**options))
    assert any(len(set(pairwise(ids))) < len(list(pairwise(ids))) for ids in searched(free))
    for ids in searched(free.with_search(no_repeat_ngram_size=2)):
        assert len(set(pairwise(ids))) == len(list(pairwise(ids)))
    for ids in searched(free.with_search(no_repeat_ngram_size=1)):
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_a_penalty_makes_repetition_rarer(options: dict[str, Any], tiny_bundle: Path) -> None:
    def repeated(translator: Translator) -> int:
        return sum(len(ids) - len(set(ids)) for ids in searched(translator))

    free = Translator.load(tiny_bundle, search(**options))
    assert repeated(free.with_search(repetition_penalty=3.0)) < repeated(free)


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_every_backend_finds_the_same(options: dict[str, Any], tiny_bundle: Path, tiny_model: Transformer) -> None:
    limited = search(no_repeat_ngram_size=2, repetition_penalty=1.5, precision="fp32", **options)
    in_onnx = Translator.load(tiny_bundle, limited)
    assert searched(Translator(TorchStepper(tiny_model), in_onnx.tokenizers, limited)) == searched(in_onnx)


def test_a_search_without_scores_has_the_limits_too(tiny_bundle: Path) -> None:
    limited = search(beam_size=1, no_repeat_ngram_size=2)
    with_scores, without = (searched(Translator.load(tiny_bundle, limited, scores=scores)) for scores in (True, False))
    assert with_scores == without
