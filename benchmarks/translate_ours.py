"""Run our side of `translate.py`: a bundle in ONNX Runtime, or its weights in PyTorch, kernel by kernel."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from translate_child import Contender, Ids, Question, serve
from translate_models import Weights

from nmt_core.config import ModelConfig, SearchConfig
from nmt_core.search.hypothesis import Hypothesis
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.translator import Translator

Sample = tuple[tuple[str, Any], ...]
"""Options of sampling and their values, by name. Without any, nothing is sampled."""


class LoadedModel:
    """Model of ours that answers questions. It is loaded for beam search, and again for each other kind of search.

    Args:
        opened: loads the model, given whether the search is greedy, and the rules of sampling, which are empty if
            nothing is sampled.
    """

    def __init__(self, opened: Callable[[bool, Sample], Translator]) -> None:
        self.opened = cache(opened)
        self.opened(False, ())
        self.sources: Sequence[Ids] = []

    def prepare(self, sources: Sequence[Ids]) -> None:
        self.sources = sources

    def translate(self, question: Question) -> list[Hypothesis]:
        sample: Sample = tuple(sorted(question.get("sample", {}).items()))
        search = SearchConfig(
            **_method(sample),
            beam_size=question["beam"],
            length_penalty=question["length_penalty"],
            max_length_offset=question["offset"],
            batch_tokens=question["batch_tokens"],
        )
        translator = self.opened(search.beam_size == 1, sample)
        translator.search = search
        return [best for best, *_ in translator.search_ids(self.sources, [[] for _ in self.sources])]

    def targets(self, translated: Any) -> list[Ids]:
        return [list(hypothesis.ids) for hypothesis in translated]


def load(question: Question) -> Contender:
    """Return the bundle as a model, or its weights in PyTorch if the precision is `eager`. Neither computes scores."""
    if question["precision"] == "eager":
        eager = _eager(question)
        return LoadedModel(lambda greedy, sample: eager)
    precision, listed = question["precision"], question.get("shortlist", False)

    def opened(greedy: bool, sample: Sample) -> Translator:
        search = SearchConfig(**_method(sample), beam_size=1 if greedy else 2, precision=precision, shortlist=listed)
        return Translator.load(Path(question["model"]), search, question["workers"], question["device"], scores=False)

    return LoadedModel(opened)


def _method(sample: Sample) -> dict[str, Any]:
    return {"method": "sample"} | dict(sample) if sample else {}


def _eager(question: Question) -> Translator:
    import torch

    from nmt_core.export.onnx import load_weights
    from nmt_core.search.torch_step import TorchStepper

    torch.set_num_threads(question["threads"])
    tokenizers = Tokenizers.load(Path(question["model"]))
    weights = Weights(Path(question["weights"]))
    model = load_weights(Path(question["weights"]), ModelConfig(**weights.sizes(question["heads"])), tokenizers)
    model.positions_LM.copy_(torch.from_numpy(weights.positions(len(model.positions_LM))))
    return Translator(TorchStepper(model.to(question["device"])), tokenizers, SearchConfig(), question["workers"])


if __name__ == "__main__":
    serve(load)
