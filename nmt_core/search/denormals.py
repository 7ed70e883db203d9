"""Numbers next to zero, below 1e-38 in fp32 ("denormal"): to a translation they are zero, and a CPU is slow with them.

Attention has many of them: the probability of whatever scores 87 below the best, as padding does, and in a trained
model many a word. On x86 a product with one of them takes a hundred cycles or more, and others no more than a few.
"""

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Environment(ctypes.Structure):
    """`fenv_t` of glibc for x86-64: how a thread calculates."""

    _fields_ = (("x87", ctypes.c_uint32 * 7), ("mxcsr", ctypes.c_uint32))


_FLUSH_TO_ZERO, _DENORMALS_ARE_ZERO = 1 << 15, 1 << 6
"""Bits of MXCSR, for results and for operands (Intel's manual for developers, volume 1, section 10.2.3)."""
_LIBM = ctypes.CDLL("libm.so.6") if (sys.platform, platform.machine()) == ("linux", "x86_64") else None


@contextmanager
def denormals_as_zero() -> Iterator[None]:
    """Take them for zero in this thread, as long as the block lasts; on Linux and x86-64, elsewhere nothing changes.

    Threads that are started meanwhile calculate so for ever: training must not search within.

    ONNX Runtime's own option for it holds for the rest of a process, by whatever else the process calculates, and only
    if its first session has the option.
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
