"""A recurrent model cut in two for decoding, as `incremental.py` cuts the Transformer.

Letters in names of tensors: as in `model.py`; C candidates.
"""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from nmt_core.models.kernels import Graph, Kernels
from nmt_core.models.recurrent.cells import CELLS, Recurrence, State, read_steps
from nmt_core.models.recurrent.model import RecurrentModel
from nmt_core.tokenizer.tokenizer import PAD_ID


class RnnKernels(Kernels):
    """The parts in PyTorch.

    Args:
        model: recurrent, in evaluation mode; its parameters are shared, not copied.
    """

    def read(
        self, recurrence: Recurrence, x_BLI: Tensor, is_token_BL: Tensor, *, reverse: bool
    ) -> tuple[Tensor, State]:
        """As `rnn_cells.Read`."""
        return read_steps(recurrence, x_BLI, is_token_BL, reverse=reverse)


class RnnEncoderGraph(Graph):
    """Source ids to what stays with each sentence, and to the first states of the decoder."""

    model: RecurrentModel
    kernels: RnnKernels

    def forward(self, source_BS: Tensor) -> list[Tensor]:
        """Source ids, end marks included and padded, to tensors of `cross_shapes`, then of `state_names`."""
        source = self.model.encode(source_BS, source_BS != PAD_ID, self.kernels.read)
        cross, states = self.model.start(source)
        return [*cross, *(part for state in states for part in state)]


class RnnStepGraph(Graph):
    """As `incremental.StepGraph`, with states of the decoder in place of keys and values."""

    model: RecurrentModel

    def forward(
        self,
        tokens_R: Tensor,
        position_1: Tensor,
        source_mask_BS: Tensor,
        choice: Sequence[Tensor],
        cross: list[Tensor],
        past: list[Tensor],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Decode one position further; what is not said here is as of `incremental.StepGraph`.

        Args:
            position_1: of no consequence here.
            choice: as of `incremental.StepGraph`.
            cross: the first part of what `RnnEncoderGraph` gave.
            past: the rest of it, or the second result of the step before, in the order of the rows; each [R, H].
        """
        model = self.model
        width = len(CELLS[model.config.rnn.cell].names)
        states = [tuple(past[first : first + width]) for first in range(0, len(past), width)]
        y_RE = F.embedding(tokens_R, model.target_embedding.weight)
        state_RM, states = model.step(y_RE, cross, source_mask_BS, states)
        return self.kernels.chosen(state_RM, choice), [part for state in states for part in state]
