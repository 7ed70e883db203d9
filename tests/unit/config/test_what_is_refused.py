"""Options that contradict each other, or have no effect: the message names the place, the value and the remedy."""

from typing import Any

import pytest
from support.facts import raises

from nmt_core.config import PipelineConfig

SUITE = {"kind": "numbers"}
SYSTEM = {"name": "other", "file": "other.txt"}
METRIC = {"name": "chrF++"}
RNN = {"architecture": "rnn", "encoder_layers": 1, "decoder_layers": 1}
ONE_PAIR = "set languages.pairs to all pairs"


def text(**options: Any) -> dict[str, Any]:
    return {"train": [{"name": "a", "address": "a.tsv"}]} | options


@pytest.mark.parametrize(
    ("sections", "facts"),
    [
        (
            {"evaluate": {"suites": [{"kind": "numbers", "rate": 0.5}]}},
            ("rate", "numbers", "only on typos", "remove it"),
        ),
        ({"evaluate": {"suites": [SUITE, SUITE]}}, ("suites", "numbers twice", "remove one")),
        ({"evaluate": {"systems": [SYSTEM, SYSTEM]}}, ("systems", "'other' twice", "otherwise")),
        ({"languages": {"source": "zh_Hant", "source_variant": "Hans"}}, ("zh_Hant", "'Hans'", "one of the two")),
        ({"languages": {"source": "qq-x1"}}, ("languages.source", "zh_Hant or pt_BR")),
        ({"languages": {"pairs": ["en-en"]}}, ("'en-en'", "one language twice", "a source and a target")),
        ({"model": RNN | {"rnn": {"attention": "additive", "window": "monotonic"}}}, ("window=monotonic", "general")),
        (
            {"model": RNN | {"tied_embeddings": "none", "attention_bias": True}},
            ("attention_bias", "architecture to transformer"),
        ),
        ({"train": {"dev_metric": METRIC, "dev_sentences": 0}}, ("dev_metric=chrF\\+\\+", "set dev_sentences")),
        ({"train": {"stop_on": "dev_metric", "dev_sentences": 9}}, ("stop_on=dev_metric", "set dev_metric")),
        ({"encode": {"samples": 3}}, ("samples=3", "the same", "set subword_sampling")),
        (
            {"encode": {"subword_sampling": 0.1}, "tokenizer": {"kind": "char"}},
            ("subword_sampling=0.1", "kind=char", "to 0"),
        ),
        ({"augmentation": {"parts": [{"name": "b", "changes": "typos", "pairs": ["en-de", "en-de"]}]}}, ("twice",)),
        (
            {"augmentation": {"parts": [{"name": "b", "changes": "typos", "pairs": ["en-ko"]}]}},
            ("pairs=en-ko", ONE_PAIR),
        ),
        (
            {"synthesis": {"parts": [{"name": "b", "text": "parallel_source", "teachers": "t", "pair": "en-ko"}]}},
            ("synthesis.parts.0.pair=en-ko", ONE_PAIR),
        ),
        ({"evaluate": {"must_translate": [{"source": "a", "pair": "en-ko"}]}}, ("0.pair=en-ko", ONE_PAIR)),
        ({"registry": {"champion": "pair"}}, ("registry.champion=pair", ONE_PAIR)),
        ({"tokenizer": {"start_from": "b", "added_pieces": {"ko": 9}}}, ("tokenizer.added_pieces", ONE_PAIR)),
        ({"mix": {"pairs": [{"pair": "en-de"}]}}, ("mix.pairs", "languages.pairs is empty")),
        ({"corpus": text(test=[{"name": "b", "address": "b.tsv", "zero_shot": True}])}, ("zero_shot", ONE_PAIR)),
    ],
)
def test_it_is_refused_with_place_value_and_remedy(sections: dict[str, Any], facts: tuple[str, ...]) -> None:
    with raises(ValueError, *facts):
        PipelineConfig.model_validate({"name": "x", "corpus": text()} | sections)
