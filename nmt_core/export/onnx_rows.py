"""How the rows that decoding holds on to follow the search: graphs of no weights, which `search/onnx_step.py` runs.

Letters in names of tensors: R rows, N rows that are copied, H heads, T target positions, G positions of new room, D
width of a head.
"""

import torch
from torch import Tensor, nn


class MoveGraph(nn.Module):
    """Rows of the past in another order, as often as they are named, with room for more positions behind them."""

    def __init__(self, *, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place

    def forward(self, rows: Tensor, room: Tensor, past: list[Tensor]) -> list[Tensor]:
        """Rows [R]; room [G], any values; and the past [.., H, T, D] to [R, H, T + G, D], or, grown by steps, [R, ..].

        Room is filled with zeros, so that nothing depends on what was there.
        """
        moved = [of_rows.index_select(0, rows) for of_rows in past]
        if not self.in_place:
            return moved
        return [torch.cat([x, x.new_zeros(x.shape[0], x.shape[1], room.shape[0], x.shape[3])], dim=2) for x in moved]


class CopyGraph(nn.Module):
    """Some rows over others. A caller that puts the result in the place of what is read moves nothing else."""

    def forward(self, rows: Tensor, over: Tensor, held: list[Tensor]) -> list[Tensor]:
        """Rows [N], the rows over which they go [N], and tensors [R, ...] to the same with those rows overwritten.

        A graph must have an output: if nothing is held, it is the rows.
        """
        return [
            torch.onnx.ops.symbolic(
                "ScatterND",
                (of_rows, over[:, None], of_rows.index_select(0, rows)),
                dtype=of_rows.dtype,
                shape=of_rows.shape,
            )
            for of_rows in held
        ] or [rows.clone()]
