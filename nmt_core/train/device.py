"""Use of the device: precision of the matrix products, utilisation and profiles.

Model FLOP utilisation (Chowdhery et al. 2022, "PaLM", appendix B) is the rate of the operations that the formulas of
the model require, divided by the rate that the device reaches in a large matrix product. Recomputed operations, and
operations on padding, do not count.
"""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Literal

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import profile, schedule

from nmt_core.models.model import TranslationModel

Precision = Literal["auto", "fp32", "bf16"]

UPDATES_BEFORE = 10
"""Updates of a process before the traced ones. The first updates allocate memory and compile layers."""

_FORWARD_AND_BACKWARD = 6  # operations per weight and token: two forward, four backward
_SIDE = {"cpu": 1_024, "cuda": 8_192}
_TIMES = 5
_OPERATORS_LISTED = 30


def compute_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """Return the type of the matrix products. Weights, sums, softmax and the optimizer are always fp32.

    "auto" is bf16 where the device supports it natively, and fp32 elsewhere: emulated bf16 is slower than fp32.
    """
    if precision == "auto":
        precision = "bf16" if _has_bf16(device) else "fp32"
    return torch.bfloat16 if precision == "bf16" else torch.float32


def autocast(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[None]:
    """Return a context in which matrix products are computed in `dtype`."""
    if dtype == torch.float32:
        return nullcontext()
    context: AbstractContextManager[None] = torch.autocast(device.type, dtype=dtype)
    return context


def missing_bf16(precision: Precision, device: torch.device) -> str | None:
    """Return a warning if "auto" falls back to fp32 because the GPU lacks bf16, or None without a fallback."""
    if device.type != "cuda" or precision != "auto" or _has_bf16(device):
        return None
    return (
        f"{torch.cuda.get_device_name(device)} has no bf16: training uses fp32, without half-precision kernels, and is "
        "several times as slow as on a GPU of compute capability 8.0 or later"
    )


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def training_flop(model: TranslationModel, source_tokens: float, target_tokens: float) -> float:
    """Return the operations of a forward and backward pass over these tokens, without the attention-weight products."""
    at_source, at_target = model.weights_per_token
    return _FORWARD_AND_BACKWARD * (at_source * source_tokens + at_target * target_tokens)


@functools.cache
def peak_matmul_flops(device: torch.device, dtype: torch.dtype) -> float:
    """Return the operations per second of a large matrix product: the best of several runs, measured once a process."""
    side = _SIDE.get(device.type, 1_024)
    # A separate generator leaves the global random state alone. Constant operands would draw less power and run faster.
    draw = torch.Generator(device).manual_seed(0)
    one, other = (torch.randn(side, side, device=device, dtype=dtype, generator=draw) for _ in range(2))
    best = 0.0
    for _ in range(_TIMES):
        start = time.perf_counter()
        one @ other
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = max(best, 2 * side**3 / (time.perf_counter() - start))
    return best


@contextmanager
def profiled(updates: int, folder: Path, rank: int, say: Callable[[str], None]) -> Iterator[None]:
    """Trace this many updates of the block after its first `UPDATES_BEFORE`. Do nothing if `updates` is 0.

    `<rank>.json.gz` in `folder` is a trace for chrome://tracing or Perfetto, with the input shapes of each operator.
    `<rank>.txt` is a table of the costliest operators. A full disk does not stop training: `say` logs the error.
    """
    if not updates:
        yield
        return

    def write(profiler: profile) -> None:
        by_device = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
        try:
            folder.mkdir(exist_ok=True)
            table = profiler.key_averages().table(by_device, row_limit=_OPERATORS_LISTED)
            (folder / f"{rank}.txt").write_text(table, encoding="utf-8")
            profiler.export_chrome_trace(str(folder / f"{rank}.json.gz"))
        except OSError as error:
            say(f"the profile cannot be written to {folder} ({error}): training continues without it")

    when = schedule(wait=0, skip_first=UPDATES_BEFORE - 1, warmup=1, active=updates, repeat=1)
    with profile(schedule=when, on_trace_ready=write, record_shapes=True) as profiler:
        hook = register_optimizer_step_post_hook(lambda *_: profiler.step())  # an update ends with its optimizer step
        try:
            yield
        finally:
            hook.remove()
