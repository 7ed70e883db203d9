"""The attention of a model over a sentence and its translation, by the graph `attention.onnx`. Imports no torch.

The graph of a Transformer computes all positions at once; that of a recurrent model reads one token after the other.

Letters in names of arrays: B sentences, S source positions, T target positions, N layers, H heads, M `d_model`.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt_core.errors import ModelError
from nmt_core.search.onnx_session import Device, open_graph
from nmt_core.search.onnx_step import ENCODER_FILE
from nmt_core.search.step import Floats, Ints

ATTENTION_FILE = "attention.onnx"
ATTENTION_OUTPUTS = (
    "source_embedding",
    "source_positions",
    "target_embedding",
    "target_positions",
    "encoder_attention",
    "decoder_attention",
    "cross_attention",
)
"""Of a Transformer; a graph has those that its model has."""


STEPWISE_OUTPUTS = ("attention", "source_embedding", "target_embedding")
"""Of a recurrent model, at each step."""


@dataclass(frozen=True)
class AttentionMaps:
    """What a pass shows; None: the model has no such thing. Rows of weights sum to 1; rows of padding say nothing."""

    cross_attention: Floats | None = None
    """How much each target position takes of each source position, [B, N, H, T, S]. Position t has read the target up
    to token t of the decoder's input, and says which token follows."""
    encoder_attention: Floats | None = None
    """Of the source to itself, [B, N, H, S, S]."""
    decoder_attention: Floats | None = None
    """Of the target to itself, [B, N, H, T, T]; zero above the diagonal."""
    source_embedding: Floats | None = None
    """Vectors of the source tokens as they enter the model, [B, S, M]: of a Transformer times sqrt(d_model) (Vaswani et
    al. 2017, section 3.4), of a recurrent model as they are in its table."""
    source_positions: Floats | None = None
    """What is added to them for their positions, [S, M]; zeros: positions turn queries and keys (rotary); None: the
    model is recurrent."""
    target_embedding: Floats | None = None
    """[B, T, M]."""
    target_positions: Floats | None = None
    """[T, M]."""


class AttentionGraph:
    """The graph of one model. Threads may share it.

    Args:
        folder: of the set of graphs in fp32: `<bundle>/fp32`.
        device: where to compute.

    Raises:
        ModelError: there is no such graph, or onnxruntime cannot run it.
    """

    def __init__(self, folder: Path, device: Device = "cpu") -> None:
        if not (folder / ATTENTION_FILE).is_file():
            raise ModelError(
                f"{folder / ATTENTION_FILE}: missing: the bundle was exported before attention could be shown, or its "
                "model has none: export it again with this nmt-pipeline"
            )
        self._session = open_graph(folder / ATTENTION_FILE, device)
        self._outputs = [output.name for output in self._session.get_outputs()]
        self.is_stepwise = "tokens" in {given.name for given in self._session.get_inputs()}
        """Whether it is that of a recurrent model."""
        self._encoder = open_graph(folder / ENCODER_FILE, device) if self.is_stepwise else None

    def run(self, source_BS: Ints, target_BT: Ints) -> AttentionMaps:
        """One pass over sentences and their translations.

        Args:
            source_BS: source ids, end marks included, padded at the end (`step.pad_sources`).
            target_BT: the decoder's input: <s> and the target ids, padded at the end. No end mark is needed.
        """
        if self._encoder:
            return self._step_by_step(source_BS, target_BT)
        found = self._session.run(self._outputs, {"source": source_BS, "target": target_BT})
        return AttentionMaps(**dict(zip(self._outputs, found, strict=True)))

    def _step_by_step(self, source_BS: Ints, target_BT: Ints) -> AttentionMaps:
        assert self._encoder
        names = [output.name for output in self._encoder.get_outputs()]
        encoded = dict(zip(names, self._encoder.run(names, {"source": source_BS}), strict=True))
        held = {name: value for name, value in encoded.items() if name.startswith("cross_")}
        states = {name.replace("initial_", "past_"): value for name, value in encoded.items() if name not in held}
        steps = []
        for tokens_B in target_BT.T:
            given = {"source": source_BS, "tokens": np.ascontiguousarray(tokens_B)} | held | states
            found = dict(zip(self._outputs, self._session.run(self._outputs, given), strict=True))
            states = {name.replace("present_", "past_"): found[name] for name in found if name.startswith("present_")}
            steps.append(found)
        return AttentionMaps(
            cross_attention=np.stack([step["attention"] for step in steps], axis=1)[:, None, None],
            source_embedding=steps[0]["source_embedding"],
            target_embedding=np.stack([step["target_embedding"] for step in steps], axis=1),
        )
