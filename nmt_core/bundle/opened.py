"""An exported model in memory: its tokenizers and its graphs, which searches of different kinds share."""

import importlib.metadata
import re
import threading
import warnings
import weakref
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import onnxruntime

from nmt_core.bundle.folder import (
    ATTENTION_SET,
    BundleConfig,
    check_files,
    graph_files,
    hashed_or_there,
    precision_for,
    read_bundle,
    read_tokenizers,
    step_file,
)
from nmt_core.config import Precision, SearchConfig
from nmt_core.errors import ModelError
from nmt_core.search.agreement import largest_difference
from nmt_core.search.alignment import ALIGNMENT_FILE, Aligner
from nmt_core.search.attention import ATTENTION_FILE
from nmt_core.search.onnx_session import Device, device_for
from nmt_core.search.onnx_step import (
    ENCODER_FILE,
    SHORTLIST_STEP_FILE,
    STEP_FILE,
    WEIGHTS_FILE,
    WHOLE_STEP_FILE,
    OnnxStepper,
)
from nmt_core.search.shortlist import SHORTLIST_FILE, Shortlist, ShortlistStepper
from nmt_core.search.step import Stepper

MODEL_SOURCES = "nmt_pipeline.models"
"""Group of entry points that fetch models by address. The entry point `models` is a function of an address such as
`models:/NAME@champion`. It returns a context manager whose value is the folder of the model."""

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/")


_MOST_DIFFERENCE = 0.2
"""Most nats by which a GPU's log-probabilities may differ from the CPU's: some ten times the rounding of fp16."""


