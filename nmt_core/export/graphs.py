"""A set of graphs: `encoder.onnx`, `step.onnx` and `keep.onnx`, and `weights.bin`, which holds each matrix once.

Beside those that translate, `attention.onnx` shows the model's attention and `alignment.onnx` says which words belong
together; they read the same weights.

Letters in names of tensors: B sentences, R rows, S source positions, T target positions, H heads, D width of a head.
"""

import hashlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import onnx
import torch
from onnx import external_data_helper
from torch import Tensor, nn

from nmt_core.models.incremental import EncoderGraph, StepGraph
from nmt_core.models.kernels import Kernels
from nmt_core.models.transformer import Transformer
from nmt_core.models.visible import AlignmentView, AttentionView
from nmt_core.search.alignment import ALIGNMENT_FILE
from nmt_core.search.attention import ATTENTION_FILE, ATTENTION_OUTPUTS
from nmt_core.search.onnx_step import (
    ENCODER_FILE,
    KEEP_FILE,
    STEP_FILE,
    WEIGHTS_FILE,
    cross_names,
    kept_names,
    past_names,
    present_names,
)
from nmt_core.tokenizer.tokenizer import EOS_ID

_SMALLEST_SHARED = 1_024
_ALIGNMENT = 4_096
"""Bytes; pages of memory, so that ONNX Runtime can map the file."""


class KeepGraph(nn.Module):
    """Some sentences of a batch: what the decoder attends to of them, in one copy and on the device where it is."""

    def forward(self, sentences: Tensor, cross: list[Tensor]) -> list[Tensor]:
        """Places in the batch [fewer sentences] and what `EncoderGraph` gave to the same of those sentences."""
        return [x_BHSD.index_select(0, sentences) for x_BHSD in cross]


def export_graphs(kernels: Kernels, folder: Path, *, with_attention: bool = False) -> None:
    """Write a set of graphs.

    Args:
        kernels: what the graphs compute with; they hold the model.
        folder: is made if it is missing.
        with_attention: whether to add the graphs that show attention, of a Transformer; for the set in fp32.
    """
    folder.mkdir(exist_ok=True)
    graphs = {ENCODER_FILE: _encoder(kernels), STEP_FILE: _step(kernels), KEEP_FILE: _keep(kernels)}
    if with_attention and isinstance(kernels.model, Transformer):
        graphs |= _views(kernels)
    with (folder / WEIGHTS_FILE).open("wb") as weights:
        offsets: dict[bytes, int] = {}
        for name, graph in graphs.items():
            _share_weights(graph, weights, offsets)
            onnx.save_model(graph, folder / name)


def _encoder(kernels: Kernels) -> onnx.ModelProto:
    """The graph of `EncoderGraph`: source [B, S] to cross_key_i and cross_value_i, each [B, H, S, D]."""
    return _exported(
        EncoderGraph(kernels),
        (torch.full((2, 3), EOS_ID),),
        dynamic_shapes=({0: "sentences", 1: "source_positions"},),
        input_names=["source"],
        output_names=cross_names(len(kernels.model.decoder)),
    )


def _step(kernels: Kernels) -> onnx.ModelProto:
    """The graph of `StepGraph`; its docstring gives the shapes, `search/onnx_step.py` the names."""
    layers, heads = len(kernels.model.decoder), kernels.num_heads
    width = kernels.model.config.d_model // heads
    # Sizes that differ from each other and from 1: the exporter takes equal ones for one and the same.
    sentences, rows, past_rows, past_positions, candidates = 3, 6, 4, 7, 8
    cross = _cross(kernels, sentences)
    past = [torch.zeros(past_rows, heads, past_positions, width, dtype=kernels.cache_dtype) for _ in past_names(layers)]
    return _exported(
        StepGraph(kernels),
        (
            torch.full((rows,), EOS_ID),
            torch.zeros(rows, dtype=torch.int64),
            torch.ones(sentences, cross[0].shape[2], dtype=torch.bool),
            torch.zeros(candidates, dtype=torch.int64),
            cross,
            past,
        ),
        dynamic_shapes=(
            {0: "rows"},
            {0: "rows"},
            {0: "sentences", 1: "source_positions"},
            {0: "candidates"},
            [{0: "sentences", 2: "source_positions"} for _ in cross],
            [{0: "past_rows", 2: "past_positions"} for _ in past],
        ),
        input_names=["tokens", "parents", "source_mask", "candidates", *cross_names(layers), *past_names(layers)],
        output_names=["log_probs", "ids", *present_names(layers)],
    )


