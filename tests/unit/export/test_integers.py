"""Products of integers are equal on every CPU, also on one without VNNI, which adds two of them in 16 bits."""

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import TensorProto, helper

from nmt_core.models.integers import integers_of

GREATEST = 255
"""Largest integer that is multiplied with the weights."""


@pytest.fixture(scope="module")
def product() -> onnxruntime.InferenceSession:
    """Return the operator of a layer in int8, with the weights as an input and without a scale."""
    node = helper.make_node("MatMulIntegerToFloat", ["x", "weight", "one", "one"], ["y"], domain="com.microsoft")
    types = {"x": (TensorProto.UINT8, ("rows", "in")), "weight": (TensorProto.INT8, ("in", "out"))}
    inputs = [helper.make_tensor_value_info(name, *of) for name, of in types.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("rows", "out"))]
    one = helper.make_tensor("one", TensorProto.FLOAT, (), [1.0])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "layer", inputs, outputs, [one])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def weights() -> st.SearchStrategy[np.ndarray]:
    """Draw weights [O, I] of any size, often with the largest values side by side."""
    sizes = st.tuples(st.integers(1, 40), st.integers(1, 70))
    numbers = st.floats(-1_000, 1_000, width=32) | st.sampled_from([-1_000.0, 1_000.0])
    return sizes.flatmap(lambda shape: arrays.arrays(np.float32, shape, elements=numbers))


@settings(max_examples=200)
@given(weights())
def test_the_worst_that_a_layer_may_read_does_not_overflow(
    product: onnxruntime.InferenceSession, weight_OI: np.ndarray
) -> None:
    integers_OI = integers_of(torch.from_numpy(weight_OI))[0].numpy()
    size_OI = np.abs(np.pad(integers_OI.astype(int), ((0, 0), (0, 1))))
    assert GREATEST * (size_OI[:, 1:] + size_OI[:, :-1]).max() <= 2**15 - 1
    # A row for each output, which is 255 where its weights are of one sign
    worst_RI = np.concatenate([np.where(integers_OI * sign > 0, GREATEST, 0) for sign in (1, -1)]).astype(np.uint8)
    (y_RO,) = product.run(None, {"x": worst_RI, "weight": np.ascontiguousarray(integers_OI.T)})
    assert (y_RO == worst_RI.astype(np.int64) @ integers_OI.T.astype(np.int64)).all()


@settings(max_examples=200)
@given(weights())
def test_a_weight_is_off_by_half_a_level_at_most(weight_OI: np.ndarray) -> None:
    integers_OI, scale_O = (tensor.numpy() for tensor in integers_of(torch.from_numpy(weight_OI)))
    assert np.isfinite(scale_O).all() and (scale_O > 0).all()
    error_OI = np.abs(integers_OI * scale_O[:, None].astype(np.float64) - weight_OI)
    assert (error_OI <= 0.5001 * np.abs(weight_OI).max(axis=1, keepdims=True) / 63 + np.finfo(np.float32).tiny).all()


def test_all_of_8_bits_are_used_where_the_greatest_stand_apart() -> None:
    integers_OI, scale_O = integers_of(torch.tensor([[2.0, 0.0, -2.0], [2.0, 2.0, 0.0]]))
    assert integers_OI.tolist() == [[127, 0, -127], [64, 64, 0]]
    torch.testing.assert_close(scale_O, torch.tensor([2 / 127, 4 / 127]))
