"""Record a PyTorch module as an ONNX graph, by running it once on tensors without memory.

The module is the only description of the computation. While it runs, the recorder intercepts each function of PyTorch
that reads a tensor or a size of the graph, and a rule translates it into ONNX operators. PyTorch computes all shapes
and types. Functions of weights alone are computed, and their results become constants.

Anything that would make the graph compute something else is refused: a function without a rule, an argument that its
rule does not take, and Python code that reads the value of a size that varies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nmt_core.export.recording import layers, numbers, shapes
from nmt_core.export.recording.draft import Draft, NotRecordableError, Recorded, Size, Whole, examples_of
from nmt_core.export.recording.table import Function, Table
from nmt_core.models.decoding import Held

RULES = Table(numbers.RULES | layers.RULES | shapes.RULES)


@dataclass(frozen=True)
class Recording:
    """Recorded computation of a module. Any subset of its outputs can become a graph."""

    draft: Draft
    inputs: Sequence[Recorded]
    outputs: Mapping[str, Recorded]


def record(module: nn.Module, inputs: Sequence[Held | Sequence[Held]], outputs: Sequence[str] | str) -> Recording:
    """Run a module and record what it computes.

    Args:
        module: a module that reads and returns tensors and lists of tensors, in evaluation mode.
        inputs: names, types and shapes of its inputs.
        outputs: names of the tensors that it returns, in order and without regard to lists; or a prefix, to which their
            numbers are added.

    Raises:
        NotRecordableError: the module uses an operation that no rule translates.
    """
    draft = Draft({weight.data_ptr(): name for name, weight in module.named_parameters()})
    arguments = _inputs(draft, inputs)
    with torch.no_grad(), _Recorder(draft):
        results = list(_leaves(module(*arguments)))
    names = [f"{outputs}_{number}" for number in range(len(results))] if isinstance(outputs, str) else outputs
    for name, result in zip(names, results, strict=True):
        if not isinstance(result, Recorded):
            raise NotRecordableError(f"{name} depends on no input: {type(result).__name__}")
    return Recording(draft, list(_leaves(arguments)), dict(zip(names, results, strict=True)))


def operator(
    name: str,
    inputs: Sequence[Tensor | None],
    attributes: Mapping[str, Any],
    dtypes: Sequence[torch.dtype],
    shapes: Sequence[Sequence[Whole]],
) -> tuple[Tensor, ...]:
    """Write an operator for which PyTorch has no function, and return its outputs.

    Args:
        name: name of the operator. For a domain other than ONNX's, the domain and `::` come first.
        inputs: tensors to read. At least one of them is recorded. None stands for an absent optional input.
        attributes: attributes of the operator.
        dtypes: types of its outputs.
        shapes: shapes of its outputs.
    """
    draft = next(tensor.draft for tensor in inputs if isinstance(tensor, Recorded))
    domain, _, op = name.rpartition("::")
    values = draft.nodes_of(op, *inputs, outputs=len(dtypes), domain=domain, **attributes)
    examples = ([examples_of(size) for size in shape] for shape in shapes)
    return tuple(draft.tensor(*one) for one in zip(values, dtypes, examples, strict=True))


class _Recorder(TorchFunctionMode):
    """Mode that intercepts functions of PyTorch and records them."""

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self.draft = draft
        self.examples: dict[object, list[Any]] = {}
        """Cached results of functions for the three examples, by function and arguments, since layers repeat."""

    def __torch_function__(
        self, function: Function, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Compute a function of constants. Record any other function."""
        kwargs = kwargs or {}
        if not any(isinstance(leaf, Recorded | Size) for leaf in _leaves((args, kwargs))):
            return function(*args, **kwargs)
        if function in shapes.ANSWERS:
            return shapes.ANSWERS.apply(self.draft, function, args, kwargs)
        values = RULES.apply(self.draft, function, args, kwargs)
        key = (function, _kind((args, kwargs)))
        if key not in self.examples:
            with torch.device("meta"):
                self.examples[key] = [function(*_example(args, n), **_example(kwargs, n)) for n in range(3)]
        results = self.examples[key]
        if isinstance(values, str):
            return Recorded(self.draft, values, results)
        parts = zip(values, zip(*results, strict=True), strict=True)
        return tuple(Recorded(self.draft, value, examples) for value, examples in parts)


def _inputs(draft: Draft, inputs: Sequence[Held | Sequence[Held]]) -> list[Any]:
    return [
        draft.input(one.name, one.dtype, one.shape) if isinstance(one, Held) else _inputs(draft, one) for one in inputs
    ]


def _leaves(values: Any) -> Iterator[Any]:
    """Yield the values in nested tuples, lists, mappings and slices."""
    if isinstance(values, Mapping):
        values = list(values.values())
    elif isinstance(values, slice):
        values = [values.start, values.stop, values.step]
    if isinstance(values, tuple | list):
        for value in values:
            yield from _leaves(value)
    else:
        yield values


def _kind(value: Any) -> object:
    """Return a key with everything in an argument that determines shapes and types of results."""
    if isinstance(value, Recorded):
        return tuple(map(_kind, value.examples))
    if isinstance(value, Tensor):
        return value.shape, value.stride(), value.dtype
    if isinstance(value, Size):
        return value.examples
    if isinstance(value, Mapping):
        return tuple((name, _kind(one)) for name, one in value.items())
    if isinstance(value, slice):
        return _kind((value.start, value.stop, value.step))
    if isinstance(value, tuple | list):
        return tuple(map(_kind, value))
    return type(value), value  # 1, 1.0 and True are equal


def _example(value: Any, number: int) -> Any:
    """Return an argument without memory, with one of the examples in place of recorded tensors and sizes."""
    if isinstance(value, Recorded | Size):
        return value.examples[number]
    if isinstance(value, Tensor):
        return value.detach().to("meta") if value.dim() else value  # PyTorch takes a single number from any device
    if isinstance(value, torch.device):
        return torch.device("meta")
    if isinstance(value, Mapping):
        return {key: _example(one, number) for key, one in value.items()}
    if isinstance(value, slice):
        return slice(*(_example(one, number) for one in (value.start, value.stop, value.step)))
    if isinstance(value, tuple | list):
        return type(value)([_example(one, number) for one in value])
    return value
