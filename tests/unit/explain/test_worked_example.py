"""Matrices of the first layers: of a very small model as numbers, against the formulas in numpy, and as heat maps."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nmt_core.config import ExportConfig, ModelConfig, SearchConfig
from nmt_core.explain.explanation import Explanation, explain
from nmt_core.explain.page import page
from nmt_core.export.parity import check_parity
from nmt_core.models.transformer import Transformer
from nmt_core.search.onnx_step import OnnxStepper
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID

LINE = "a dog sees it"
SEARCH = SearchConfig(copy_unknown="never", beam_size=2, max_length_offset=3)
SIZES: dict[str, Any] = {"d_model": 4, "num_heads": 2, "d_ff": 16, "encoder_layers": 2, "decoder_layers": 1}
Floats = np.ndarray


def small(norm: str) -> Transformer:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = Transformer(ModelConfig(**SIZES, norm=norm), 100, 2_048)
        for name, weight in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                torch.nn.init.normal_(weight, mean=0.5, std=0.3)
    model.output.weight.data *= 3
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module", params=["post", "pre"])
def worked(request: pytest.FixtureRequest, bundle_of: Callable[..., Path]) -> tuple[Transformer, Explanation, Path]:
    model = small(request.param)
    folder = bundle_of(model)
    return model, explain(folder, LINE, SEARCH), folder


def norm(x: Floats, weights: dict[str, Floats], name: str) -> Floats:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def attention(x: Floats, weights: dict[str, Floats], layer: str, *, is_pre: bool, causal: bool) -> dict[str, Floats]:
    """Vaswani et al. 2017, sections 3.2.1 and 3.2.2, head by head."""
    frame, found = f"{layer}.self_attention_frame.norm", {"input": x}
    found["entered"] = entered = norm(x, weights, frame) if is_pre else x
    of_heads: dict[str, list[Floats]] = {}
    for head in range(2):
        part = {}
        for number, name in enumerate(("queries", "keys", "values")):
            rows = slice(4 * number + 2 * head, 4 * number + 2 * head + 2)
            part[name] = entered @ weights[f"{layer}.self_attention.query_key_value.weight"][rows].T
        part["scores"] = part["queries"] @ part["keys"].T
        part["scaled"] = part["scores"] / np.sqrt(2)
        hidden = np.triu(np.ones_like(part["scaled"]), 1) if causal else np.zeros_like(part["scaled"])
        part["masked"] = np.where(hidden == 1, -np.inf, part["scaled"])
        exponentials = np.exp(part["masked"])
        part["weights"] = exponentials / exponentials.sum(-1, keepdims=True)
        part["summed"] = part["weights"] @ part["values"]
        for name, matrix in part.items():
            of_heads.setdefault(name, []).append(matrix)
    found |= {name: np.stack(matrices) for name, matrices in of_heads.items()}
    found["joined"] = np.concatenate(of_heads["summed"], axis=-1)
    found["output"] = found["joined"] @ weights[f"{layer}.self_attention.output.weight"].T
    found["residual"] = x + found["output"]
    found["left"] = found["residual"] if is_pre else norm(found["residual"], weights, frame)
    return found


def test_each_matrix_is_by_its_formula(worked: tuple[Transformer, Explanation, Path]) -> None:
    model, explanation, _ = worked
    is_pre = model.config.norm == "pre"
    weights = {name: weight.double().numpy() for name, weight in model.named_parameters()}
    source = np.array([token.id for token in explanation.source])
    read = np.array([BOS_ID, *(step.said.id for step in explanation.steps if step.said.id != EOS_ID)])
    positions, table = model.positions_LM.double().numpy(), weights["target_embedding.weight"] * 2
    expected = {}
    for part, ids, causal in (("encoder", source, False), ("decoder", read, True)):
        x = table[ids] + positions[: len(ids)]
        found = attention(x, weights, f"{part}.0", is_pre=is_pre, causal=causal)
        expected |= {f"{part}_{name}": matrix for name, matrix in found.items()}
    x, frame, network = expected["encoder_left"], "encoder.0.feed_forward_frame.norm", "encoder.0.feed_forward"
    entered = norm(x, weights, frame) if is_pre else x
    activated = np.maximum(entered @ weights[f"{network}.inner.weight"].T + weights[f"{network}.inner.bias"], 0)
    output = activated @ weights[f"{network}.outer.weight"].T + weights[f"{network}.outer.bias"]
    expected |= {"network_activated": activated, "network_output": output, "network_residual": x + output}
    expected["network_left"] = x + output if is_pre else norm(x + output, weights, frame)
    states = model(torch.from_numpy(source)[None], torch.from_numpy(read)[None])
    expected["logits"] = model.output(states)[0].double().numpy()
    assert explanation.worked is not None
    assert explanation.worked.keys() == expected.keys()
    for name, matrix in expected.items():
        np.testing.assert_allclose(
            explanation.worked[name][..., : matrix.shape[-2], :], matrix, atol=2e-5, err_msg=name
        )


def test_the_page_has_the_numbers_in_their_order(worked: tuple[Transformer, Explanation, Path]) -> None:
    model, explanation, _ = worked
    text = page(explanation, "small")
    titles = re.findall(r"<caption>(.*?)</caption>", text)
    of_encoder = titles[: titles.index("Feed-forward network: after the activation")]
    expected = ["Input", "Queries", "Keys", "Values", "Raw", "Scaled", "Masked", "Softmax", "Weighted", "Conc", "Times"]
    found = [title for title in of_encoder if not title.endswith("head 2") and "Layer norm" not in title]
    assert [title.startswith(word) for title, word in zip(found, [*expected, "Residual"], strict=True)] == [True] * 12
    is_pre = model.config.norm == "pre"
    assert of_encoder[1 if is_pre else -1].startswith("Layer normalisation " + ("before" if is_pre else "after"))
    assert "−∞" in text and titles[-1] == "Largest logits after each token"
    assert explanation.worked is not None
    first = explanation.worked["encoder_queries"][0, 0, 0]
    assert f"<td>{first:.2f}</td>".replace("-", "−") in text
    best = explanation.steps[0].candidates[0].token
    assert f"{explanation.worked['logits'][0, best.id]:.2f}" in text


@pytest.fixture(scope="module")
def larger(tiny_bundle: Path) -> Explanation:
    return explain(tiny_bundle, LINE, SEARCH)


def heat_maps_of(text: str) -> list[list[dict[str, Any]]]:
    [found] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    groups: list[list[dict[str, Any]]] = json.loads(found)["heat_maps"]
    return groups


def numbers_of(heat_map: dict[str, Any]) -> Floats:
    """Return the numbers [H, L, N] that a heat map shows, to the nearest level."""
    levels = np.frombuffer(base64.b64decode(heat_map["levels"]), dtype=np.int8)
    shaped = levels.reshape(heat_map["heads"], len(heat_map["rows"]), heat_map["width"])
    return np.where(shaped == -128, -np.inf, shaped / 127 * np.array(heat_map["greatest"])[:, None, None])


def test_a_larger_model_has_heat_maps_of_the_same_matrices(larger: Explanation) -> None:
    worked, text = larger.worked, page(larger, "larger")
    assert worked is not None
    groups = heat_maps_of(text)
    assert [len(group) for group in groups] == [17, 13]  # post-norm: nothing is normalised before attention
    names = [name for name in worked if name not in ("encoder_entered", "decoder_entered", "logits")]
    maps = [heat_map for group in groups for heat_map in group]
    for name, heat_map in zip(names, maps, strict=True):
        expected = worked[name] if worked[name].ndim == 3 else worked[name][None]
        expected = expected[:, : len(heat_map["rows"]), : heat_map["width"]]
        shown = numbers_of(heat_map)
        assert (np.isneginf(shown) == np.isneginf(expected)).all(), name
        near = max(heat_map["greatest"]) / 254 + 1e-6
        np.testing.assert_allclose(shown[np.isfinite(shown)], expected[np.isfinite(shown)], atol=near, err_msg=name)
    assert np.isneginf(numbers_of(maps[names.index("decoder_masked")])).sum() > 0
    assert set(maps[names.index("encoder_weights")]["greatest"]) == {1}
    assert maps[names.index("encoder_scores")]["columns"] == [token.piece for token in larger.source]
    assert '<table class="numbers"><caption>Largest logits' in text and text.count('class="numbers"') == 1


def test_heat_maps_show_the_attention_that_the_page_shows_elsewhere(larger: Explanation) -> None:
    """Another graph computes the weights of all layers."""
    assert larger.worked is not None
    for name in ("encoder", "decoder"):
        weights_NHLL = getattr(larger.maps, f"{name}_attention")
        np.testing.assert_allclose(larger.worked[f"{name}_weights"], weights_NHLL[0], atol=1e-5)


def test_a_small_model_has_no_heat_maps(worked: tuple[Transformer, Explanation, Path]) -> None:
    text = page(worked[1], "small")
    assert heat_maps_of(text) == []
    assert 'id="matrices"' in text and 'class="heat"' not in text


def test_so_small_a_model_passes_the_gate(worked: tuple[Transformer, Explanation, Path]) -> None:
    model, _, folder = worked
    sources = [np.random.default_rng(seed).integers(4, 100, 2 + seed).tolist() for seed in range(8)]
    stepper = OnnxStepper(folder / "fp32", 100)
    reference = TorchStepper(model)
    config = ExportConfig(parity_beam_size=3)
    assert check_parity(reference, stepper, sources, config, reference.in_float64).identical == 8
