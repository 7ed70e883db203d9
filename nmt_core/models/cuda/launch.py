"""Launch Triton kernels, on a GPU or in Triton's interpreter."""

from typing import Any

from torch.library import wrap_triton
from triton.runtime.jit import JITFunction


def launchable(kernel: Any) -> Any:
    """Return the kernel in a form that `torch.compile` can trace, or unchanged under Triton's interpreter."""
    return wrap_triton(kernel) if isinstance(kernel, JITFunction) else kernel
