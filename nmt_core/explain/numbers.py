"""Write the matrices of a very small model as tables of numbers, in the order in which they are computed."""

from collections.abc import Sequence
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
_MOST_LOGITS = 8


@dataclass(frozen=True)
class NumberTable:
    """Matrix as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """Label of each row, and its numbers."""


@dataclass(frozen=True)
class NumberGroup:
    """Matrices of one part of the model."""

    title: str
    tables: tuple[NumberTable, ...]


def numbers(explanation: Explanation) -> tuple[NumberGroup, ...]:
    """Return the matrices of the first layers and the largest logits. Empty if the model is not small enough."""
    worked = explanation.worked
    if worked is None:
        return ()
    source = tuple(token.piece for token in explanation.source)
    read = tuple(step.read.piece for step in explanation.steps)
    of_encoder = _tables(worked, "encoder", _ATTENTION, source) + _tables(worked, "network", _NETWORK, source)
    return (
        NumberGroup("First layer of the encoder", of_encoder),
        NumberGroup(
            "Masked self-attention in the first layer of the decoder", _tables(worked, "decoder", _ATTENTION, read)
        ),
        NumberGroup("Logits of the tokens that may come next", (_logits(explanation, worked["logits"], read),)),
    )


def _tables(
    worked: dict[str, Floats], part: str, titles: dict[str, str], labels: tuple[str, ...]
) -> tuple[NumberTable, ...]:
    tables = list[NumberTable]()
    before = None
    for name, title in titles.items():
        matrix = worked[f"{part}_{name}"]
        is_norm = name in ("entered", "left")
        if not (is_norm and before is not None and np.array_equal(matrix, before)):  # the norm has another place
            heads = matrix if matrix.ndim == 3 else matrix[None]
            for number, rows in enumerate(heads, start=1):
                columns = labels if name in _BETWEEN_POSITIONS else tuple(map(str, range(1, rows.shape[-1] + 1)))
                head = f", head {number}" if matrix.ndim == 3 else ""
                tables.append(_table(title + head, columns, labels, rows[: len(labels), : len(columns)]))
        before = matrix
    return tuple(tables)


def _logits(explanation: Explanation, logits_TV: Floats, read: Sequence[str]) -> NumberTable:
    """Return the logits of the candidates of each step, best first, as the page names the candidates."""
    rows = tuple(
        (
            step.read.piece,
            *(f"{one.token.piece} {logits_V[one.token.id]:.2f}" for one in step.candidates[:_MOST_LOGITS]),
        )
        for step, logits_V in zip(explanation.steps, logits_TV, strict=False)
    )
    return NumberTable("Largest logits after each token", tuple(map(str, range(1, _MOST_LOGITS + 1))), rows)


def _table(title: str, columns: tuple[str, ...], labels: Sequence[str], matrix: Floats) -> NumberTable:
    rows = tuple((label, *map(_number, row)) for label, row in zip(labels, matrix.tolist(), strict=False))
    return NumberTable(title, columns, rows)


def _number(value: float) -> str:
    return "−∞" if value == float("-inf") else f"{value:.2f}".replace("-", "−")
