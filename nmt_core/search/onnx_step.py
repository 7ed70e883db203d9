"""The step protocol in ONNX Runtime, and the names of a set of graphs. Imports no torch.

A set is `encoder.onnx`, `step.onnx`, `keep.onnx` and the weights of all three, in one folder (`export/graphs.py`).

Letters in names of arrays: B sentences, R rows, S source positions, H heads, D width of a head, C candidates.
"""

from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime

from nmt_core.errors import ModelError
from nmt_core.search.step import Floats, Ints
from nmt_core.tokenizer.tokenizer import PAD_ID

ENCODER_FILE = "encoder.onnx"
STEP_FILE = "step.onnx"
KEEP_FILE = "keep.onnx"
WEIGHTS_FILE = "weights.bin"
SET_FILES = (ENCODER_FILE, STEP_FILE, KEEP_FILE, WEIGHTS_FILE)
Device = Literal["cpu", "cuda"]

_NUMPY_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int8)": np.int8}

_ONLY_FATAL = 4  # onnxruntime's severity: a graph that cannot run raises, and then says all there is to say


def cross_names(layers: int) -> list[str]:
    """Outputs of the encoder and inputs of the step: keys and values of the source, [B, H, S, D]."""
    return [f"cross_{what}_{layer}" for layer in range(layers) for what in ("key", "value")]


def kept_names(layers: int) -> list[str]:
    """Outputs of `keep.onnx`: those of the sentences that stay, [sentences that stay, H, S, D]."""
    return [f"kept_{what}_{layer}" for layer in range(layers) for what in ("key", "value")]


def past_names(layers: int) -> list[str]:
    """Inputs of the step: keys and values of the target so far, [rows of the step before, H, T, D]."""
    return [f"past_{what}_{layer}" for layer in range(layers) for what in ("key", "value")]


def present_names(layers: int) -> list[str]:
    """Outputs of the step: the next step's past, [R, H, T + 1, D]."""
    return [f"present_{what}_{layer}" for layer in range(layers) for what in ("key", "value")]


def best_device() -> Device:
    """CUDA if onnxruntime was built for it and sees an NVIDIA GPU, else the CPU."""
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "cpu"
    gpu, nvidia = onnxruntime.OrtHardwareDeviceType.GPU, 0x10DE
    devices = [device.device for device in onnxruntime.get_ep_devices()]
    return "cuda" if any(device.type == gpu and device.vendor_id == nvidia for device in devices) else "cpu"


def open_graph(path: Path, device: Device = "cpu") -> onnxruntime.InferenceSession:
    """Load one graph. A call runs on one CPU thread: several calls at once use several (`Translator`).

    Raises:
        ModelError: the file is not a graph that this onnxruntime can run, or not on this device.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _ONLY_FATAL
    providers = {"cpu": ["CPUExecutionProvider"], "cuda": ["CUDAExecutionProvider", "CPUExecutionProvider"]}[device]
    slower = ["SkipLayerNormFusion"] if device == "cpu" else []
    try:
        session = onnxruntime.InferenceSession(path, options, providers=providers, disabled_optimizers=slower)
    except Exception as error:  # onnxruntime's own exceptions share no other base
        raise ModelError(
            f"{path}: onnxruntime {onnxruntime.__version__} cannot load it ({error}): fetch or export the model again"
        ) from None
    if session.get_providers()[0] != providers[0]:  # onnxruntime falls back to the CPU without an error
        raise ModelError(
            f"{path}: onnxruntime {onnxruntime.__version__} cannot run it on {device}: install the CUDA and cuDNN that "
            "this version needs, or ask for the CPU"
        )
    return session


class OnnxStepper:
    """A set of graphs as `search.step.Stepper`.

    Args:
        folder: of the set.
        vocab_size: pieces of the vocabulary.
        device: where to compute, and where keys and values stay between two steps.

    Raises:
        ModelError: see `open_graph`.
    """

    def __init__(self, folder: Path, vocab_size: int, device: Device = "cpu") -> None:
        self.encoder, self.step, self.keep = (
            open_graph(folder / name, device) for name in (ENCODER_FILE, STEP_FILE, KEEP_FILE)
        )
        self.device = device
        self.layers = len(self.encoder.get_outputs()) // 2
        self.cache_dtype = _NUMPY_TYPES[next(one.type for one in self.step.get_inputs() if one.name == "past_key_0")]
        self._vocab_size = vocab_size

    @property
    def vocab_size(self) -> int:
        """Pieces of the vocabulary."""
        return self._vocab_size

    def start(self, source_BS: Ints, candidates: int) -> "OnnxDecoding":
        """Encode a batch; see `search.step.Stepper`."""
        return OnnxDecoding(self, source_BS, candidates)


class OnnxDecoding:
    """One batch in ONNX Runtime; see `search.step.Decoding`. Keys and values never pass through numpy."""

    def __init__(self, stepper: OnnxStepper, source_BS: Ints, candidates: int) -> None:
        self.stepper = stepper
        encoding = stepper.encoder.io_binding()
        encoding.bind_cpu_input("source", source_BS)
        for name in cross_names(stepper.layers):
            encoding.bind_output(name, stepper.device)
        stepper.encoder.run_with_iobinding(encoding)
        self.cross = encoding.get_outputs()
        shapes = [(sentences, heads, 0, width) for sentences, heads, _, width in (x.shape() for x in self.cross)]
        nothing = [np.empty(shape, dtype=stepper.cache_dtype) for shape in shapes]
        self.past = [onnxruntime.OrtValue.ortvalue_from_numpy(empty, stepper.device) for empty in nothing]
        self.source_mask_BS = source_BS != PAD_ID
        self.candidates = np.zeros(candidates, dtype=np.int64)
        self.binding = stepper.step.io_binding()
        self._bind_source()

    def step(self, tokens_R: Ints, parents_R: Ints) -> tuple[Floats, Ints]:
        """One token per row; see `search.step.Decoding`."""
        binding, layers = self.binding, self.stepper.layers
        binding.bind_cpu_input("tokens", tokens_R)
        binding.bind_cpu_input("parents", parents_R)
        for name, value in zip(past_names(layers), self.past, strict=True):
            binding.bind_ortvalue_input(name, value)
        binding.clear_binding_outputs()  # they hold the step before: its shapes are not this one's
        binding.bind_output("log_probs", "cpu")
        binding.bind_output("ids", "cpu")
        for name in present_names(layers):
            binding.bind_output(name, self.stepper.device)
        self.stepper.step.run_with_iobinding(binding)
        log_probs, ids, *self.past = binding.get_outputs()
        return log_probs.numpy(), ids.numpy()

    def keep(self, sentences: Ints) -> None:
        """Drop the other sentences; see `search.step.Decoding`."""
        keeping, layers = self.stepper.keep.io_binding(), self.stepper.layers
        keeping.bind_cpu_input("sentences", sentences)
        for name, value in zip(cross_names(layers), self.cross, strict=True):
            keeping.bind_ortvalue_input(name, value)
        for name in kept_names(layers):
            keeping.bind_output(name, self.stepper.device)
        self.stepper.keep.run_with_iobinding(keeping)
        self.cross = keeping.get_outputs()
        self.source_mask_BS = self.source_mask_BS[sentences]
        self._bind_source()

    def _bind_source(self) -> None:
        self.binding.bind_cpu_input("source_mask", self.source_mask_BS)
        self.binding.bind_cpu_input("candidates", self.candidates)
        for name, value in zip(cross_names(self.stepper.layers), self.cross, strict=True):
            self.binding.bind_ortvalue_input(name, value)
