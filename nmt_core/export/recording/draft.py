"""Hold an ONNX graph while a module is recorded: operators, constants, and the tensors and sizes that Python sees.

`recorder.py` runs the module, and rules translate its functions. Both write to a `Draft`, from which `onnx_files.py`
makes files.

A size that varies, such as the number of sentences, has three examples (`SIZES`), and PyTorch computes every shape for
each of them. A size varies if its examples differ. Examples never get into a graph.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from onnx import TensorProto
from torch import Tensor

_TYPES: Mapping[torch.dtype, int] = {
    torch.float32: TensorProto.FLOAT,
    torch.float16: TensorProto.FLOAT16,
    torch.int64: TensorProto.INT64,
    torch.int32: TensorProto.INT32,
    torch.int8: TensorProto.INT8,
    torch.uint8: TensorProto.UINT8,
    torch.bool: TensorProto.BOOL,
}

Examples = tuple[int, int, int]

SIZES: Mapping[str, Examples] = {
    "sentences": (1, 3, 5),
    "source_positions": (1, 7, 13),
    "target_positions": (1, 11, 19),
    "rows": (1, 3 * 13, 5 * 11),
    "past_positions": (0, 17, 29),
    "candidates": (1, 2, 3),
    "blocks": (1, 23, 37),
    "copied_rows": (1, 41, 61),
    "moved_rows": (1, 43, 67),
    "room": (0, 31, 53),
}
"""Examples of each size that varies.

The first example is the smallest possible size, which reveals an upper limit such as the size of a vocabulary. The
others are chosen so that no size equals another one plus or times a constant. So equal examples mean equal sizes. Rows
are a multiple of sentences. Positions are fewer than any model has.
"""
_NAMES = {examples: name for name, examples in SIZES.items()}


class NotRecordableError(NotImplementedError):
    """Error for an operation that no rule translates. It is a fault of this program, which users cannot cause."""


def onnx_type(dtype: torch.dtype) -> int:
    """Return the number of a type in ONNX.

    Raises:
        NotRecordableError: graphs do not support this type.
    """
    if dtype not in _TYPES:
        raise NotRecordableError(f"graphs do not support the type {dtype}, only {', '.join(map(str, _TYPES))}")
    return _TYPES[dtype]


class Size(torch.SymInt):
    """Size that varies. Code can compute with it and pass it to PyTorch, but cannot read its value.

    Args:
        examples: three examples of the size, as in `SIZES`.
        write: a function that writes the operators which compute the size, and returns the name of a tensor [1].
    """

    def __init__(self, examples: Examples, write: Callable[["Draft"], str]) -> None:
        self.examples = examples
        self.write = write

    def __add__(self, other: "int | Size") -> "Size":
        return self._grown("Add", operator.add, other)

    def __mul__(self, other: "int | Size") -> "Size":
        return self._grown("Mul", operator.mul, other)

    def __floordiv__(self, other: "int | Size") -> "Size":
        return self._grown("Div", operator.floordiv, other)

    def at_most(self, other: "int | Size") -> "Size":
        """Return the smaller of two sizes. It does not vary if even the first example is not below a constant."""
        return self._computed("Min", min, other)

    def _grown(self, op: str, compute: Callable[[int, int], int], other: "int | Size") -> "Size":
        """Return the result of an operator, which must grow with this size. So its first example is the smallest."""
        grown = self._computed(op, compute, other)
        one, two, three = grown.examples
        if not one < two < three:
            raise NotRecordableError(f"{op} of {self!r} and {other!r} does not grow with the first")
        return grown

    def _computed(self, op: str, compute: Callable[[int, int], int], other: "int | Size") -> "Size":
        one, two, three = map(compute, self.examples, examples_of(other))
        return Size((one, two, three), lambda draft: draft.node(op, draft.size(self), draft.size(other)))

    def _refuse(self, *_: object) -> NoReturn:
        raise NotRecordableError(
            f"the value of {self!r} is read, which would make it a constant of the graph: sizes that vary can only be "
            "added, multiplied, divided by //, and passed to torch.sym_min and to functions of PyTorch"
        )

    __radd__, __rmul__ = __add__, __mul__
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __bool__ = __int__ = __index__ = __float__ = _refuse

    def __getattr__(self, name: str) -> NoReturn:
        if name == "node":  # all other uses of symbolic integers in PyTorch read this attribute first
            self._refuse()
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"a size that varies (such as {', '.join(map(str, self.examples))})"


Whole = int | Size


def examples_of(size: Whole) -> Examples:
    """Return the examples of a size. They are equal if it does not vary."""
    return size.examples if isinstance(size, Size) else (size, size, size)


class Recorded(Tensor):
    """Tensor of the graph. Python code sees a PyTorch tensor whose functions the recorder intercepts.

    Args:
        draft: the graph.
        value: name of the tensor in the graph.
        examples: three tensors without memory, on PyTorch's device `meta`, with the examples of each size that varies.
    """

    draft: "Draft"
    value: str
    examples: Sequence[Tensor]

    @staticmethod
    def __new__(cls, draft: "Draft", value: str, examples: Sequence[Tensor]) -> "Recorded":
        recorded = Tensor._make_subclass(cls, examples[0])
        recorded.draft, recorded.value, recorded.examples = draft, value, examples
        return recorded

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self.examples[0].dim()

    @property
    def scalar_type(self) -> torch.dtype:
        """Type of the tensor's numbers."""
        return self.examples[0].dtype

    @property
    def sizes(self) -> tuple[Whole, ...]:
        """Shape of the tensor."""
        return tuple(self.draft.size_of(self, place) for place in range(self.rank))

    @property
    def named_sizes(self) -> tuple[int | str, ...]:
        """Shape of the tensor, with names for sizes that vary: a name of `SIZES`, or a new one."""
        shapes = zip(*(example.shape for example in self.examples), strict=True)
        return tuple(
            sizes[0] if len(set(sizes)) == 1 else _NAMES.get(sizes, f"{self.value}_{place}")
            for place, sizes in enumerate(shapes)
        )

    def __repr__(self, **_: object) -> str:  # type: ignore[override]
        return f"<{self.value}: {self.scalar_type} [{', '.join(map(str, self.named_sizes))}]>"

    @classmethod
    def __torch_function__(cls, function: Any, *_: object) -> NoReturn:
        """Raise an error: while a graph is recorded, the recorder intercepts its functions."""
        raise NotRecordableError(f"{function.__name__} reads a tensor of a graph that is not being recorded")


