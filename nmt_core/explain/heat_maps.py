"""Draw the matrices of a model that is too large for tables of numbers as heat maps, in levels that the page paints."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt_core.explain.encoding import encoded
from nmt_core.explain.matrices import Matrix, MatrixGroup
from nmt_core.explain.numbers import written
from nmt_core.search.step import Floats

GREATEST_LEVEL = 127
"""Level of the greatest magnitude of a matrix."""
HIDDEN_LEVEL = -128
"""Level of a score that the mask has set to minus infinity."""
_SMALLEST_SCALE = 1e-9


@dataclass(frozen=True)
class HeatMap:
    """Heat map of a matrix, or of the matrices of all heads in one scale."""

    title: str
    span: str
    """Smallest and greatest number that is shown, as text."""
    data: dict[str, Any]
    """Levels and labels for the script of the page."""


def heat_maps(group: MatrixGroup) -> tuple[HeatMap, ...]:
    """Return the heat map of each matrix of a part of the model."""
    return tuple(HeatMap(matrix.title, _span(matrix.values_HLN), _data(matrix)) for matrix in group.matrices)


def _data(matrix: Matrix) -> dict[str, Any]:
    values_HLN = matrix.values_HLN
    is_hidden = np.isneginf(values_HLN)
    finite_HLN = np.where(is_hidden, 0, values_HLN)
    greatest = 1.0 if matrix.are_shares else max(float(np.abs(finite_HLN).max()), _SMALLEST_SCALE)
    levels = np.where(is_hidden, HIDDEN_LEVEL, np.rint(finite_HLN / greatest * GREATEST_LEVEL)).astype(np.int8)
    return {
        "title": matrix.title,
        "rows": matrix.rows,
        "columns": matrix.columns,
        "heads": len(values_HLN),
        "width": values_HLN.shape[-1],
        "greatest": greatest,
        "levels": encoded(levels),
    }


def _span(values_HLN: Floats) -> str:
    finite = values_HLN[~np.isneginf(values_HLN)]
    return f"{written(float(finite.min()))} to {written(float(finite.max()))}"
