"""Draw the matrices of a model that is too large for tables of numbers as heat maps, in levels that the page paints."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt_core.explain.encoding import encoded
from nmt_core.explain.matrices import Matrix, MatrixGroup
from nmt_core.explain.numbers import written
from nmt_core.search.step import Floats

GREATEST_LEVEL = 127
"""Level of the greatest magnitude of a head's matrix."""
HIDDEN_LEVEL = -128
"""Level of a score that the mask has set to minus infinity."""
_SMALLEST_SCALE = 1e-9


@dataclass(frozen=True)
class HeatMap:
    """Heat map of a matrix, or of the matrix of each head."""

    title: str
    span: str
    """Smallest and greatest number of the first head, as text."""
    data: dict[str, Any]
    """Levels and labels for the script of the page."""


def heat_maps(group: MatrixGroup) -> tuple[HeatMap, ...]:
    """Return the heat map of each matrix of a part of the model."""
    maps = []
    for matrix in group.matrices:
        spans = [_span(values_LN) for values_LN in matrix.values_HLN]
        maps.append(HeatMap(matrix.title, spans[0], _data(matrix) | {"spans": spans}))
    return tuple(maps)


def _data(matrix: Matrix) -> dict[str, Any]:
    values_HLN = matrix.values_HLN
    is_hidden = np.isneginf(values_HLN)
    finite_HLN = np.where(is_hidden, 0, values_HLN)
    greatest_H = np.maximum(np.abs(finite_HLN).max(axis=(1, 2)), _SMALLEST_SCALE)
    if matrix.are_shares:
        greatest_H = np.ones_like(greatest_H)
    levels = np.rint(finite_HLN / greatest_H[:, None, None] * GREATEST_LEVEL)
    return {
        "title": matrix.title,
        "rows": matrix.rows,
        "columns": matrix.columns,
        "heads": len(values_HLN),
        "width": values_HLN.shape[-1],
        "greatest": greatest_H.tolist(),
        "levels": encoded(np.where(is_hidden, HIDDEN_LEVEL, levels).astype(np.int8)),
    }


def _span(values_LN: Floats) -> str:
    finite = values_LN[~np.isneginf(values_LN)]
    return f"{written(float(finite.min()))} to {written(float(finite.max()))}"
