"""A PyTorch module as an ONNX graph, and the file in which the graphs of a set share their weights."""

import hashlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import onnx
import torch
from onnx import external_data_helper
from torch import nn

from nmt_core.search.onnx_step import WEIGHTS_FILE

_SMALLEST_SHARED = 1_024
_ALIGNMENT = 4_096
"""Bytes; pages of memory, so that ONNX Runtime can map the file."""


def exported(graph: nn.Module, arguments: tuple[Any, ...], **shapes_and_names: Any) -> onnx.ModelProto:
    """The graph of a module, from example arguments; `torch.onnx.export` says what else it is told."""
    with _quiet():
        program = torch.onnx.export(graph.eval(), arguments, dynamo=True, verbose=False, **shapes_and_names)
    assert program is not None  # only the old exporter returns nothing
    proto: onnx.ModelProto = program.model_proto
    parts = (proto.graph, *proto.graph.node, *proto.graph.value_info, *proto.graph.input, *proto.graph.output)
    for part in parts:
        part.ClearField("metadata_props")  # traces of this machine's source files, a tenth of a small graph
    return proto


def share_weights(graph: onnx.ModelProto, weights: BinaryIO, offsets: dict[bytes, int]) -> None:
    """Move large constants of a graph into a file, unless another graph has put the same bytes there.

    Args:
        graph: is changed.
        weights: opened for writing.
        offsets: where in it bytes with such a sha256 are, by that; is filled here.
    """
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
