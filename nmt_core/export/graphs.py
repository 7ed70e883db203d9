"""Write a set of graphs: encoder and step, graphs that reorder their tensors, and `weights.bin` with each matrix once.

`attention.onnx` returns the model's attention, and `alignment.onnx` returns word alignments. With a shortlist,
`shortlist_step.onnx` and `shortlist_output.onnx` take the place of `step.onnx`. All graphs read the same weights.

Letters in names of tensors: B sentences, S source positions, R rows, M `d_model`, W blocks of a shortlist, E tokens of
a block.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx
import torch
from torch import nn

from nmt_core.export.onnx_files import Weights, graph_of, save
from nmt_core.export.onnx_kernels import OnnxKernels
from nmt_core.export.onnx_rows import CopiedRows, MovedRows
from nmt_core.export.recording.recorder import Recording, record
from nmt_core.models.attention_trace import AttentionView, EnsembleAttentionView
from nmt_core.models.decoding import Graphs, Held, graphs_of
from nmt_core.models.ensemble import EnsembleKernels
from nmt_core.models.kernels import Kernels
from nmt_core.models.recurrent.attention import AttendingModel
from nmt_core.models.recurrent.attention_trace import EnsembleRecurrentAttentionStep, RecurrentAttentionStep
from nmt_core.models.transformer import Transformer
from nmt_core.models.worked_example import WorkedExample, can_be_worked
from nmt_core.search.alignment import ALIGNMENT_FILE, ALIGNMENT_OUTPUT
from nmt_core.search.attention import ATTENTION_FILE, ATTENTION_OUTPUTS, STEPWISE_OUTPUTS, WORKED_FILE, WORKED_OUTPUTS
from nmt_core.search.onnx_step import (
    COPY_FILE,
    ENCODER_FILE,
    IDS,
    KEEP_FILE,
    LOG_PROBS,
    MOVE_FILE,
    SHORTLIST_OUTPUT_FILE,
    SHORTLIST_STEP_FILE,
    STEP_FILE,
    UNSCORED_STEP_FILE,
    WEIGHTS_FILE,
    WHOLE_STEP_FILE,
)
from nmt_core.search.shortlist import BLOCK_PIECES

_ALIGNING_LAYERS = 2
"""Number of the decoder's last layers that align words.

