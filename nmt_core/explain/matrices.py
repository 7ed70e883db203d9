"""Name the matrices of a Transformer's first layers, in the order in which they are computed.

Letters: L rows, which are positions, N columns, H attention heads.
"""

from dataclasses import dataclass

import numpy as np

from nmt_core.explain.explanation import Explanation
from nmt_core.search.step import Floats

_ATTENTION = {
    "input": "Input: embedding + position",
    "entered": "Layer normalisation before attention",
    "queries": "Queries Q",
    "keys": "Keys K",
    "values": "Values V",
    "scores": "Raw scores Q Kᵀ",
    "scaled": "Scaled scores Q Kᵀ / √d_k",
    "masked": "Masked scores",
    "weights": "Softmax: attention weights",
    "summed": "Weighted sum of values",
    "joined": "Concatenation of the heads",
    "output": "Times W_O",
    "residual": "Residual sum: input + attention",
    "left": "Layer normalisation after the sum",
}
_NETWORK = {
    "activated": "Feed-forward network: after the activation",
    "output": "Feed-forward network: output",
    "residual": "Residual sum: input + network",
    "left": "Layer normalisation after the sum",
}
_BETWEEN_POSITIONS = {"scores", "scaled", "masked", "weights"}


@dataclass(frozen=True)
class Matrix:
    """Matrix of a layer, or the matrices of its heads."""

    title: str
    rows: tuple[str, ...]
    """Token of each row."""
    columns: tuple[str, ...] | None
    """Token of each column. None if columns are the components of vectors."""
    values_HLN: Floats
    """Numbers. A matrix that does not belong to a head is alone."""
    is_of_heads: bool
    are_shares: bool
    """True if each row holds numbers from 0 to 1 that sum to 1."""


@dataclass(frozen=True)
class MatrixGroup:
    """Matrices of one part of the model."""

    title: str
    matrices: tuple[Matrix, ...]


def matrix_groups(explanation: Explanation) -> tuple[MatrixGroup, ...]:
    """Return the matrices of the first layers. Empty if the bundle has no graph for them."""
    worked = explanation.worked
    if worked is None:
        return ()
    source = tuple(token.piece for token in explanation.source)
    read = tuple(step.read.piece for step in explanation.steps)
    of_encoder = _matrices(worked, "encoder", _ATTENTION, source) + _matrices(worked, "network", _NETWORK, source)
    of_decoder = _matrices(worked, "decoder", _ATTENTION, read)
    return (
        MatrixGroup("First layer of the encoder", of_encoder),
        MatrixGroup("Masked self-attention in the first layer of the decoder", of_decoder),
    )


def _matrices(
    worked: dict[str, Floats], part: str, titles: dict[str, str], labels: tuple[str, ...]
) -> tuple[Matrix, ...]:
    found = list[Matrix]()
    before = None
    for name, title in titles.items():
        values = worked[f"{part}_{name}"]
        is_norm = name in ("entered", "left")
        if not (is_norm and before is not None and np.array_equal(values, before)):  # the norm has another place
            columns = labels if name in _BETWEEN_POSITIONS else None
            heads_HLN = values if values.ndim == 3 else values[None]
            shown_HLN = heads_HLN[:, : len(labels), : len(columns) if columns else None]
            found.append(Matrix(title, labels, columns, shown_HLN, values.ndim == 3, name == "weights"))
        before = values
    return tuple(found)
