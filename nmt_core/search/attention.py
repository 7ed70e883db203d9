"""The attention of a model over a sentence and its translation, by the graph `attention.onnx`. Imports no torch.

Letters in names of arrays: B sentences, S source positions, T target positions, N layers, H heads, M `d_model`.
"""

from dataclasses import dataclass
from pathlib import Path

from nmt_core.errors import ModelError
from nmt_core.search.onnx_step import Device, open_graph
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
    """Vectors of the source tokens, scaled as they enter the model, [B, S, M]."""
    source_positions: Floats | None = None
    """What is added to them for their positions, [S, M]."""
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
        self.outputs = tuple(output.name for output in self._session.get_outputs())
        """Names of what it shows: fields of `AttentionMaps`."""

    def run(self, source_BS: Ints, target_BT: Ints) -> AttentionMaps:
        """One pass over sentences and their translations.

        Args:
            source_BS: source ids, end marks included, padded at the end (`step.pad_sources`).
            target_BT: the decoder's input: <s> and the target ids, padded at the end. No end mark is needed.
        """
        found = self._session.run(self.outputs, {"source": source_BS, "target": target_BT})
        return AttentionMaps(**dict(zip(self.outputs, found, strict=True)))
