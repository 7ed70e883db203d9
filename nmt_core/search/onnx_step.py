"""The step protocol in ONNX Runtime, and the names in a set of graphs. Imports no torch.

A set is `encoder.onnx`, `step.onnx`, `keep.onnx`, `move.onnx`, `copy.onnx` and the weights of all, in one folder
(`export/graphs.py`). It may have other graphs for the step, which sets of earlier versions lack:

    unscored_step.onnx  does not return log-probabilities. It needs neither a softmax nor, in fp32, all logits as
                        exactly. Models for which it is not exact enough lack it.
    whole_step.onnx     returns the log-probability of each piece of the vocabulary, in the order of ids, so that
                        sampling can draw from all of them. Ranking them first would take many times as long.

The names of inputs and outputs show which tensors the graphs exchange. Each prefix has a meaning:

    cross_*     outputs of the encoder and inputs of the step: tensors of a sentence, which never change
    kept_*      outputs of `keep.onnx`, in the same order: the same with some sentences copied over others
    initial_*   outputs of the encoder: the first past, with a row for each sentence. Without them, the first past
                has no positions.
    past_*      inputs of the step, with a row for each hypothesis
    present_*   outputs of the step, in the same order: the past of the next step
    cache_*     in place of past_*: tensors with room for more positions, into which the step writes
    written_*   in place of present_*: the same tensors again
    moved_*     outputs of `move.onnx`: the past with its rows in another order, and with more room
    copied_*    outputs of `copy.onnx`: the past with some rows copied over others

A model with a shortlist has two more graphs, which read the same weights. `shortlist_step.onnx` takes the place of
`step.onnx`. `shortlist_output.onnx` copies, once a batch, the part of the output matrix for the batch's list:

    listed_*    outputs of `shortlist_output.onnx` and inputs of `shortlist_step.onnx`: tensors of a list, which never
                change

Letters: see `nmt_core.models`. Here N counts copies; in addition G counts positions of room.
"""

from pathlib import Path

import numpy as np
import onnxruntime

from nmt_core.search.onnx_buffers import NUMPY_TYPES, Buffers, Values
from nmt_core.search.onnx_session import Device, open_graph, run_bound
from nmt_core.search.row_allocation import Places
from nmt_core.search.step import Floats, Ints, Listed
from nmt_core.tokenizer.tokenizer import PAD_ID

ENCODER_FILE = "encoder.onnx"
STEP_FILE = "step.onnx"
UNSCORED_STEP_FILE = "unscored_step.onnx"
WHOLE_STEP_FILE = "whole_step.onnx"
KEEP_FILE = "keep.onnx"
MOVE_FILE = "move.onnx"
COPY_FILE = "copy.onnx"
WEIGHTS_FILE = "weights.bin"
ALWAYS_READ = (ENCODER_FILE, KEEP_FILE, MOVE_FILE, COPY_FILE, WEIGHTS_FILE)
"""Files of a set that every search reads, whatever its step."""
SET_FILES = (*ALWAYS_READ, STEP_FILE, UNSCORED_STEP_FILE, WHOLE_STEP_FILE)
LOG_PROBS = "log_probs"
"""Output of a step that `unscored_step.onnx` lacks."""
IDS = "ids"
"""Output of a step that `whole_step.onnx` lacks."""
SHORTLIST_STEP_FILE = "shortlist_step.onnx"
SHORTLIST_OUTPUT_FILE = "shortlist_output.onnx"
SHORTLIST_FILES = (SHORTLIST_STEP_FILE, SHORTLIST_OUTPUT_FILE)

_ROOM = 16
"""Positions by which the past grows at a time. All of it is copied then."""


