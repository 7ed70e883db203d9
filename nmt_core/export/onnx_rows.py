"""How the rows that decoding holds on to follow the search: graphs of no weights, which `search/onnx_step.py` runs.

They are written operator by operator: to trace modules that do the same takes PyTorch longer than it takes for a step.

Letters in names of tensors: R rows, N rows that are copied, H heads, T target positions, G positions of new room, D
width of a head.
"""

from collections.abc import Sequence

import onnx
import torch
from onnx import TensorProto, helper

from nmt_core.models.decoding import Held

_OPSET, _IR_VERSION = 20, 10
"""Those of the graphs that PyTorch exports."""
_TYPES = {torch.float32: TensorProto.FLOAT, torch.float16: TensorProto.FLOAT16, torch.int8: TensorProto.INT8}
_POSITIONS = 2
"""The dimension of [R, H, T, D] that grows."""


def copy_graph(held: Sequence[Held], inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
    """Some rows over others. A caller that puts the result in the place of what is read moves nothing else.

    Args:
        held: tensors [R, ...]. A graph must have an output: if nothing is held, it is the rows, `copied_rows`.
        inputs: their names; before them come `rows` [N], and `over` [N], the rows over which they go.
        outputs: names of the same tensors with those rows overwritten.
    """
    nodes = [helper.make_node("Unsqueeze", ["over", "last"], ["over_N1"])]
    for name, written in zip(inputs, outputs, strict=True):
        nodes += [
            helper.make_node("Gather", [name, "rows"], [f"{written}_rows"]),
            helper.make_node("ScatterND", [name, "over_N1", f"{written}_rows"], [written]),
        ]
    if not held:
        nodes.append(helper.make_node("Identity", ["rows"], ["copied_rows"]))
    results = _results(outputs, held) or [helper.make_tensor_value_info("copied_rows", TensorProto.INT64, ["copied"])]
    constants = [helper.make_tensor("last", TensorProto.INT64, [1], [1])]
    return _model("copy", nodes, [_integers("rows"), _integers("over"), *_values(inputs, held)], results, constants)


def move_graph(
    held: Sequence[Held], inputs: Sequence[str], outputs: Sequence[str], *, in_place: bool
) -> onnx.ModelProto:
    """Rows of the past in another order, as often as they are named, with room for more positions behind them.

    Room is filled with zeros, so that nothing depends on what was there.

    Args:
        held: tensors [.., H, T, D]; if not in place, of any shape that begins with rows.
        inputs: their names; before them come `rows` [R], and `room` [G], any values.
        outputs: names of the tensors [R, H, T + G, D], or [R, ...].
        in_place: whether steps write into the past; if not, there is no room.
    """
    nodes = []
    for name, moved in zip(inputs, outputs, strict=True):
        rows = f"{moved}_rows" if in_place else moved
        nodes.append(helper.make_node("Gather", [name, "rows"], [rows]))
        if in_place:
            nodes += _with_room(rows, moved)
    constants = [helper.make_tensor("nothing", TensorProto.FLOAT, [], [0.0])]
    return _model(
        "move",
        nodes,
        [_integers("rows"), _integers("room"), *_values(inputs, held)],
        _results(outputs, held),
        constants,
    )


def _with_room(rows: str, moved: str) -> list[onnx.NodeProto]:
    """A tensor [R, H, T, D] to [R, H, T + G, D], by their names."""
    before, room, behind, size, zero, zeros = (f"{moved}_{part}" for part in ("RH", "G", "D", "RHGD", "zero", "zeros"))
    return [
        helper.make_node("Shape", [rows], [before], end=_POSITIONS),
        helper.make_node("Shape", ["room"], [room]),
        helper.make_node("Shape", [rows], [behind], start=_POSITIONS + 1),
        helper.make_node("Concat", [before, room, behind], [size], axis=0),
        helper.make_node("CastLike", ["nothing", rows], [zero]),
        helper.make_node("Expand", [zero, size], [zeros]),
        helper.make_node("Concat", [rows, zeros], [moved], axis=_POSITIONS),
    ]


def _integers(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.INT64, [f"size_of_{name}"])


def _values(names: Sequence[str], held: Sequence[Held]) -> list[onnx.ValueInfoProto]:
    pairs = zip(names, held, strict=True)
    return [helper.make_tensor_value_info(name, _TYPES[one.dtype], one.shape) for name, one in pairs]


def _results(names: Sequence[str], held: Sequence[Held]) -> list[onnx.ValueInfoProto]:
    """The same, whose sizes are not said."""
    pairs = zip(names, held, strict=True)
    return [helper.make_tensor_value_info(name, _TYPES[one.dtype], [None] * len(one.shape)) for name, one in pairs]


def _model(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto],
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    return model
