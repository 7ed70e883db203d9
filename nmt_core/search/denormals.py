"""Treat denormal numbers as zero. They are below 1e-38 in fp32, do not matter for a translation, and slow a CPU down.

Attention has many of them: the probability of anything that scores 87 below the best. Padding scores so low, and in a
trained model many words do. On x86, a product with a denormal number takes a hundred cycles or more, and other products
take a few.
"""

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Environment(ctypes.Structure):
    """Floating-point environment of a thread: `fenv_t` of glibc for x86-64."""

    _fields_ = (("x87", ctypes.c_uint32 * 7), ("mxcsr", ctypes.c_uint32))


_FLUSH_TO_ZERO, _DENORMALS_ARE_ZERO = 1 << 15, 1 << 6
"""Bits of MXCSR, for results and for operands (Intel's manual for developers, volume 1, section 10.2.3)."""
_LIBM = ctypes.CDLL("libm.so.6") if (sys.platform, platform.machine()) == ("linux", "x86_64") else None


@contextmanager
def denormals_as_zero() -> Iterator[None]:
    """Treat denormal numbers as zero in this thread within the block, on Linux and x86-64. Elsewhere, do nothing.

    Threads that are started within the block keep this for ever, so training must not search within it.

    ONNX Runtime has an option for the same. It holds for the rest of a process, whatever else the process computes, and
    only if the first session has the option.
    """
    if _LIBM is None:
        yield
        return
    before, within = _Environment(), _Environment()
    _LIBM.fegetenv(ctypes.byref(before))
    _LIBM.fegetenv(ctypes.byref(within))
    within.mxcsr |= _FLUSH_TO_ZERO | _DENORMALS_ARE_ZERO
    _LIBM.fesetenv(ctypes.byref(within))
    try:
        yield
    finally:
        _LIBM.fesetenv(ctypes.byref(before))
