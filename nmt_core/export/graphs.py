"""A set of graphs: encoder and step, what keeps their tensors in order, and `weights.bin`, with each matrix once.

Beside those that translate, `attention.onnx` shows the model's attention and `alignment.onnx` says which words belong
together; for a shortlist, `shortlist_step.onnx` and `shortlist_output.onnx` do what `step.onnx` does. All of them read
the same weights.

Letters in names of tensors: B sentences, S source positions, R rows, M `d_model`, W blocks of a shortlist, E tokens of
a block.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import torch
from torch import Tensor

from nmt_core.export.onnx_files import exported, share_weights
from nmt_core.export.onnx_kernels import OnnxKernels
from nmt_core.export.onnx_rows import copy_graph, move_graph
from nmt_core.models.decoding import Graphs, Held, graphs_of
from nmt_core.models.incremental_rnn import RnnKernels
from nmt_core.models.kernels import Kernels
from nmt_core.models.rnn_attention import DotAttentionModel, SearchModel
from nmt_core.models.transformer import Transformer
from nmt_core.models.visible import AttentionView
from nmt_core.models.visible_rnn import RecurrentAttentionStep
from nmt_core.search.alignment import ALIGNMENT_FILE, ALIGNMENT_OUTPUT
from nmt_core.search.attention import ATTENTION_FILE, ATTENTION_OUTPUTS, STEPWISE_OUTPUTS
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
from nmt_core.tokenizer.tokenizer import EOS_ID

_ALIGNING_LAYERS = 2
"""Of the decoder, the last ones: better than either alone, as measured (`tests/bench/README.md`)."""


def export_graphs(
    kernels: OnnxKernels, folder: Path, *, with_attention: bool = False, with_shortlist: bool = False
) -> None:
    """Write a set of graphs.

    Args:
        kernels: what the graphs compute with; they hold the model.
        folder: is made if it is missing.
        with_attention: whether to add the graphs that show attention; for the set in fp32.
        with_shortlist: whether to add those that choose from a shortlist.
    """
    folder.mkdir(exist_ok=True)
    halves = graphs_of(kernels)
    before = _names(_before(halves), halves.past)
    graphs = {
        ENCODER_FILE: _encoder(halves),
        **_steps(halves, has_screen=kernels.screen is not None),
        KEEP_FILE: copy_graph(halves.cross, _names("cross", halves.cross), _names("kept", halves.cross)),
        MOVE_FILE: move_graph(halves.past, before, _names("moved", halves.past), in_place=halves.writes_in_place),
        COPY_FILE: copy_graph(halves.past, before, _names("copied", halves.past)),
    }
    if with_attention:
        graphs |= _views(kernels)
    if with_shortlist:
        output, listed = _output(halves)
        graphs |= {SHORTLIST_OUTPUT_FILE: output, SHORTLIST_STEP_FILE: _step(halves, [LOG_PROBS, IDS], listed)}
    with (folder / WEIGHTS_FILE).open("wb") as weights:
        offsets: dict[bytes, int] = {}
        for name, graph in graphs.items():
            share_weights(graph, weights, offsets)
            onnx.save_model(graph, folder / name)


# Sizes of the examples differ from each other and from 1: the exporter takes equal ones for one and the same.
_SIZES = {"sentences": 3, "source_positions": 5, "rows": 6, "past_positions": 7}
_ROWS, _CANDIDATES = _SIZES["rows"], 8


def _encoder(halves: Graphs) -> onnx.ModelProto:
    """The graph of the encoder: source [B, S] to cross_* and, if the decoder starts from something, initial_*."""
    initial = halves.past if halves.has_first else ()
    return exported(
        halves.encoder,
        (torch.full((2, 3), EOS_ID),),
        dynamic_shapes=({0: "sentences", 1: "source_positions"},),
        input_names=["source"],
        output_names=[*_names("cross", halves.cross), *_names("initial", initial)],
    )


_BLOCKS = 9
"""Of a shortlist, in the examples."""


def _output(halves: Graphs) -> tuple[onnx.ModelProto, list[Tensor]]:
    """The graph of the output: list [W, E] to listed_*; and examples of these."""
    ids_WE = torch.full((_BLOCKS, BLOCK_PIECES), EOS_ID)
    listed = halves.output(ids_WE)
    graph = exported(
        halves.output,
        (ids_WE,),
        dynamic_shapes=({0: "blocks"},),
        input_names=["list"],
        output_names=_listed_names(listed),
    )
    return graph, listed


def _listed_names(listed: Sequence[Tensor]) -> list[str]:
    return [f"listed_{number}" for number in range(len(listed))]


def _steps(halves: Graphs, *, has_screen: bool) -> dict[str, onnx.ModelProto]:
    """The graphs of a step that choose from the whole vocabulary, by their files: parts of one, which is traced once.

    To trace a step takes much longer than to cut it, and all but the choice is the same.
    """
    whole, screened = "whole_vocabulary", "screened_ids"
    step = _step(halves, [LOG_PROBS, IDS, whole, *([screened] if has_screen else [])])
    past = _names(_after(halves), halves.past)
    return {
        STEP_FILE: _part(step, [LOG_PROBS, IDS, *past]),
        UNSCORED_STEP_FILE: _part(step, [IDS, *past], {IDS: screened} if has_screen else {}),
        WHOLE_STEP_FILE: _part(step, [LOG_PROBS, *past], {LOG_PROBS: whole}),
    }


def _step(halves: Graphs, chosen: Sequence[str], listed: Sequence[Tensor] = ()) -> onnx.ModelProto:
    """The graph of a step; `models/incremental.py` gives the shapes, `search/onnx_step.py` the names.

    Args:
        halves: of the model.
        chosen: names of what `Kernels.chosen` says.
        listed: examples of what the graph of the output gives; none: the step chooses from the whole vocabulary.
    """
    penalties = [torch.zeros(_SIZES["sentences"], _BLOCKS, BLOCK_PIECES)] if listed else []
    return exported(
        halves.step,
        (
            torch.full((_ROWS,), EOS_ID),
            torch.zeros(1, dtype=torch.int64),
            torch.ones(_SIZES["sentences"], _SIZES["source_positions"], dtype=torch.bool),
            [torch.zeros(_CANDIDATES, dtype=torch.int64), *penalties, *listed],
            _examples(halves.cross),
            _examples(halves.past),
        ),
        dynamic_shapes=(
            {0: "rows"},
            {},
            {0: "sentences", 1: "source_positions"},
            [
                {0: "candidates"},
                *({0: "sentences", 1: "blocks"} for _ in penalties),
                *({tensor.dim() - 2: "blocks"} for tensor in listed),
            ],
            [held.varying for held in halves.cross],
            [held.varying for held in halves.past],
        ),
        input_names=[
            *("tokens", "position", "source_mask", "candidates"),
            *("penalties" for _ in penalties),
            *_listed_names(listed),
            *_names("cross", halves.cross),
            *_names(_before(halves), halves.past),
        ],
        output_names=[*chosen, *_names(_after(halves), halves.past)],
    )


def _part(graph: onnx.ModelProto, outputs: Sequence[str], called: Mapping[str, str] | None = None) -> onnx.ModelProto:
    """What of a graph leads to some of its outputs.

    Args:
        graph: the whole.
        outputs: names of those in the part.
        called: what some of them are called in the whole, by their names in the part.
    """
    called = called or {}
    inputs = [one.name for one in graph.graph.input]
    part = onnx.utils.Extractor(graph).extract_model(inputs, [called.get(name, name) for name in outputs])
    names = {old: new for new, old in called.items()}
    for node in part.graph.node:
        node.output[:] = [names.get(name, name) for name in node.output]
        node.input[:] = [names.get(name, name) for name in node.input]
    for output in part.graph.output:
        output.name = names.get(output.name, output.name)
    return part


def _before(halves: Graphs) -> str:
    """How the past is called that a step gets."""
    return "cache" if halves.writes_in_place else "past"


def _after(halves: Graphs) -> str:
    """How the past is called that a step gives."""
    return "written" if halves.writes_in_place else "present"


def _views(kernels: Kernels) -> dict[str, onnx.ModelProto]:
    """The graphs that show attention, if the model has any."""
    if isinstance(kernels.model, Transformer):
        return _transformer_views(Kernels(kernels.model))
    if isinstance(kernels, RnnKernels) and isinstance(kernels.model, SearchModel | DotAttentionModel):
        return {ATTENTION_FILE: _recurrent_view(kernels)}
    return {}


def _transformer_views(kernels: Kernels) -> dict[str, onnx.ModelProto]:
    """The two parts of `AttentionView`: source [B, S] and target [B, T] to what it returns."""
    view = exported(
        AttentionView(kernels, _ALIGNING_LAYERS),
        (torch.full((2, 3), EOS_ID), torch.full((2, 5), EOS_ID)),
        dynamic_shapes=({0: "sentences", 1: "source_positions"}, {0: "sentences", 1: "target_positions"}),
        input_names=["source", "target"],
        output_names=[*ATTENTION_OUTPUTS, ALIGNMENT_OUTPUT],
    )
    return {ATTENTION_FILE: _part(view, ATTENTION_OUTPUTS), ALIGNMENT_FILE: _part(view, [ALIGNMENT_OUTPUT])}


def _recurrent_view(kernels: RnnKernels) -> onnx.ModelProto:
    """The graph of `RecurrentAttentionStep`, with the names of the graphs that translate."""
    halves = graphs_of(kernels)
    sizes = _SIZES | {"rows": _SIZES["sentences"]}  # a sentence has one row
    return exported(
        RecurrentAttentionStep(kernels),
        (
            torch.full((_SIZES["sentences"], _SIZES["source_positions"]), EOS_ID),
            torch.full((_SIZES["sentences"],), EOS_ID),
            [held.zeros(sizes) for held in halves.cross],
            [held.zeros(sizes) for held in halves.past],
        ),
        dynamic_shapes=(
            {0: "sentences", 1: "source_positions"},
            {0: "sentences"},
            [held.varying for held in halves.cross],
            [{0: "sentences"} for _ in halves.past],
        ),
        input_names=["source", "tokens", *_names("cross", halves.cross), *_names("past", halves.past)],
        output_names=[*STEPWISE_OUTPUTS, *_names("present", halves.past)],
    )


def _names(prefix: str, handed_over: Sequence[Held]) -> list[str]:
    return [f"{prefix}_{held.name}" for held in handed_over]


def _examples(handed_over: Sequence[Held]) -> list[Tensor]:
    return [held.zeros(_SIZES) for held in handed_over]