class OnnxStepper:
    """Set of graphs as `search.step.Stepper`.

    Args:
        folder: folder of the set.
        vocab_size: number of pieces of the vocabulary.
        device: device to compute on, where keys and values stay between steps.
        step: file of the graph for the step. With `SHORTLIST_STEP_FILE` the object is a `search.step.ListedStepper` and
            not a `Stepper`. With `UNSCORED_STEP_FILE` all log-probabilities are NaN. With `WHOLE_STEP_FILE` steps
            return all pieces in the order of their ids, whatever number is requested.

    Raises:
        ModelError: onnxruntime cannot load or run a graph (see `open_graph`).
    """

    def __init__(self, folder: Path, vocab_size: int, device: Device = "cpu", step: str = STEP_FILE) -> None:
        self.encoder, self.step, self.keep, self.move, self.copy = (
            open_graph(folder / name, device) for name in (ENCODER_FILE, step, KEEP_FILE, MOVE_FILE, COPY_FILE)
        )
        self.output = open_graph(folder / SHORTLIST_OUTPUT_FILE, device) if step == SHORTLIST_STEP_FILE else None
        self.listed = [one.name for one in self.output.get_outputs()] if self.output else []
        self.device = device
        encoded = [one.name for one in self.encoder.get_outputs()]
        self.cross = [name for name in encoded if name.startswith("cross_")]
        self.initial = [name for name in encoded if name.startswith("initial_")]
        self.past_inputs = [one for one in self.step.get_inputs() if one.name.startswith(("past_", "cache_"))]
        self.past_names = [one.name for one in self.past_inputs]
        self.present = [one.name for one in self.step.get_outputs() if one.name.startswith(("present_", "written_"))]
        self.writes_in_place = any(name.startswith("written_") for name in self.present)
        self.answers = {one.name for one in self.step.get_outputs()} & {LOG_PROBS, IDS}
        self.is_whole = IDS not in self.answers
        self._vocab_size = vocab_size

    @property
    def vocab_size(self) -> int:
        """Number of pieces of the vocabulary."""
        return self._vocab_size

    def start(self, source_BS: Ints, candidates: int, listed: Listed | None = None) -> "OnnxDecoding":
        """Encode a batch (see `search.step.Stepper`, or `ListedStepper` with a shortlist)."""
        return OnnxDecoding(self, source_BS, candidates, listed)

    def no_past(self, sentences: int) -> Values:
        """Return a past of no positions.

        The first size of a tensor is the number of rows. Any other size that varies is 0.
        """
        values = []
        for held in self.past_inputs:
            shape = [sentences, *(size if isinstance(size, int) else 0 for size in held.shape[1:])]
            nothing = np.empty(shape, dtype=NUMPY_TYPES[held.type])
            values.append(onnxruntime.OrtValue.ortvalue_from_numpy(nothing, self.device))
        return values


