"""Run the side of transformers in `translate.py`: Marian's model and `generate`, with the same weights.

    python3.11 -m venv /tmp/marian
    /tmp/marian/bin/pip install transformers==5.23.0 torch==2.13.0 numpy safetensors

The conversion is exact. Our positions replace Marian's, which have another order, and the biases that its attention has
and ours has not are zero. Its layers are post-norm, with one matrix for three embeddings. Other models are refused.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel  # type: ignore[import-not-found]
from translate_child import Ids, Question, serve
from translate_models import Weights

from nmt_core.search.batches import batches_by_length

_PAD, _BOS, _EOS = 0, 2, 3
_POSITIONS = 2_048


def convert(weights: Weights, heads: int) -> Any:
    """Our weights as a model of Marian."""
    sizes = weights.sizes(heads)
    if sizes["norm"] != "post" or sizes["tied_embeddings"] != "three_way":
        sys.exit("transformers' Marian is post-norm and ties three embeddings: leave it out for this model")
    config = MarianConfig(
        vocab_size=len(weights["output.weight"]),
        d_model=sizes["d_model"],
        max_position_embeddings=_POSITIONS,
        scale_embedding=True,
        activation_function="relu",
        pad_token_id=_PAD,
        bos_token_id=_BOS,
        eos_token_id=_EOS,
        decoder_start_token_id=_BOS,
        forced_eos_token_id=None,
        **{f"{stack}_layers": sizes[f"{stack}_layers"] for stack in ("encoder", "decoder")},
        **{f"{stack}_attention_heads": heads for stack in ("encoder", "decoder")},
        **{f"{stack}_ffn_dim": sizes["d_ff"] for stack in ("encoder", "decoder")},
    )
    model = MarianMTModel(config).eval().requires_grad_(False)
    arrays = {"shared.weight": weights["output.weight"]}
    for stack in ("encoder", "decoder"):
        arrays[f"{stack}.embed_positions.weight"] = weights.positions(_POSITIONS)
        for number in range(sizes[f"{stack}_layers"]):
            arrays |= _layer(weights, f"{stack}.{number}", f"{stack}.layers.{number}", stack == "decoder")
    parameters = dict(model.model.named_parameters())
    for name, parameter in parameters.items():
        parameter.zero_() if name not in arrays else parameter.copy_(torch.from_numpy(arrays.pop(name)))
    assert not arrays, f"no such parameters: {sorted(arrays)}"
    return model


def _layer(weights: Weights, ours: str, theirs: str, is_decoder: bool) -> dict[str, Any]:
    q, k, v = weights[f"{ours}.self_attention.query_key_value.weight"].reshape(3, -1, weights["output.weight"].shape[1])
    layer = {f"{theirs}.self_attn.{name}_proj.weight": x for name, x in (("q", q), ("k", k), ("v", v))}
    layer[f"{theirs}.self_attn.out_proj.weight"] = weights[f"{ours}.self_attention.output.weight"]
    norms = {"self_attention_frame": "self_attn_layer_norm", "feed_forward_frame": "final_layer_norm"}
    if is_decoder:
        norms["cross_attention_frame"] = "encoder_attn_layer_norm"
        k, v = weights[f"{ours}.cross_attention.key_value.weight"].reshape(2, -1, q.shape[1])
        q = weights[f"{ours}.cross_attention.query.weight"]
        layer |= {f"{theirs}.encoder_attn.{name}_proj.weight": x for name, x in (("q", q), ("k", k), ("v", v))}
        layer[f"{theirs}.encoder_attn.out_proj.weight"] = weights[f"{ours}.cross_attention.output.weight"]
    for part in ("weight", "bias"):
        layer |= {f"{theirs}.{new}.{part}": weights[f"{ours}.{old}.norm.{part}"] for old, new in norms.items()}
        layer |= {
            f"{theirs}.{new}.{part}": weights[f"{ours}.feed_forward.{old}.{part}"]
            for old, new in (("inner", "fc1"), ("outer", "fc2"))
        }
    return layer


class LoadedModel:
    """A loaded model of transformers."""

    def __init__(self, question: Question) -> None:
        torch.set_num_threads(question["threads"])
        self.device = question["device"]
        dtype = torch.float16 if question["half"] else torch.float32
        self.model = convert(Weights(Path(question["weights"])), question["heads"]).to(self.device, dtype)
        self.pool = ThreadPoolExecutor(question["workers"])
        self.sources: Sequence[Ids] = []

    def prepare(self, sources: Sequence[Ids]) -> None:
        self.sources = sources

    def translate(self, question: Question) -> list[list[int]]:
        batches = batches_by_length(list(map(len, self.sources)), question["batch_tokens"])
        rows_by_place: dict[int, list[int]] = {}
        for batch, rows in zip(
            batches, self.pool.map(lambda batch: self._generate(batch, question), batches), strict=True
        ):
            rows_by_place |= dict(zip(batch, rows, strict=True))
        return [rows_by_place[place] for place in range(len(self.sources))]

    @torch.inference_mode()
    def _generate(self, batch: list[int], question: Question) -> list[list[int]]:
        longest = max(len(self.sources[place]) for place in batch) + 1
        ids = torch.full((len(batch), longest), _PAD)
        for row, place in zip(ids, batch, strict=True):
            source = [*self.sources[place], _EOS]
            row[: len(source)] = torch.tensor(source)
        ids = ids.to(self.device)
        generated: Tensor = self.model.generate(
            input_ids=ids,
            attention_mask=(ids != _PAD).long(),
            num_beams=question["beam"],
            do_sample=False,
            length_penalty=question["length_penalty"],
            early_stopping=False,
            max_new_tokens=longest + question["offset"],
        )
        rows: list[list[int]] = generated[:, 1:].tolist()
        return rows

    def targets(self, translated: Any) -> list[Ids]:
        return [ids[: ids.index(_EOS)] if _EOS in ids else [i for i in ids if i != _PAD] for ids in translated]


if __name__ == "__main__":
    serve(LoadedModel)
