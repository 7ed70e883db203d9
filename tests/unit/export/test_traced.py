"""Recorded graphs compute what traced graphs of PyTorch's own exporter compute. That exporter takes minutes."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from nmt_core.config import ModelConfig, SearchConfig
from nmt_core.export import graphs, onnx_kernels, onnx_rnn
from nmt_core.export.calibration import calibrate
from nmt_core.export.gates import onnx_kernels as float_kernels
from nmt_core.export.onnx_files import Weights, graph_of, save
from nmt_core.export.onnx_kernels import Int8Kernels, OnnxKernels
from nmt_core.export.recording import recorder
from nmt_core.export.recording.draft import Recorded
from nmt_core.export.recording.recorder import Recording
from nmt_core.models.build import build_model
from nmt_core.models.decoding import Held
from nmt_core.search.onnx_session import open_graph
from nmt_core.tokenizer.tokenizer import EOS_ID, PAD_ID

pytestmark = pytest.mark.nightly

PIECES = 100
TRANSFORMER = {"d_model": 32, "d_ff": 48, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2}
RNN: dict[str, Any] = {
    "architecture": "rnn",
    "d_model": 9,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "tied_embeddings": "none",
}
RNN_SIZES: dict[str, Any] = {"hidden_size": 12, "alignment_size": 10, "maxout_size": 8}
KINDS: dict[str, dict[str, Any]] = {
    "as published": TRANSFORMER,
    "pre-norm, untied, GELU": TRANSFORMER | {"norm": "pre", "tied_embeddings": "none", "activation": "gelu"},
    "narrow keys, learned positions": TRANSFORMER | {"key_width": 4, "positions": "learned", "max_positions": 80},
    "wide values, SwiGLU": TRANSFORMER | {"value_width": 16, "activation": "swiglu"},
    "rotary": TRANSFORMER | {"positions": "rotary"},
    "recurrent decoder": TRANSFORMER | {"decoder_autoregression": "ssru"},
    "fixed context": RNN | {"rnn": RNN_SIZES | {"attention": "none", "bidirectional": False}},
    "search": RNN | {"rnn": RNN_SIZES},
    "concat, input feeding": RNN
    | {"rnn": RNN_SIZES | {"attention": "concat", "bidirectional": False, "input_feeding": True}},
    "dot, LSTM": RNN
    | {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "rnn": RNN_SIZES | {"attention": "dot", "cell": "lstm", "bidirectional": False},
    },
}
TRACED_WITH = {
    "sentences": 3,
    "source_positions": 5,
    "target_positions": 4,
    "rows": 6,
    "past_positions": 7,
    "candidates": 8,
    "blocks": 9,
    "copied_rows": 2,
    "moved_rows": 10,
    "room": 11,
}
OTHERS = ((1, 1, 1, 1, 1, 2, 1, 1, 1, 0), (2, 4, 9, 6, 20, 3, 5, 2, 3, 16), (5, 21, 2, 5, 11, 12, 2, 4, 15, 2))
"""Sizes to run graphs with, in the same order."""


class Both:
    """Recorder that also lets PyTorch trace the module."""

    def __init__(self) -> None:
        self.recordings: list[Recording] = []
        self.traced: list[onnx.ModelProto] = []

    def __call__(
        self, module: nn.Module, inputs: Sequence[Held | Sequence[Held]], outputs: Sequence[str] | str
    ) -> Recording:
        recording = recorder.record(module, inputs, outputs)
        self.recordings.append(recording)
        with quiet():
            program = torch.onnx.export(
                module.eval(),
                tuple(example(one) for one in inputs),
                dynamo=True,
                verbose=False,
                dynamic_shapes=tuple(varying(one) for one in inputs),
                input_names=[one.value for one in recording.inputs],
                output_names=list(recording.outputs),
            )
        assert program is not None
        self.traced.append(program.model_proto)
        return recording


def example(held: Held | Sequence[Held]) -> Any:
    """Tensors to trace with."""
    if not isinstance(held, Held):
        return [example(one) for one in held]
    zeros = held.zeros(TRACED_WITH)
    return torch.ones_like(zeros) if held.dtype == torch.bool else zeros + (EOS_ID if held.name == "source" else 0)


def varying(held: Held | Sequence[Held]) -> Any:
    return held.varying if isinstance(held, Held) else [varying(one) for one in held]


def operator(name: str, inputs: Any, attributes: Any, dtypes: Any, shapes: Any) -> Sequence[torch.Tensor]:
    """Return an operator for the recorder or for PyTorch's exporter, in place of `recorder.operator`."""
    if any(isinstance(one, Recorded) for one in inputs):
        return recorder.operator(name, inputs, attributes, dtypes, shapes)
    return torch.onnx.ops.symbolic_multi_out(name, inputs, attributes, dtypes=dtypes, shapes=shapes)


