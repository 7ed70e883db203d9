"""Export a recurrent model: a layer of the encoder is one operator, whatever the length of the source.

By default, ONNX's GRU applies its reset gate before the product, as `GatedUnit` does. Letters in names of
tensors: as in `models/recurrent/cells.py`.
"""

import torch
from torch import Tensor

from nmt_core.export.onnx_kernels import OnnxKernels
from nmt_core.export.recording.recorder import operator
from nmt_core.models.recurrent.cells import Recurrence, State
from nmt_core.models.recurrent.incremental import RnnKernels


class OnnxRnnKernels(OnnxKernels, RnnKernels):
    """Kernels of a recurrent model in fp32, or in fp16 if the model is in half precision.

    Args:
        model: a recurrent model, in evaluation mode.
    """

    def read(
        self, recurrence: Recurrence, x_BLI: Tensor, is_token_BL: Tensor, *, reverse: bool
    ) -> tuple[Tensor, State]:
        """Read a sequence by one operator, and return the outputs [B, L, H] and the last state.

        Outputs after the end of a sentence are 0, and are not used.
        """
        sentences, positions, _ = x_BLI.shape
        hidden = recurrence.hidden_size
        bias_G = recurrence.input.bias
        inputs = [
            x_BLI.transpose(0, 1),
            recurrence.input.weight[None],
            torch.cat(recurrence.recurrent_weights())[None],
            torch.cat([bias_G, torch.zeros_like(bias_G)])[None],
            is_token_BL.sum(dim=1, dtype=torch.int32),
        ]
        last = (1, sentences, hidden)
        said_L1BH, *state = operator(
            recurrence.operator,
            inputs,
            {"hidden_size": hidden, "direction": "reverse" if reverse else "forward"},
            dtypes=[x_BLI.dtype] * (1 + len(recurrence.names)),
            shapes=[(positions, *last), *[last] * len(recurrence.names)],
        )
        return said_L1BH.squeeze(1).transpose(0, 1), tuple(part_1BH.squeeze(0) for part_1BH in state)
