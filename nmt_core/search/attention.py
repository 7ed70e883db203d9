"""Compute the attention of a model over a sentence and its translation. Imports no torch.

The graph is `attention.onnx`. For a Transformer it computes all positions at once. For a recurrent model it reads one
token after the other.

Letters: see `nmt_core.models`. Here N counts layers.
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
"""Outputs of a Transformer's graph, which has those that its model has."""


WORKED_FILE = "worked.onnx"
"""Graph of all matrices of the first layers, which a bundle of a Transformer has."""
_OF_ATTENTION = (
    *("input", "entered", "queries", "keys", "values", "scores", "scaled", "masked", "weights"),
    *("summed", "joined", "output", "residual", "left"),
)
WORKED_OUTPUTS = (
    *(f"encoder_{name}" for name in _OF_ATTENTION),
    *(f"network_{name}" for name in ("activated", "output", "residual", "left")),
    *(f"decoder_{name}" for name in _OF_ATTENTION),
    "logits",
)
"""Outputs of `WORKED_FILE` (see `models/worked_example.py`)."""

STEPWISE_OUTPUTS = ("attention", "source_embedding", "target_embedding")
"""Outputs of a recurrent model's graph at each step."""


@dataclass(frozen=True)
class AttentionMaps:
    """Attention and embeddings of one pass. None means that the model does not have them.

    Rows of weights sum to 1, or to less with predictive local attention. Rows of padding have no meaning.
    """

    cross_attention: Floats | None = None
    """Attention of each target position to each source position, [B, N, H, T, S]. Position t has read the target up to
    token t of the decoder's input, and predicts the next token."""
    encoder_attention: Floats | None = None
    """Attention of the source to itself, [B, N, H, S, S]."""
    decoder_attention: Floats | None = None
    """Attention of the target to itself, [B, N, H, T, T]. It is zero above the diagonal."""
    source_embedding: Floats | None = None
    """Vectors of the source tokens as they enter the model, [B, S, M]. In a Transformer they are multiplied by
    sqrt(d_model) (Vaswani et al. 2017, section 3.4). In a recurrent model they are the rows of its table."""
    source_positions: Floats | None = None
    """Vectors that are added to `source_embedding` for positions, [S, M]. Zeros mean that positions turn queries and
    keys (rotary). None means that the model is recurrent."""
    target_embedding: Floats | None = None
    """Vectors of the tokens of the decoder's input as they enter the model, [B, T, M]."""
    target_positions: Floats | None = None
    """Vectors that are added to `target_embedding` for positions, [T, M]."""


def worked_example(folder: Path, source_BS: Ints, target_BT: Ints) -> dict[str, Floats] | None:
    """Return all matrices of the first layers by their names in `WORKED_OUTPUTS`. None if there is no graph for them.

    Args:
        folder: folder of the graphs in fp32: `<bundle>/fp32`.
        source_BS: source ids, end marks included, padded at the end.
        target_BT: the decoder's input: <s> and the target ids.

    Raises:
        ModelError: onnxruntime cannot run the graph.
    """
    if not (folder / WORKED_FILE).is_file():
        return None
    session = open_graph(folder / WORKED_FILE)
    arrays = session.run(list(WORKED_OUTPUTS), {"source": source_BS, "target": target_BT})
    return dict(zip(WORKED_OUTPUTS, arrays, strict=True))


class AttentionGraph:
    """Graph of one model. Threads may share it.

    Args:
        folder: folder of the graphs in fp32: `<bundle>/fp32`.
        device: device to compute on.

    Raises:
        ModelError: there is no such graph, or onnxruntime cannot run it.
    """

    def __init__(self, folder: Path, device: Device = "cpu") -> None:
        if not (folder / ATTENTION_FILE).is_file():
            raise ModelError(
                f"{folder / ATTENTION_FILE}: missing: the bundle is from a version without this graph, or its "
                "model has no attention: export it again with this nmt-pipeline"
            )
        self._session = open_graph(folder / ATTENTION_FILE, device)
        self._outputs = [output.name for output in self._session.get_outputs()]
        self.is_stepwise = "tokens" in {given.name for given in self._session.get_inputs()}
        """True if the model is recurrent."""
        self._encoder = open_graph(folder / ENCODER_FILE, device) if self.is_stepwise else None

    def run(self, source_BS: Ints, target_BT: Ints) -> AttentionMaps:
        """Compute one pass over sentences and their translations.

        Args:
            source_BS: source ids, end marks included, padded at the end (`step.pad_sources`).
            target_BT: the decoder's input: <s> and the target ids, padded at the end. No end mark is needed.
        """
        if self._encoder:
            return self._step_by_step(source_BS, target_BT)
        arrays = self._session.run(self._outputs, {"source": source_BS, "target": target_BT})
        return AttentionMaps(**dict(zip(self._outputs, arrays, strict=True)))

    def _step_by_step(self, source_BS: Ints, target_BT: Ints) -> AttentionMaps:
        assert self._encoder
        names = [output.name for output in self._encoder.get_outputs()]
        encoded = dict(zip(names, self._encoder.run(names, {"source": source_BS}), strict=True))
        held = {name: value for name, value in encoded.items() if name.startswith("cross_")}
        states = {name.replace("initial_", "past_"): value for name, value in encoded.items() if name not in held}
        steps = []
        for tokens_B in target_BT.T:
            given = {"source": source_BS, "tokens": np.ascontiguousarray(tokens_B)} | held | states
            arrays = dict(zip(self._outputs, self._session.run(self._outputs, given), strict=True))
            states = {name.replace("present_", "past_"): arrays[name] for name in arrays if name.startswith("present_")}
            steps.append(arrays)
        return AttentionMaps(
            cross_attention=np.stack([step["attention"] for step in steps], axis=1)[:, None, None],
            source_embedding=steps[0]["source_embedding"],
            target_embedding=np.stack([step["target_embedding"] for step in steps], axis=1),
        )
