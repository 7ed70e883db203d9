"""Run CTranslate2's side of `translate.py`, by an interpreter that has ctranslate2, numpy and safetensors.

    translate_ctranslate2.py                                             to be asked (`translate_child.py`)
    translate_ctranslate2.py WEIGHTS HEADS FOLDER QUANTISATION           to convert weights of ours into a model

The weights are converted as they are trained, by CTranslate2's own classes. Sinusoidal positions are written in our
order (sines in even columns), embeddings are scaled by the square root of their width, and neither attention nor the
output has biases. The words of its vocabulary are numbers, because it gets pieces as ids.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2  # type: ignore[import-not-found]
from ctranslate2.specs import TransformerSpec  # type: ignore[import-not-found]
from translate_child import Ids, Question, serve
from translate_models import Weights

from nmt_core.search.batches import batches_by_length

_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
_POSITIONS = 2_048
_SAMPLING = {"top_k": "sampling_topk", "top_p": "sampling_topp"}


def convert(file: Path, heads: int, folder: Path, quantisation: str) -> None:
    """Write a model of CTranslate2."""
    weights = Weights(file)
    layers = (weights.layers("encoder"), weights.layers("decoder"))
    spec = TransformerSpec.from_config(layers, heads, pre_norm=weights.is_pre_norm)
    for side, part in (("source", spec.encoder), ("target", spec.decoder)):
        matrix = weights[f"{side}_embedding.weight"]
        embeddings = part.embeddings[0] if side == "source" else part.embeddings
        embeddings.weight = matrix
        part.position_encodings.encodings = weights.positions(_POSITIONS)
        register = getattr(spec, f"register_{side}_vocabulary")
        register([*_SPECIAL, *map(str, range(len(_SPECIAL), len(matrix)))])
    spec.decoder.projection.weight = weights["output.weight"]
    for stack, part in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        for number, layer in enumerate(part.layer):
            _set_layer(layer, weights, f"{stack}.{number}")
        if weights.is_pre_norm:
            _set_norm(part.layer_norm, weights, f"{stack}_norm")
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = 1e-5  # PyTorch's
    spec.validate()
    spec.optimize(quantization=quantisation)
    folder.mkdir(parents=True)
    spec.save(str(folder))


def _set_layer(spec: Any, weights: Weights, name: str) -> None:
    spec.self_attention.linear[0].weight = weights[f"{name}.self_attention.query_key_value.weight"]
    spec.self_attention.linear[1].weight = weights[f"{name}.self_attention.output.weight"]
    _set_norm(spec.self_attention.layer_norm, weights, f"{name}.self_attention_frame.norm")
    if hasattr(spec, "attention"):
        for linear, part in zip(spec.attention.linear, ("query", "key_value", "output"), strict=True):
            linear.weight = weights[f"{name}.cross_attention.{part}.weight"]
        _set_norm(spec.attention.layer_norm, weights, f"{name}.cross_attention_frame.norm")
    for linear, part in ((spec.ffn.linear_0, "inner"), (spec.ffn.linear_1, "outer")):
        linear.weight = weights[f"{name}.feed_forward.{part}.weight"]
        linear.bias = weights[f"{name}.feed_forward.{part}.bias"]
    _set_norm(spec.ffn.layer_norm, weights, f"{name}.feed_forward_frame.norm")


def _set_norm(spec: Any, weights: Weights, name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


class LoadedModel:
    """A loaded model of CTranslate2."""

    def __init__(self, question: Question) -> None:
        self.translator = ctranslate2.Translator(
            question["model"],
            device=question["device"],
            compute_type=question["precision"],
            inter_threads=question["workers"],
            intra_threads=question["threads"],
        )
        self.words: list[list[str]] = []

    def prepare(self, sources: Sequence[Ids]) -> None:
        self.words = [[_SPECIAL[i] if i < len(_SPECIAL) else str(i) for i in ids] for ids in sources]

    def translate(self, question: Question) -> Any:
        # It makes batches itself, too, as quickly; but then the limit of the length is one for all.
        batches = batches_by_length(list(map(len, self.words)), question["batch_tokens"])
        sampling = {_SAMPLING[name]: value for name, value in question.get("sample", {}).items()}
        requested = [
            self.translator.translate_batch(
                [self.words[place] for place in batch],
                beam_size=question["beam"],
                length_penalty=question["length_penalty"],
                max_decoding_length=len(self.words[batch[0]]) + question["offset"] + 1,
                min_decoding_length=0,  # ours may say nothing, too
                asynchronous=True,
                **sampling,
            )
            for batch in batches
        ]
        results = {
            place: one.result()
            for batch, of_batch in zip(batches, requested, strict=True)
            for place, one in zip(batch, of_batch, strict=True)
        }
        return [results[place] for place in range(len(self.words))]

    def targets(self, translated: Any) -> list[Ids]:
        special = {word: number for number, word in enumerate(_SPECIAL)}
        return [
            [special[word] if word in special else int(word) for word in result.hypotheses[0]] for result in translated
        ]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        convert(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
    else:
        serve(LoadedModel)
