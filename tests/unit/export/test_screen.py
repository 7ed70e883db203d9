"""The screen of greedy search in fp32: the error of its logits, and tokens that never pass it."""

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import TensorProto, helper

from nmt_core.export.onnx_kernels import Screen
from nmt_core.models.kernels import FORBIDDEN

INPUTS = {
    "states": (TensorProto.FLOAT, ("rows", "in")),
    "weight": (TensorProto.INT8, ("in", "out")),
    "scale": (TensorProto.FLOAT, ("out",)),
    "penalty": (TensorProto.FLOAT, ("out",)),
}


@pytest.fixture(scope="module")
def product() -> onnxruntime.InferenceSession:
    """The operator that a screen is exported as, with the matrix as an input."""
    node = helper.make_node(
        "DynamicQuantizeMatMul", ["states", "weight", "scale", "", "penalty"], ["rough"], domain="com.microsoft"
    )
    inputs = [helper.make_tensor_value_info(name, *of) for name, of in INPUTS.items()]
    outputs = [helper.make_tensor_value_info("rough", TensorProto.FLOAT, ("rows", "out"))]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "screen", inputs, outputs), opset_imports=opsets, ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def some_floats(shape: tuple[int, int]) -> st.SearchStrategy[np.ndarray]:
    """Draw numbers of the magnitudes of a trained model, and larger ones."""
    return arrays.arrays(np.float32, shape, elements=st.floats(-1_000, 1_000, width=32))


@st.composite
def matrices(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """States [R, M], an output matrix [V, M] and columns to spare."""
    rows, width, pieces = draw(st.integers(1, 7)), draw(st.integers(1, 40)), draw(st.integers(5, 50))
    return draw(some_floats((rows, width))), draw(some_floats((pieces, width))), draw(st.integers(0, 15))


def rough_logits(product: onnxruntime.InferenceSession, screen: Screen, states_RM: np.ndarray) -> np.ndarray:
    tensors = (screen.integers_MV, screen.scale_V, screen.penalty_V)
    arrays_of = [states_RM, *(tensor.contiguous().numpy() for tensor in tensors)]
    rough_RV: np.ndarray = product.run(None, dict(zip(INPUTS, arrays_of, strict=True)))[0]
    return rough_RV


@settings(max_examples=300)
@given(matrices())
def test_rough_logits_are_off_by_no_more_than_rounding_explains(
    product: onnxruntime.InferenceSession, drawn: tuple[np.ndarray, np.ndarray, int]
) -> None:
    states_RM, weight_VM, spare = drawn
    screen = Screen(torch.from_numpy(weight_VM), spare)
    rough_RV, pieces = rough_logits(product, screen, states_RM), len(weight_VM)
    forbidden = [*FORBIDDEN, *range(pieces, pieces + spare)]
    assert (rough_RV[:, forbidden] == -np.inf).all()
    allowed = [piece for piece in range(pieces) if piece not in FORBIDDEN]
    # Half a level of the weights; of the states one, since their zero point is rounded as well.
    level_V = np.abs(weight_VM).max(axis=1).astype(np.float64) / 63
    level = (max(states_RM.max(), 0) - min(states_RM.min(), 0)) / 255
    size_RV = np.abs(states_RM).sum(axis=1, dtype=np.float64)[:, None] * level_V / 2
    bound_RV = size_RV + level * (np.abs(weight_VM).sum(axis=1, dtype=np.float64) + len(states_RM[0]) * level_V / 2)
    exact_RV = states_RM.astype(np.float64) @ weight_VM.T.astype(np.float64)
    error_RV = np.abs(rough_RV[:, :pieces] - exact_RV)
    assert (error_RV <= 1.001 * bound_RV + 1e-3)[:, allowed].all()