Two are better than the last one (`docs/reference/benchmarks-record.md`, "Alignments").
"""


def export_graphs(
    kernels: OnnxKernels | EnsembleKernels, folder: Path, *, with_attention: bool = False, with_shortlist: bool = False
) -> None:
    """Write a set of graphs.

    Args:
        kernels: the kernels with which the graphs compute. They hold the model, or the members of an ensemble.
        folder: the folder of the set. It is created if it is missing.
        with_attention: True to add the graphs that return attention, for the set in fp32.
        with_shortlist: True to add the graphs that choose from a shortlist.
    """
    folder.mkdir(exist_ok=True)
    halves = graphs_of(kernels)
    with (folder / WEIGHTS_FILE).open("wb") as file:
        weights = Weights(file)
        graphs = {
            ENCODER_FILE: graph_of(_encoder(halves), weights),
            **_steps(halves, weights, has_screen=kernels.screen is not None),
            KEEP_FILE: graph_of(_copy("cross", halves.cross, "kept"), weights),
            MOVE_FILE: graph_of(_move(halves), weights),
            COPY_FILE: graph_of(_copy(_before(halves), halves.past, "copied"), weights),
        }
        if with_attention:
            graphs |= _views(kernels.members if isinstance(kernels, EnsembleKernels) else [kernels], halves, weights)
        if with_shortlist:
            graphs |= _shortlist(halves, weights)
    for name, graph in graphs.items():
        save(graph, folder / name)


_IDS, _SOURCE = torch.int64, ("sentences", "source_positions")


_PASS = [Held("source", _SOURCE, _IDS), Held("target", ("sentences", "target_positions"), _IDS)]
"""Inputs of a graph that reads whole sentences and their translations."""


def _encoder(halves: Graphs) -> Recording:
    """Record the encoder: source [B, S] to cross_*, and to initial_* if the decoder has an initial state."""
    initial = halves.past if halves.has_first else ()
    outputs = [*_names("cross", halves.cross), *_names("initial", initial)]
    return record(halves.encoder, [Held("source", _SOURCE, _IDS)], outputs)


def _steps(halves: Graphs, weights: Weights, *, has_screen: bool) -> dict[str, onnx.ModelProto]:
    """Return the step graphs that choose from the whole vocabulary, by their files. They are parts of one recording."""
    whole, screened = "whole_vocabulary", "screened_ids"
    step = _step(halves, [LOG_PROBS, IDS, whole, *([screened] if has_screen else [])])
    past = {name: name for name in _names(_after(halves), halves.past)}
    return {
        STEP_FILE: graph_of(step, weights, {LOG_PROBS: LOG_PROBS, IDS: IDS} | past),
        UNSCORED_STEP_FILE: graph_of(step, weights, {IDS: screened if has_screen else IDS} | past),
        WHOLE_STEP_FILE: graph_of(step, weights, {LOG_PROBS: whole} | past),
    }


def _shortlist(halves: Graphs, weights: Weights) -> dict[str, onnx.ModelProto]:
    """Return the graph of the output, list [W, E] to listed_*, and the graph of a step that chooses from a list."""
    output = record(halves.output, [Held("list", ("blocks", BLOCK_PIECES), _IDS)], "listed")
    listed = [Held(name, part.named_sizes, part.scalar_type) for name, part in output.outputs.items()]
    step = _step(halves, [LOG_PROBS, IDS], listed)
    return {SHORTLIST_OUTPUT_FILE: graph_of(output, weights), SHORTLIST_STEP_FILE: graph_of(step, weights)}


def _step(halves: Graphs, chosen: Sequence[str], listed: Sequence[Held] = ()) -> Recording:
    """Record a step. `models/incremental.py` defines the shapes, and `search/onnx_step.py` the names.

    Args:
        halves: the modules of the model.
        chosen: names of the outputs of `Kernels.chosen`.
        listed: outputs of the graph of the output. If empty, the step chooses from the whole vocabulary.
    """
    penalties = [Held("penalties", ("sentences", "blocks", BLOCK_PIECES), torch.float32)] if listed else []
    inputs: list[Held | list[Held]] = [
        Held("tokens", ("rows",), _IDS),
        Held("position", (1,), _IDS),
        Held("source_mask", _SOURCE, torch.bool),
        [Held("candidates", ("candidates",), _IDS), *penalties, *listed],
        _called("cross", halves.cross),
        _called(_before(halves), halves.past),
    ]
    return record(halves.step, inputs, [*chosen, *_names(_after(halves), halves.past)])


def _copy(before: str, held: Sequence[Held], after: str) -> Recording:
    """Record `CopiedRows`, with prefixes for the names of the tensors before and after."""
    places = [Held("rows", ("copied_rows",), _IDS), Held("over", ("copied_rows",), _IDS)]
    return record(CopiedRows(), [*places, _called(before, held)], _names(after, held) or ["copied_rows"])


def _move(halves: Graphs) -> Recording:
    """Record `MovedRows` of the past."""
    places = [Held("rows", ("moved_rows",), _IDS), Held("room", ("room",), _IDS)]
    module, past = MovedRows(in_place=halves.writes_in_place), _called(_before(halves), halves.past)
    return record(module, [*places, past], _names("moved", halves.past))


def _before(halves: Graphs) -> str:
    """Return the prefix of the past that a step reads."""
    return "cache" if halves.writes_in_place else "past"


def _after(halves: Graphs) -> str:
    """Return the prefix of the past that a step returns."""
    return "written" if halves.writes_in_place else "present"


def _views(members: Sequence[Kernels], halves: Graphs, weights: Weights) -> dict[str, onnx.ModelProto]:
    """Return the graphs that return attention, or none if the model has no attention."""
    model = members[0].model
    if isinstance(model, Transformer):
        views = [AttentionView(Kernels(kernels.model), _ALIGNING_LAYERS) for kernels in members]
        graphs = _transformer_views(EnsembleAttentionView(views) if views[1:] else views[0], weights)
        if can_be_worked(model):
            worked = record(WorkedExample(Kernels(model)), _PASS, list(WORKED_OUTPUTS))
            graphs[WORKED_FILE] = graph_of(worked, weights)
        return graphs
    if isinstance(model, AttendingModel):
        steps = [RecurrentAttentionStep(kernels) for kernels in members]
        step = EnsembleRecurrentAttentionStep(steps) if steps[1:] else steps[0]
        return {ATTENTION_FILE: graph_of(_recurrent_view(step, halves), weights)}
    return {}


def _transformer_views(module: nn.Module, weights: Weights) -> dict[str, onnx.ModelProto]:
    """Return the two graphs of `AttentionView`, which reads source [B, S] and target [B, T]."""
    view = record(module, _PASS, [*ATTENTION_OUTPUTS, ALIGNMENT_OUTPUT])
    return {
        ATTENTION_FILE: graph_of(view, weights, {name: name for name in ATTENTION_OUTPUTS}),
        ALIGNMENT_FILE: graph_of(view, weights, {ALIGNMENT_OUTPUT: ALIGNMENT_OUTPUT}),
    }


def _recurrent_view(step: nn.Module, halves: Graphs) -> Recording:
    """Record `RecurrentAttentionStep`, with the names that the translating graphs use."""
    past = [replace(held, shape=("sentences", *held.shape[1:])) for held in halves.past]  # one row for each sentence
    inputs: list[Held | list[Held]] = [
        Held("source", _SOURCE, _IDS),
        Held("tokens", ("sentences",), _IDS),
        _called("cross", halves.cross),
        _called("past", past),
    ]
    return record(step, inputs, [*STEPWISE_OUTPUTS, *_names("present", halves.past)])


def _names(prefix: str, handed_over: Sequence[Held]) -> list[str]:
    return [f"{prefix}_{held.name}" for held in handed_over]


def _called(prefix: str, handed_over: Sequence[Held]) -> list[Held]:
    names = _names(prefix, handed_over)
    return [replace(held, name=name) for held, name in zip(handed_over, names, strict=True)]