class OpenBundle:
    """A bundle that is open for reading. Threads may share it.

    Args:
        model: folder of an exported model, or an address of the registry such as `models:/NAME@champion`. The files of
            an address are removed when the bundle is no longer used.
        device: device that computes the graphs. None means a GPU if there is one and the precision is fp16, else the
            CPU.

    Raises:
        ModelError: there is no such model, or a file is missing or is not the one that was exported.
        ConfigError: a package is missing that segments the text of the model.
    """

    def __init__(self, model: str | Path, device: Device | None = None) -> None:
        with ExitStack() as stack:
            self.folder = stack.enter_context(_folder_of(model))
            self.config = read_bundle(self.folder)
            self.tokenizers = read_tokenizers(self.folder, self.config)
            weakref.finalize(self, stack.pop_all().close)
        self._device = device
        self._lock = threading.Lock()
        self._steppers: dict[tuple[Precision, Device, str], Stepper] = {}
        self._differences: dict[Precision, float] = {}

    def place_of(self, search: SearchConfig) -> tuple[Precision, Device]:
        """Return the precision that a search uses, and the device that computes it.

        Before a GPU is used, its results are compared with the results of the CPU. If they differ, a search whose
        device was not chosen uses the CPU, and a warning says so.

        Raises:
            ConfigError: the model has no such precision.
            ModelError: the GPU was chosen, and it does not compute what the CPU computes.
        """
        device = self._device or device_for(search.precision, self.config.precisions)
        precision = precision_for(search.precision, device, self.config)
        if device == "cpu" or (difference := self._difference(precision)) <= _MOST_DIFFERENCE:
            return precision, device
        reason = (
            f"{self.folder}: onnxruntime {onnxruntime.__version__} computes something else in {precision} on this GPU "
            f"than on the CPU (log-probabilities differ by {difference:.2g} nats, and {_MOST_DIFFERENCE} is allowed)"
        )
        if self._device == "cuda":
            raise ModelError(f"{reason}: use the CPU, or another version of onnxruntime-gpu")
        warnings.warn(f"{reason}: it computes on the CPU", RuntimeWarning, stacklevel=2)
        self._device = "cpu"
        return precision_for(search.precision, "cpu", self.config), "cpu"

    def stepper(self, search: SearchConfig, *, scores: bool = True) -> Stepper:
        """Return the graphs with which a search is the fastest.

        Args:
            search: the search.
            scores: False if the search need not compute scores.

        Raises:
            ModelError: a file is missing or is not the one that was exported, or onnxruntime cannot run it.
            ConfigError: the model has no such precision or no shortlist.
        """
        precision, device = self.place_of(search)
        return self._opened(precision, device, step_file(self.folder, self.config, precision, search, scores=scores))

    def whole_stepper(self, search: SearchConfig) -> Stepper:
        """Return the graphs that give the log-probability of each piece of the vocabulary. Errors: see `stepper`."""
        precision, device = self.place_of(search)
        has_graph = f"{precision}/{WHOLE_STEP_FILE}" in self.config.sha256  # earlier versions had none
        return self._opened(precision, device, WHOLE_STEP_FILE if has_graph else STEP_FILE)

    def aligner(self, search: SearchConfig) -> Aligner | None:
        """Return the part that finds alignments, or None if the search needs none.

        Raises:
            ModelError: the model has no graphs for it, or they are not the ones that were exported.
        """
        if search.alignments == "none":
            return None
        _, device = self.place_of(search)
        names = [f"{ATTENTION_SET}/{name}" for name in (ALIGNMENT_FILE, ATTENTION_FILE, ENCODER_FILE, WEIGHTS_FILE)]
        check_files(self.folder, self.config, hashed_or_there(self.folder, self.config, names))
        return Aligner(self.folder / ATTENTION_SET, search.batch_tokens, device)  # its error names the remedy

    def _difference(self, precision: Precision) -> float:
        """Return the largest difference of log-probabilities on GPU and CPU, in nats. It is computed once."""
        if precision not in self._differences:
            on_gpu, on_cpu = (self._opened(precision, device, STEP_FILE) for device in ("cuda", "cpu"))
            self._differences[precision] = largest_difference(on_gpu, on_cpu)
            with self._lock:  # another thread may have compared them at the same time
                self._steppers.pop((precision, "cpu", STEP_FILE), None)
        return self._differences[precision]

    def _opened(self, precision: Precision, device: Device, step: str) -> Stepper:
        key = precision, device, step
        with self._lock:
            if key not in self._steppers:
                check_files(self.folder, self.config, graph_files(precision, step))
                self._steppers[key] = open_stepper(self.folder / precision, self.config, device, step)
            return self._steppers[key]


def open_stepper(graphs: Path, bundle: BundleConfig, device: Device, step: str) -> Stepper:
    """Return the model in a bundle whose files (`graph_files`) have been checked.

    Args:
        graphs: folder of the graphs for a precision.
        bundle: contents of the bundle.
        device: device that computes the graphs.
        step: name of the step graph, from `step_file`.

    Raises:
        ModelError: onnxruntime cannot run the model, or the shortlist belongs to another model.
    """
    stepper = OnnxStepper(graphs, bundle.vocab_size, device, step)
    if step != SHORTLIST_STEP_FILE:
        return stepper
    source_pieces = bundle.source_vocab_size or bundle.vocab_size
    return ShortlistStepper(stepper, Shortlist.load(graphs.parent / SHORTLIST_FILE, source_pieces, bundle.vocab_size))


def _folder_of(model: str | Path) -> AbstractContextManager[Path]:
    """Return a context in which the files of a model are in a folder."""
    address = _ADDRESS.match(model) if isinstance(model, str) else None
    if not address or Path(model).is_dir():
        return nullcontext(Path(model))
    sources = importlib.metadata.entry_points(group=MODEL_SOURCES, name=address[1])
    if not sources:
        raise ModelError(
            f"model {model}: nothing that is installed here reads {address[1]}:/ addresses: install nmt-pipeline, or "
            "give the folder of an exported model"
        )
    fetched: AbstractContextManager[Path] = next(iter(sources)).load()(model)
    return fetched