class OnnxDecoding:
    """Decoding of one batch in ONNX Runtime (see `search.step.Decoding`).

    The tensors that graphs exchange never pass through numpy. Sentences and rows of the tensors are in the order of
    their places (`Places`), which is not the order of the search.
    """

    def __init__(self, stepper: OnnxStepper, source_BS: Ints, candidates: int, listed: Listed | None = None) -> None:
        self.stepper = stepper
        encoding = stepper.encoder.io_binding()
        encoding.bind_cpu_input("source", source_BS)
        for name in (*stepper.cross, *stepper.initial):
            encoding.bind_output(name, stepper.device)
        run_bound(stepper.encoder, encoding, stepper.device)
        encoded = encoding.get_outputs()
        first = encoded[len(stepper.cross) :] or stepper.no_past(len(source_BS))
        self.cross = Buffers(encoded[: len(stepper.cross)], stepper.device, stepper.keep)
        self.past = Buffers(first, stepper.device, stepper.copy)
        self.places = Places(len(source_BS))
        self.positions, self.room = 0, 0
        self.source_mask_BS = source_BS != PAD_ID
        self.candidates = np.zeros(candidates, dtype=np.int64)
        self.binding = stepper.step.io_binding()
        self.is_bound = False
        """True if the next step reads and writes where the last one did."""
        self.penalty_BWE = listed.penalty_BWE if listed else None
        if listed:
            self._bind_list(listed)
        self._bind_source()

    def step(self, tokens_R: Ints, parents_R: Ints) -> tuple[Floats, Ints]:
        """Read one token per row (see `search.step.Decoding`)."""
        self._follow(parents_R)
        stepper = self.stepper
        # Binding may copy to another device, and a step would read what was there when it was bound.
        binds_anew = stepper.device != "cpu"
        if binds_anew or not self.is_bound:
            self._bind(len(tokens_R))
        place_R = self.places.of_row_R
        self.token_R[place_R] = tokens_R
        self.position_1[0] = self.positions
        if binds_anew:
            self._bind_read()
        run_bound(stepper.step, self.binding, stepper.device)
        if not stepper.writes_in_place:
            present = self.binding.get_outputs()[-len(stepper.present) :]
            self.past = Buffers(present, stepper.device, stepper.copy)
            self.is_bound = False
        self.positions, self.room = self.positions + 1, self.room - 1
        return self.log_prob_RC[place_R], self.id_RC if stepper.is_whole else self.id_RC[place_R]

    def keep(self, sentences: Ints) -> None:
        """Remove the other sentences (see `search.step.Decoding`)."""
        copied_N, over_N = copies = self.places.keep(sentences)
        self.cross.copy(copies)
        self.cross.shorten(len(sentences))
        place_B = np.arange(len(sentences))
        place_B[over_N] = copied_N
        self.source_mask_BS = self.source_mask_BS[place_B]
        if self.penalty_BWE is not None:
            self.penalty_BWE = self.penalty_BWE[place_B]
        self._bind_source()

    def _follow(self, parents_R: Ints) -> None:
        """Put into each row the past of the hypothesis that it continues."""
        is_full = self.stepper.writes_in_place and not self.room
        if self.places.fits(parents_R) and not is_full:
            self.past.copy(self.places.follow(parents_R))
            self.is_bound &= not self.past.shorten(len(parents_R))
        else:
            self._move(self.places.spread(parents_R), _ROOM if is_full else 0)

    def _move(self, row_R: Ints, room: int) -> None:
        stepper, room_G = self.stepper, np.zeros(room, dtype=np.int64)
        moving = stepper.move.io_binding()
        moving.bind_cpu_input("rows", row_R)
        moving.bind_cpu_input("room", room_G)
        self.past.bind(moving, stepper.past_names)
        for output in stepper.move.get_outputs():
            moving.bind_output(output.name, stepper.device)
        run_bound(stepper.move, moving, stepper.device)
        self.past = Buffers(moving.get_outputs(), stepper.device, stepper.copy)
        self.room += room
        self.is_bound = False

    def _bind(self, rows: int) -> None:
        """Bind the memory that a step of this many rows reads and writes.

        This is a Python call for each tensor, so it is not done at every step.
        """
        binding, stepper = self.binding, self.stepper
        self.token_R, self.position_1 = np.empty(rows, dtype=np.int64), np.empty(1, dtype=np.int64)
        shape = (rows, stepper.vocab_size if stepper.is_whole else len(self.candidates))
        self.log_prob_RC = np.full(shape, np.nan, dtype=np.float32)
        self.id_RC = np.broadcast_to(np.arange(shape[1]), shape) if stepper.is_whole else np.empty(shape, np.int64)
        self._bind_read()
        binding.clear_binding_outputs()  # they hold the previous step, which has other shapes
        written: list[tuple[str, Floats | Ints]] = [(LOG_PROBS, self.log_prob_RC), (IDS, self.id_RC)]
        for name, array in written:
            if name in stepper.answers:
                binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        self.past.bind(binding, stepper.past_names)
        if stepper.writes_in_place:
            self.past.bind(binding, stepper.present, as_outputs=True)
        else:
            for name in stepper.present:
                binding.bind_output(name, stepper.device)
        self.is_bound = True

    def _bind_read(self) -> None:
        for name, read in (("tokens", self.token_R), ("position", self.position_1)):
            self.binding.bind_input(name, "cpu", 0, read.dtype.type, read.shape, read.ctypes.data)

    def _bind_list(self, listed: Listed) -> None:
        """Copy the part of the output matrix for the list. It stays on the device."""
        assert self.stepper.output
        copying = self.stepper.output.io_binding()
        copying.bind_cpu_input("list", listed.ids_WE)
        for name in self.stepper.listed:
            copying.bind_output(name, self.stepper.device)
        run_bound(self.stepper.output, copying, self.stepper.device)
        for name, value in zip(self.stepper.listed, copying.get_outputs(), strict=True):
            self.binding.bind_ortvalue_input(name, value)

    def _bind_source(self) -> None:
        if self.penalty_BWE is not None:
            self.binding.bind_cpu_input("penalties", self.penalty_BWE)
        self.binding.bind_cpu_input("source_mask", self.source_mask_BS)
        self.binding.bind_cpu_input("candidates", self.candidates)
        self.cross.bind(self.binding, self.stepper.cross)
