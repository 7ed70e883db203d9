"""Write the matrices of a very small model as tables of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt_core.explain.explanation import Explanation
from nmt_core.explain.matrices import Matrix, MatrixGroup
from nmt_core.search.step import Floats

WIDEST = 16
"""Widest `d_model` of a model whose numbers fit on a page."""
_MOST_LOGITS = 8


@dataclass(frozen=True)
class NumberTable:
    """Matrix as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """Label of each row, and its numbers."""


def tables(group: MatrixGroup) -> tuple[NumberTable, ...]:
    """Return a table for each matrix of a part of the model, and one for each head."""
    return tuple(
        _table(matrix, f"{matrix.title}, head {number}" if matrix.is_of_heads else matrix.title, values_LN)
        for matrix in group.matrices
        for number, values_LN in enumerate(matrix.values_HLN, start=1)
    )


def largest_logits(explanation: Explanation) -> NumberTable | None:
    """Return the logits of the candidates of each step, best first. None if the bundle has no graph for them."""
    if explanation.worked is None:
        return None
    rows = tuple(
        (
            step.read.piece,
            *(f"{one.token.piece} {logits_V[one.token.id]:.2f}" for one in step.candidates[:_MOST_LOGITS]),
        )
        for step, logits_V in zip(explanation.steps, explanation.worked["logits"], strict=False)
    )
    return NumberTable("Largest logits after each token", tuple(map(str, range(1, _MOST_LOGITS + 1))), rows)


def _table(matrix: Matrix, title: str, values_LN: Floats) -> NumberTable:
    columns = matrix.columns or tuple(map(str, range(1, values_LN.shape[-1] + 1)))
    return NumberTable(title, columns, _rows(matrix.rows, values_LN))


def _rows(labels: Sequence[str], values_LN: Floats) -> tuple[tuple[str, ...], ...]:
    return tuple((label, *map(written, row)) for label, row in zip(labels, values_LN.tolist(), strict=False))


def written(value: float) -> str:
    """Return a number with two decimals, with the sign for minus, and minus infinity as a sign too."""
    return "−∞" if value == float("-inf") else f"{value:.2f}".replace("-", "−")
