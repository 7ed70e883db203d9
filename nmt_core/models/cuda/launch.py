"""Start Triton kernels, on a GPU or in Triton's interpreter."""

from typing import Any

from torch.library import wrap_triton
from triton.runtime.jit import JITFunction


def launchable(kernel: Any) -> Any:
    """Return a kernel that `torch.compile` sees into, or, under Triton's interpreter, the kernel as it is."""
    return wrap_triton(kernel) if isinstance(kernel, JITFunction) else kernel
