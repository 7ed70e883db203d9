"""Tensors that a batch keeps in ONNX Runtime, and copies of their rows in place, by graphs. Imports no torch.

Letters: N counts copies.
"""

from collections.abc import Sequence

import numpy as np
import onnxruntime

from nmt_core.search.onnx_session import Device, run_bound
from nmt_core.search.row_allocation import Copies

Values = list[onnxruntime.OrtValue]

NUMPY_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int8)": np.int8}


class Buffers:
    """Tensors of which only the first rows are in use. If rows leave, the others need not be copied.

    Args:
        values: tensors with equally many rows.
        device: device of the tensors.
        copying: session of `keep.onnx` or `copy.onnx`. Its inputs are the rows to copy, the rows to overwrite, and then
            these tensors.
    """

    def __init__(self, values: Values, device: Device, copying: onnxruntime.InferenceSession) -> None:
        self._values, self._device, self._copying = values, device, copying
        self._shapes = [value.shape() for value in values]
        self._is_whole = True
        self._binding: onnxruntime.IOBinding | None = None

    def bind(self, binding: onnxruntime.IOBinding, names: Sequence[str], *, as_outputs: bool = False) -> None:
        """Bind the tensors to inputs of a graph with these names, or to its outputs."""
        bind_whole = binding.bind_ortvalue_output if as_outputs else binding.bind_ortvalue_input
        bind_part = binding.bind_output if as_outputs else binding.bind_input
        for name, value, shape in zip(names, self._values, self._shapes, strict=True):
            if self._is_whole:
                bind_whole(name, value)
            else:
                bind_part(name, self._device, 0, NUMPY_TYPES[value.data_type()], shape, value.data_ptr())

    def copy(self, copies: Copies) -> None:
        """Copy rows over other rows."""
        rows_N, over_N = copies
        if not rows_N.size or not self._values:
            return
        # On a CPU a binding can be used as long as the tensors exist. On another device it may hold copies of them.
        if self._binding is None or self._device != "cpu":
            self._binding = self._bound_to_copy()
        self._binding.bind_cpu_input("rows", rows_N)
        self._binding.bind_cpu_input("over", over_N)
        run_bound(self._copying, self._binding, self._device)

    def _bound_to_copy(self) -> onnxruntime.IOBinding:
        """Bind the copying graph to all rows, including those that have left."""
        binding = self._copying.io_binding()
        for one, value in zip(self._copying.get_inputs()[2:], self._values, strict=True):
            binding.bind_ortvalue_input(one.name, value)
        for one, value in zip(self._copying.get_outputs(), self._values, strict=True):
            binding.bind_ortvalue_output(one.name, value)
        return binding

    def shorten(self, rows: int) -> bool:
        """Remove all rows after the first `rows` ones. Return True if there were any."""
        if self._shapes and self._shapes[0][0] == rows:
            return False
        self._is_whole = False
        self._shapes = [[rows, *shape[1:]] for shape in self._shapes]
        return True
