"""The soft alignment of recurrent models: the graph, read step by step, equals the model on whole sentences."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt_core.config import ModelConfig
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx_rnn import OnnxRnnKernels
from nmt_core.models.build import build_model
from nmt_core.models.recurrent import attention as recurrent_attention
from nmt_core.search.alignment import Aligner
from nmt_core.search.attention import AttentionGraph
from nmt_core.search.hypothesis import Hypothesis
from nmt_core.search.step import pad_sources

SOURCES = [[5, 6, 7, 8, 9], [10, 11], [12]]
TARGETS = [(7, 8, 9), (5,), (4, 6)]
TARGET_BT = np.array([[2, 7, 8, 9], [2, 5, 0, 0], [2, 4, 6, 0]])


@pytest.mark.parametrize("window", ["monotonic", "predictive"])
@pytest.mark.parametrize("attention", ["dot", "general, input feeding"])
def test_local_attention_is_shown_in_its_window(attention: str, window: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    rnn = {"hidden_size": 12, "bidirectional": False, "window": window, "window_size": 1, "cell": "lstm"}
    rnn |= {"attention": attention.split(",")[0], "input_feeding": attention.endswith("input feeding")}
    values = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "tied_embeddings": "none"}
    config = ModelConfig.model_validate(values | {"architecture": "rnn", "rnn": rnn})
    model = build_model(config, 40).eval().requires_grad_(False)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    export_graphs(OnnxRnnKernels(model), tmp_path / "fp32", with_attention=True)
    maps = AttentionGraph(tmp_path / "fp32").run(pad_sources(SOURCES), TARGET_BT)
    assert maps.cross_attention is not None
    for weights_TS, source, target in zip(maps.cross_attention[:, 0, 0], SOURCES, TARGETS, strict=True):
        for place, weights_S in enumerate(weights_TS[: len(target) + 1]):
            seen = np.flatnonzero(weights_S)
            if window == "monotonic":
                middle = min(place, len(source))
                assert seen.tolist() == [s for s in range(len(source) + 1) if abs(s - middle) <= 1]
                assert weights_S.sum() == pytest.approx(1)
            else:
                assert 1 <= len(seen) <= 3 and seen[-1] - seen[0] == len(seen) - 1
                assert seen[-1] <= len(source) and weights_S.sum() < 1, "the Gaussian takes a part"


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("attention", ["additive", "dot", "general", "concat", "concat, input feeding"])
def test_the_graph_says_what_the_model_says(
    attention: str, cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(2)
    sizes = {
        "cell": cell,
        "hidden_size": 12,
        "alignment_size": 6,
        "maxout_size": 6,
        "bidirectional": attention == "additive",
        "input_feeding": attention.endswith("input feeding"),
    }
    values = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "tied_embeddings": "none", "rnn": sizes}
    values |= {"architecture": "rnn", "rnn": sizes | {"attention": attention.split(",")[0]}}
    config = ModelConfig.model_validate(values)
    model = build_model(config, 40).eval().requires_grad_(False)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    export_graphs(OnnxRnnKernels(model), tmp_path / "fp32", with_attention=True)
    source_BS = pad_sources(SOURCES)
    seen = list[Tensor]()
    softmax_over = recurrent_attention.softmax_over

    def looked_at(scores: Tensor, is_token: Tensor) -> Tensor:
        seen.append(softmax_over(scores, is_token))
        return seen[-1]

    monkeypatch.setattr(recurrent_attention, "softmax_over", looked_at)
    model(torch.from_numpy(source_BS), torch.from_numpy(TARGET_BT))
    expected = torch.cat(seen, dim=1).numpy()
    graph = AttentionGraph(tmp_path / "fp32")
    maps = graph.run(source_BS, TARGET_BT)
    assert graph.is_stepwise and maps.encoder_attention is None and maps.source_positions is None
    assert maps.cross_attention is not None and maps.target_embedding is not None
    np.testing.assert_allclose(maps.cross_attention[:, 0, 0], expected, atol=1e-5)
    np.testing.assert_allclose(maps.target_embedding[0], model.target_embedding.weight[TARGET_BT[0]].numpy())
    found = Aligner(tmp_path / "fp32", 1_000).align(SOURCES, [[Hypothesis(ids, 0.0)] for ids in TARGETS], 0)
    for sentence, [one] in enumerate(found):
        width = len(SOURCES[sentence])
        best = {(int(expected[sentence, place, : width + 1].argmax()), place) for place in range(len(one.ids))}
        assert set(one.links) == {link for link in best if link[0] < width}