@contextmanager
def quiet() -> Iterator[None]:
    """The exporter warns of torchvision, which nothing here uses, and of PyTorch's own deprecated calls."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def kernels_of(kind: str, precision: str) -> OnnxKernels:
    torch.manual_seed(1)
    model = build_model(ModelConfig.model_validate(KINDS[kind]), PIECES, 2_048).eval().requires_grad_(False)
    for weight in model.parameters():
        weight.normal_(std=0.3)
    if precision == "int8":
        return Int8Kernels(model, calibrate(model, [[5, 6, 7, 8], [9, 10]], SearchConfig(max_length_offset=4)))
    return float_kernels(model.half() if precision == "fp16" else model)


@pytest.mark.parametrize(
    ("kind", "precision"),
    [(kind, "fp32") for kind in KINDS]
    + [("as published", "int8"), ("rotary", "int8"), ("wide values, SwiGLU", "int8")]
    + [("as published", "fp16"), ("search", "fp16")],
)
def test_recorded_and_traced_graphs_compute_the_same(
    kind: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Both()
    monkeypatch.setattr(graphs, "record", both)
    for module in (onnx_kernels, onnx_rnn):
        monkeypatch.setattr(module, "operator", operator)
    kernels = kernels_of(kind, precision)
    graphs.export_graphs(kernels, tmp_path / "set", with_attention=precision == "fp32", with_shortlist=True)
    assert len(both.traced) >= 4
    for number, (recording, traced) in enumerate(zip(both.recordings, both.traced, strict=True)):
        onnx.save_model(traced, tmp_path / f"traced_{number}.onnx")
        folder = tmp_path / str(number)
        folder.mkdir()
        with (folder / "weights.bin").open("wb") as file:
            graph = graph_of(recording, Weights(file))
        save(graph, folder / "recorded.onnx")
        onnx.checker.check_model(folder / "recorded.onnx", full_check=True)
        sessions = [open_graph(path, "cpu") for path in (folder / "recorded.onnx", tmp_path / f"traced_{number}.onnx")]
        for sizes in OTHERS:
            inputs = random_inputs(recording, dict(zip(TRACED_WITH, sizes, strict=True)))
            recorded, expected = (session.run(list(recording.outputs), inputs) for session in sessions)
            for name, one, other in zip(recording.outputs, recorded, expected, strict=True):
                assert one.dtype == other.dtype
                assert one.shape == other.shape, name
                np.testing.assert_allclose(
                    one.astype(np.float64), other.astype(np.float64), *TOLERANCES[precision], err_msg=name
                )


TOLERANCES = {"fp32": (1e-5, 1e-5), "int8": (1e-5, 1e-5), "fp16": (1e-3, 2e-3)}


def random_inputs(recording: Recording, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Return inputs of a graph: ids of tokens and padding, a mask, and numbers."""
    generator, inputs = np.random.default_rng(1), {}
    for one in recording.inputs:
        shape = [sizes[size] if isinstance(size, str) else size for size in one.named_sizes]
        match one.value:
            case "position":
                given = np.array([sizes["past_positions"] - 1])
            case "source_mask":
                given = np.arange(shape[1])[None] < generator.integers(1, shape[1] + 1, shape[0])[:, None]
            case "source":
                given = generator.integers(4, PIECES, shape)
                given[0, shape[1] // 2 + 1 :] = PAD_ID
            case "rows" | "over":  # both without repetition, of rows that there are
                given = generator.permutation(sizes["sentences"])[np.arange(shape[0]) % sizes["sentences"]]
            case _ if one.scalar_type == torch.int64:
                given = generator.integers(4, PIECES, shape)
            case _ if one.scalar_type == torch.int8:
                given = generator.integers(-127, 128, shape).astype(np.int8)
            case _:
                given = generator.standard_normal(shape).astype(
                    np.float16 if one.scalar_type == torch.float16 else np.float32
                )
        inputs[one.value] = given
    return inputs
