"""Modules that copy and reorder the rows which decoding keeps, as the search proceeds.

They have no weights, and become graphs that `search/onnx_step.py` runs.

Letters in names of tensors: R rows, N rows that are copied, H heads, T target positions, G positions of new room, D
width of a head.
"""

import torch
from torch import Tensor, nn


class CopiedRows(nn.Module):
    """Copy some rows over others. If the caller lets outputs share the memory of inputs, nothing else is moved."""

    def forward(self, rows_N: Tensor, over_N: Tensor, held: list[Tensor]) -> list[Tensor]:
        """Copy rows of each tensor.

        Args:
            rows_N: indices of the rows to copy.
            over_N: indices of the rows that they overwrite.
            held: tensors [R, ...].

        Returns:
            The tensors with those rows overwritten. If there are no tensors, `rows_N`, since a graph needs an output.
        """
        return [one.index_copy(0, over_N, one[rows_N]) for one in held] or [rows_N]


class MovedRows(nn.Module):
    """Reorder rows of the past. A row may be taken several times.

    Args:
        in_place: True if steps write into the past and need room in it for more positions.
    """

    def __init__(self, *, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place

    def forward(self, rows_R: Tensor, room_G: Tensor, past: list[Tensor]) -> list[Tensor]:
        """Pick rows of each tensor.

        Args:
            rows_R: indices of the rows.
            room_G: any values. The length is the number of positions to add.
            past: tensors [.., H, T, D]. If not in place, tensors of any shape that begins with rows.

        Returns:
            Tensors [R, H, T + G, D] with zeros in the new positions, so that results depend on nothing else. If not in
            place, tensors [R, ...].
        """
        moved = [one[rows_R] for one in past]
        return [self._with_room(one, room_G.shape[0]) for one in moved] if self.in_place else moved

    def _with_room(self, past_RHTD: Tensor, room: int) -> Tensor:
        rows, heads, _, width = past_RHTD.shape
        return torch.cat([past_RHTD, past_RHTD.new_zeros(rows, heads, room, width)], dim=2)