def _keep(kernels: Kernels) -> onnx.ModelProto:
    """The graph of `KeepGraph`: sentences [K] and cross_key_i... to kept_key_i..., each [K, H, S, D]."""
    layers = len(kernels.model.decoder)
    cross = _cross(kernels, sentences=3)
    return _exported(
        KeepGraph(),
        (torch.zeros(2, dtype=torch.int64), cross),
        dynamic_shapes=({0: "kept"}, [{0: "sentences", 2: "source_positions"} for _ in cross]),
        input_names=["sentences", *cross_names(layers)],
        output_names=kept_names(layers),
    )


def _views(kernels: Kernels) -> dict[str, onnx.ModelProto]:
    """The graphs of `AttentionView` and `AlignmentView`: source [B, S] and target [B, T] to what these return."""
    sizes = ({0: "sentences", 1: "source_positions"}, {0: "sentences", 1: "target_positions"})
    ids = (torch.full((2, 3), EOS_ID), torch.full((2, 5), EOS_ID))
    plain = Kernels(kernels.model)
    views = {
        ATTENTION_FILE: (AttentionView(plain), ATTENTION_OUTPUTS),
        ALIGNMENT_FILE: (AlignmentView(plain, alignment_layer(len(kernels.model.decoder))), ("attention",)),
    }
    return {
        file: _exported(view, ids, dynamic_shapes=sizes, input_names=["source", "target"], output_names=list(outputs))
        for file, (view, outputs) in views.items()
    }


def alignment_layer(layers: int) -> int:
    """Number, from 0, of the decoder's layer whose attention is taken for alignments: the last but one or only one.

    Measured on English to Korean (`tests/bench/README.md`); Garg et al. (2019, section 5) found the same with six.
    """
    return max(0, layers - 2)


def _cross(kernels: Kernels, sentences: int) -> list[Tensor]:
    model, source_positions = kernels.model, 5
    shape = (sentences, kernels.num_heads, source_positions, model.config.d_model // kernels.num_heads)
    return [torch.zeros(shape, dtype=model.positions_LM.dtype) for _ in range(2 * len(model.decoder))]


def _exported(graph: nn.Module, arguments: tuple[Any, ...], **shapes_and_names: Any) -> onnx.ModelProto:
    with _quiet():
        program = torch.onnx.export(graph.eval(), arguments, dynamo=True, verbose=False, **shapes_and_names)
    assert program is not None  # only the old exporter returns nothing
    exported: onnx.ModelProto = program.model_proto
    proto = exported.graph
    for part in (proto, *proto.node, *proto.value_info, *proto.input, *proto.output):
        part.ClearField("metadata_props")  # traces of this machine's source files, a tenth of a small graph
    return exported


def _share_weights(graph: onnx.ModelProto, weights: BinaryIO, offsets: dict[bytes, int]) -> None:
    """Move large constants of a graph into the file, unless another graph has put the same bytes there."""
    for tensor in graph.graph.initializer:
        data = tensor.raw_data
        if len(data) < _SMALLEST_SHARED:
            continue
        digest = hashlib.sha256(data).digest()
        if digest not in offsets:
            weights.write(bytes(-weights.tell() % _ALIGNMENT))
            offsets[digest] = weights.tell()
            weights.write(data)
        external_data_helper.set_external_data(tensor, WEIGHTS_FILE, offsets[digest], len(data))
        tensor.ClearField("raw_data")


@contextmanager
def _quiet() -> Iterator[None]:
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
