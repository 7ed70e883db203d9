"""How the rows that decoding holds on to follow the search: modules without weights, for graphs that
`search/onnx_step.py` runs.

Letters in names of tensors: R rows, N rows that are copied, H heads, T target positions, G positions of new room, D
width of a head.
"""

import torch
from torch import Tensor, nn


class CopiedRows(nn.Module):
    """Some rows over others. A caller that puts the result in the place of what is read moves nothing else."""

    def forward(self, rows_N: Tensor, over_N: Tensor, held: list[Tensor]) -> list[Tensor]:
        """Copy rows of each tensor.

        Args:
            rows_N: which rows to copy.
            over_N: over which rows they go.
            held: tensors [R, ...].

        Returns:
            The same tensors with those rows overwritten. A graph must have an output: if nothing is held, `rows_N`.
        """
        return [one.index_copy(0, over_N, one[rows_N]) for one in held] or [rows_N]


class MovedRows(nn.Module):
    """Rows of the past in another order, each as often as it is named.

    Args:
        in_place: whether steps write into the past, and need room in it for further positions.
    """

    def __init__(self, *, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place

    def forward(self, rows_R: Tensor, room_G: Tensor, past: list[Tensor]) -> list[Tensor]:
        """Pick rows of each tensor.

        Args:
            rows_R: which rows.
            room_G: any values; its length is the room to add.
            past: tensors [.., H, T, D]; if not in place, of any shape that begins with rows.

        Returns:
            Tensors [R, H, T + G, D], with zeros in the room, so that nothing depends on what was there; or [R, ...].
        """
        moved = [one[rows_R] for one in past]
        return [self._with_room(one, room_G.shape[0]) for one in moved] if self.in_place else moved

    def _with_room(self, past_RHTD: Tensor, room: int) -> Tensor:
        rows, heads, _, width = past_RHTD.shape
        return torch.cat([past_RHTD, past_RHTD.new_zeros(rows, heads, room, width)], dim=2)
