"""Write graphs as ONNX files, and the file in which the graphs of a set share their weights."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx import TensorProto, helper
from torch import Tensor

from nmt_core.export.recording.draft import Node, Recorded, onnx_type
from nmt_core.export.recording.recorder import Recording
from nmt_core.search.onnx_step import WEIGHTS_FILE

_OPSET, _IR_VERSION = 20, 10
_CONTRIBUTED_OPSET = 1
"""Version of ONNX Runtime's own operators."""
_SMALLEST_SHARED = 1_024
"""Size in bytes from which a constant goes to the shared file. A smaller one stays in its graph."""
_ALIGNMENT = 4_096
"""Alignment of constants in bytes. It is the size of a memory page, so that ONNX Runtime can map the file."""


class Weights:
    """Constants of a set of graphs. A file holds each large constant once, however many graphs read it.

    Args:
        file: opened for writing.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self._places: dict[bytes, int] = {}
        """Offsets in the file, by the SHA-256 of the data."""
        self._known: dict[tuple[object, ...], tuple[int, Tensor]] = {}
        """Offsets in the file, by the tensor's memory. The tensor is kept, so that its memory is not reused."""

    def constant(self, name: str, tensor: Tensor) -> TensorProto:
        """Return a constant of a graph. A large one is written to the file."""
        proto = TensorProto(name=name, data_type=onnx_type(tensor.dtype), dims=tensor.shape)
        if tensor.nbytes < _SMALLEST_SHARED:
            proto.raw_data = tensor.contiguous().numpy().tobytes()
            return proto
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if key not in self._known:
            self._known[key] = self._write(tensor.contiguous().numpy().data.cast("B")), tensor
        place, _ = self._known[key]
        proto.data_location = TensorProto.EXTERNAL
        for what, value in (("location", WEIGHTS_FILE), ("offset", place), ("length", tensor.nbytes)):
            proto.external_data.add(key=what, value=str(value))
        return proto

    def _write(self, data: memoryview) -> int:
        digest = hashlib.sha256(data).digest()
        if digest not in self._places:
            self.file.write(bytes(-self.file.tell() % _ALIGNMENT))
            self._places[digest] = self.file.tell()
            self.file.write(data)
        return self._places[digest]


def graph_of(recording: Recording, weights: Weights, outputs: Mapping[str, str] | None = None) -> onnx.ModelProto:
    """Return the part of a recording that leads to some of its outputs, as a graph that has all inputs.

    Args:
        recording: the recording of a module.
        weights: the constants of the set.
        outputs: names of outputs in the recording, by their names in the graph. None means all outputs.
    """
    outputs = outputs or {name: name for name in recording.outputs}
    results = {name: recording.outputs[recorded] for name, recorded in outputs.items()}
    nodes = _leading_to({result.value for result in results.values()}, recording.draft.nodes)
    read = {name for node in nodes for name in node.inputs} | {result.value for result in results.values()}
    constants = [weights.constant(*one) for one in recording.draft.constants.items() if one[0] in read]
    names: dict[str, str] = {}
    """Names of operators' outputs in the graph, by their names in the recording."""
    given, copies = {name for node in nodes for name in node.outputs}, list[onnx.NodeProto]()
    for name, result in results.items():
        if result.value in given and result.value not in names:
            names[result.value] = name
        else:  # an input, a constant, or an output that has another name already
            copies.append(helper.make_node("Identity", [names.get(result.value, result.value)], [name]))
    protos = [_proto(node, names) for node in nodes]
    return model_of(
        "main_graph",
        [*protos, *copies],
        [_value(one.value, one) for one in recording.inputs],
        [_value(*one) for one in results.items()],
        constants,
    )


def model_of(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[TensorProto],
) -> onnx.ModelProto:
    """Return the content of an ONNX file."""
    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", _CONTRIBUTED_OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)


def save(graph: onnx.ModelProto, file: Path) -> None:
    """Write a graph to a file in the folder of its weights, and let ONNX check it."""
    onnx.save_model(graph, file)
    onnx.checker.check_model(file)


def _leading_to(results: set[str], nodes: Sequence[Node]) -> list[Node]:
    needed, leading = set(results), []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            leading.append(node)
    return leading[::-1]


def _proto(node: Node, names: Mapping[str, str]) -> onnx.NodeProto:
    inputs, outputs = ([names.get(name, name) for name in side] for side in (node.inputs, node.outputs))
    return helper.make_node(node.op, inputs, outputs, domain=node.domain, **node.attributes)


def _value(name: str, tensor: Recorded) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx_type(tensor.scalar_type), tensor.named_sizes)
