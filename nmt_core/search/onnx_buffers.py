"""Tensors that a batch holds on to in ONNX Runtime, and the graphs that copy some of their rows over others in place.

Imports no torch.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import onnxruntime

from nmt_core.search.onnx_session import Device
from nmt_core.search.row_allocation import Copies

Values = list[onnxruntime.OrtValue]

NUMPY_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int8)": np.int8}


class Buffers:
    """Tensors of which the first rows count: what left needs no copy of the rest.

    Args:
        values: each with a row for the same.
        device: where they are.
        copying: `keep.onnx` or `copy.onnx`: of rows, the rows over which they go, and then these tensors.
    """

    def __init__(self, values: Values, device: Device, copying: onnxruntime.InferenceSession) -> None:
        self._values, self._device, self._copying = values, device, copying
        self._shapes = [value.shape() for value in values]
        self._is_whole = True

    def bind(self, binding: onnxruntime.IOBinding, names: Sequence[str], *, as_outputs: bool = False) -> None:
        """Let a graph read them under these names, or write to them."""
        bind_whole = binding.bind_ortvalue_output if as_outputs else binding.bind_ortvalue_input
        bind_part = binding.bind_output if as_outputs else binding.bind_input
        for name, value, shape in zip(names, self._values, self._shapes, strict=True):
            if self._is_whole:
                bind_whole(name, value)
            else:
                bind_part(name, self._device, 0, NUMPY_TYPES[value.data_type()], shape, value.data_ptr())

    def copy(self, copies: Copies) -> None:
        """Copy rows over others."""
        rows_N, over_N = copies
        if not rows_N.size or not self._values:
            return
        self._bound_to_copy.bind_cpu_input("rows", rows_N)
        self._bound_to_copy.bind_cpu_input("over", over_N)
        self._copying.run_with_iobinding(self._bound_to_copy)

    @cached_property
    def _bound_to_copy(self) -> onnxruntime.IOBinding:
        """With all rows, also those that have left, so that it serves as long as the tensors do."""
        binding = self._copying.io_binding()
        for one, value in zip(self._copying.get_inputs()[2:], self._values, strict=True):
            binding.bind_ortvalue_input(one.name, value)
        for one, value in zip(self._copying.get_outputs(), self._values, strict=True):
            binding.bind_ortvalue_output(one.name, value)
        return binding

    def shorten(self, rows: int) -> bool:
        """Let the rows beyond the first so many leave; whether there were any."""
        if self._shapes and self._shapes[0][0] == rows:
            return False
        self._is_whole = False
        self._shapes = [[rows, *shape[1:]] for shape in self._shapes]
        return True
