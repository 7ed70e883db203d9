"""The graph that returns attention computes what PyTorch computes, from the bundle alone."""

from pathlib import Path

import numpy as np
import pytest
import torch

from nmt_core.errors import ModelError
from nmt_core.models.attention_trace import AttentionView
from nmt_core.models.kernels import Kernels
from nmt_core.models.transformer import Transformer
from nmt_core.search.attention import ATTENTION_OUTPUTS, AttentionGraph

SOURCE_BS = np.array([[5, 6, 7, 8, 9, 3], [10, 11, 3, 0, 0, 0], [4, 3, 0, 0, 0, 0]])
TARGET_BT = np.array([[2, 7, 8, 9], [2, 5, 0, 0], [2, 0, 0, 0]])


@pytest.mark.parametrize(("rows", "source", "target"), [(3, 6, 4), (1, 6, 1), (2, 6, 4), (1, 6, 4)])
def test_the_graph_says_what_pytorch_says(
    tiny_bundle: Path, tiny_model: Transformer, rows: int, source: int, target: int
) -> None:
    source_BS, target_BT = SOURCE_BS[:rows, :source], TARGET_BT[:rows, :target]
    graph = AttentionGraph(tiny_bundle / "fp32")
    assert not graph.is_stepwise
    maps = graph.run(source_BS, target_BT)
    *expected, _ = AttentionView(Kernels(tiny_model), 1)(torch.from_numpy(source_BS), torch.from_numpy(target_BT))
    for name, tensor in zip(ATTENTION_OUTPUTS, expected, strict=True):
        np.testing.assert_allclose(getattr(maps, name), tensor.numpy(), atol=1e-5, err_msg=name)


def test_what_else_is_in_the_batch_changes_nothing(tiny_bundle: Path) -> None:
    graph = AttentionGraph(tiny_bundle / "fp32")
    together, alone = graph.run(SOURCE_BS, TARGET_BT), graph.run(SOURCE_BS[1:2, :3], TARGET_BT[1:2, :2])
    assert together.cross_attention is not None and alone.cross_attention is not None
    np.testing.assert_allclose(together.cross_attention[1, :, :, :2, :3], alone.cross_attention[0], atol=1e-5)


def test_a_bundle_without_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"attention\.onnx: missing: .* export it again"):
        AttentionGraph(tmp_path)