@dataclass(frozen=True)
class Node:
    """Operator with the names of its inputs and outputs."""

    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


class Draft:
    """Graph under construction: operators in the order in which they were written, and constants.

    Args:
        names: names for constants, by the address of their first number in memory.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, Tensor] = {}
        self._names = names
        self._inputs: dict[Examples, tuple[str, int]] = {}
        """Input and dimension with a size, by the examples of the size."""
        self._nodes: dict[tuple[object, ...], tuple[str, ...]] = {}
        """Outputs of operators, by operator and inputs: an operation that occurs twice is written once."""
        self._constants: dict[tuple[object, ...], str] = {}
        self._numbers: dict[tuple[str, torch.dtype], str] = {}

    def input(self, name: str, dtype: torch.dtype, shape: Sequence[int | str]) -> Recorded:
        """Return a new input of the graph.

        Args:
            name: name of the input.
            dtype: type of its numbers.
            shape: sizes of its dimensions. A size that varies is a name of `SIZES`.
        """
        for place, size in enumerate(shape):
            if isinstance(size, str):
                self._inputs.setdefault(SIZES[size], (name, place))
        return self.tensor(name, dtype, [SIZES[size] if isinstance(size, str) else (size,) * 3 for size in shape])

    def tensor(self, value: str, dtype: torch.dtype, shape: Sequence[Examples]) -> Recorded:
        """Return a tensor of the graph, given its name, its type and examples of its sizes."""
        shapes = zip(*shape, strict=True) if shape else [()] * 3
        return Recorded(self, value, [torch.empty(one, dtype=dtype, device="meta") for one in shapes])

    def node(self, op: str, *inputs: str | Tensor | None, domain: str = "", **attributes: Any) -> str:
        """Write an operator with one output, and return the name of the output."""
        return self.nodes_of(op, *inputs, outputs=1, domain=domain, **attributes)[0]

    def nodes_of(
        self, op: str, *inputs: str | Tensor | None, outputs: int, domain: str = "", **attributes: Any
    ) -> tuple[str, ...]:
        """Write an operator, and return the names of its outputs."""
        names = tuple("" if one is None else self.name(one) for one in inputs)
        key = (op, domain, names, outputs, repr(sorted(attributes.items())))
        if key not in self._nodes:
            ends = [f"_{number}" for number in range(outputs)] if outputs > 1 else [""]
            self._nodes[key] = tuple(f"{op}_{len(self.nodes)}{end}" for end in ends)
            self.nodes.append(Node(op, domain, names, self._nodes[key], attributes))
        return self._nodes[key]

    def name(self, value: str | Tensor) -> str:
        """Return the name of a tensor in the graph. A tensor that is not recorded becomes a constant."""
        if isinstance(value, str):
            return value
        return value.value if isinstance(value, Recorded) else self._constant(value)

    def _constant(self, tensor: Tensor) -> str:
        key, turned = _memory_of(tensor), _memory_of(tensor.t()) if tensor.dim() == 2 else None
        if key not in self._constants and turned in self._constants:
            # The file holds a matrix once. ONNX Runtime transposes it when it loads the graph.
            return self.node("Transpose", self._constants[turned], perm=[1, 0])
        if key not in self._constants:
            name = self._names.get(tensor.data_ptr(), "constant")
            self._constants[key] = f"{name}_{len(self.constants)}"
            self.constants[self._constants[key]] = tensor.detach()
        return self._constants[key]

    def number(self, value: float | Sequence[int], dtype: torch.dtype = torch.int64) -> str:
        """Return the name of a constant that holds one number or a list of numbers."""
        key = (repr(value), dtype)
        if key not in self._numbers:
            self._numbers[key] = self._constant(torch.tensor(value, dtype=dtype))
        return self._numbers[key]

    def size_of(self, tensor: Recorded, place: int) -> Whole:
        """Return a size of a tensor. If an input has the same size, the graph reads it from there."""
        one, two, three = (example.shape[place] for example in tensor.examples)
        if one == two == three:
            return one
        name, place = self._inputs.get((one, two, three), (tensor.value, place))
        return Size((one, two, three), lambda draft: draft.node("Shape", name, start=place, end=place + 1))

    def size(self, size: Whole) -> str:
        """Return the name of a tensor [1] that holds a size."""
        return size.write(self) if isinstance(size, Size) else self.number([size])

    def shape(self, sizes: Sequence[Whole]) -> str:
        """Return the name of a tensor that holds several sizes."""
        parts, constants = list[str](), list[int]()
        for size in sizes:
            if isinstance(size, Size):
                parts += [self.number(constants)] if constants else []
                parts.append(size.write(self))
                constants = []
            else:
                constants.append(size)
        parts += [self.number(constants)] if constants else []
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)


def _memory_of(tensor: Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype
