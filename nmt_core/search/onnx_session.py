"""Open graphs in ONNX Runtime, and choose the device on which they compute. Imports no torch."""

import contextlib
import io
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import onnxruntime

from nmt_core.config import Precision
from nmt_core.errors import ModelError

Device = Literal["cpu", "cuda"]
FASTEST: dict[Device, tuple[Precision, ...]] = {"cpu": ("int8", "fp32"), "cuda": ("fp16",)}
"""Precisions that are fast on each device, the fastest first."""

_ONLY_FATAL = 4  # onnxruntime's severity: if a graph cannot run, the exception has all the information
_PROVIDERS = {"cpu": ["CPUExecutionProvider"], "cuda": ["CUDAExecutionProvider", "CPUExecutionProvider"]}
_COPIES = (
    b'\x08\x08\x12\x00:7\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01'
    b"b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\x11"
)
"""Graph of one operator, Identity, as a protocol buffer. An installation that only translates lacks the package that
makes graphs."""


def best_device() -> Device:
    """Return `cuda` if onnxruntime sees an NVIDIA GPU and can compute on it, else `cpu`.

    Warns once if there is a GPU that it cannot use, usually because the CUDA version that it was built for is missing.
    """
    return "cuda" if _sees_a_gpu() and _can_use_it() else "cpu"


def device_for(requested: str, precisions: Sequence[str]) -> Device:
    """Return the device for the requested precision, or for the fastest precision of those that a model has."""
    possible = precisions if requested == "fastest" else [requested]
    return best_device() if any(precision in FASTEST["cuda"] for precision in possible) else "cpu"


def open_graph(path: Path, device: Device = "cpu") -> onnxruntime.InferenceSession:
    """Load one graph.

    A call runs on one CPU thread. Several calls at once use several threads (`Translator`).

    Raises:
        ModelError: the file is not a graph that this onnxruntime can run, or not on this device.
    """
    try:
        session = _session(path, device)
    except Exception as error:  # onnxruntime's own exceptions share no other base
        raise ModelError(
            f"{path}: onnxruntime {onnxruntime.__version__} cannot load it ({error}): fetch or export the model again"
        ) from None
    if not _runs_on(session, device):
        raise ModelError(
            f"{path}: onnxruntime {onnxruntime.__version__} cannot run it on {device}: install the CUDA and cuDNN that "
            "this version needs, or choose the CPU"
        )
    return session


def run_bound(session: onnxruntime.InferenceSession, binding: onnxruntime.IOBinding, device: Device) -> None:
    """Run a graph with bound tensors. Return when its results are where they are bound.

    Copies between a CPU and another device are only queued by ONNX Runtime, so a run there waits for them.
    """
    if device == "cpu":
        session.run_with_iobinding(binding)
        return
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()


def _session(graph: Path | bytes, device: Device) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _ONLY_FATAL
    slower = ["SkipLayerNormFusion"] if device == "cpu" else []
    if device == "cuda":
        _load_cuda()
    return onnxruntime.InferenceSession(graph, options, providers=_PROVIDERS[device], disabled_optimizers=slower)


def _runs_on(session: onnxruntime.InferenceSession, device: Device) -> bool:
    """Return True if the session computes on the device: onnxruntime falls back to the CPU without an error."""
    return bool(session.get_providers()[0] == _PROVIDERS[device][0])


def _sees_a_gpu() -> bool:
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return False
    gpu, nvidia = onnxruntime.OrtHardwareDeviceType.GPU, 0x10DE
    devices = [device.device for device in onnxruntime.get_ep_devices()]
    return any(device.type == gpu and device.vendor_id == nvidia for device in devices)


@cache
def _can_use_it() -> bool:
    reason = ""
    try:
        if _runs_on(_session(_COPIES, "cuda"), "cuda"):
            return True
    except Exception as error:  # onnxruntime's own exceptions share no other base
        reason = f" ({error})"
    warnings.warn(
        f"there is an NVIDIA GPU, but onnxruntime {onnxruntime.__version__} cannot use it{reason}: models compute on "
        "the CPU; install the CUDA and cuDNN that this version needs to have them on the GPU",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


@cache
def _load_cuda() -> None:
    """Load the CUDA and cuDNN libraries that pip installed outside of the search path (`onnxruntime.preload_dlls`).

    A process that has imported PyTorch with the same CUDA has loaded them already. A machine that only translates has
    no PyTorch.
    """
    # It prints the libraries that it misses, but standard output is for translations.
    with contextlib.redirect_stdout(io.StringIO()):
        onnxruntime.preload_dlls()
