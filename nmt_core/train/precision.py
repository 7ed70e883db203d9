"""The arithmetic of the matrix products. Weights, sums, softmax and the optimizer are fp32 in any case."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

Precision = Literal["auto", "fp32", "bf16"]


def compute_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """bf16 or fp32; "auto" is bf16 where the device computes in it by itself, since emulation is slower than fp32."""
    if precision == "auto":
        precision = "bf16" if _has_bf16(device) else "fp32"
    return torch.bfloat16 if precision == "bf16" else torch.float32


def autocast(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[None]:
    """Matrix products in `dtype` within the block."""
    if dtype == torch.float32:
        return nullcontext()
    context: AbstractContextManager[None] = torch.autocast(device.type, dtype=dtype)
    return context


def missing_bf16(precision: Precision, device: torch.device) -> str | None:
    """Return what it means that a GPU does not compute in bf16, where "auto" therefore chooses fp32; None: it does."""
    if device.type != "cuda" or precision != "auto" or _has_bf16(device):
        return None
    return (
        f"{torch.cuda.get_device_name(device)} does not compute in bf16: training is in fp32, without the kernels for "
        "half precision, and several times as slow as on a GPU of compute capability 8.0 or later"
    )


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
