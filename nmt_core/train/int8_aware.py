"""Train on weights that are rounded to 8-bit integers, so that their rounding in the int8 export costs less.

In quantisation-aware training, the passes of an update see the weights as the int8 export rounds them (Jacob et al.
2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", section 3). The
gradient passes through the rounding unchanged (the straight-through estimator, Bengio et al. 2013, "Estimating or
Propagating Gradients Through Stochastic Neurons"): the gradient at the rounded weights changes the weights in fp32.
Activations are not rounded: their ranges would depend on the other sentences of a pass, and so on the number of
processes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor
from torch.distributed.tensor import DTensor

from nmt_core.models.integers import integers_of, rounded_weights
from nmt_core.models.model import TranslationModel


class Int8Weights:
    """Weights of a model that the int8 export rounds.

    Args:
        model: the model. Its weights may be shards of rows, which have a scale each.
    """

    def __init__(self, model: TranslationModel) -> None:
        self._weights = rounded_weights(model)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Round the weights for the passes of an update, and restore them afterwards to the last bit.

        The tensors stay where they are, as compiled layers and CUDA graphs need it.
        """
        rows = [_rows_of(weight) for weight in self._weights]
        before = [weight_OI.clone() for weight_OI in rows]
        for weight_OI in rows:
            integers_OI, scale_O = integers_of(weight_OI)
            weight_OI.copy_(integers_OI * scale_O[:, None])
        try:
            yield
        finally:
            for weight_OI, exact_OI in zip(rows, before, strict=True):
                weight_OI.copy_(exact_OI)


def _rows_of(weight: Tensor) -> Tensor:
    """Return the rows of a weight that this process holds. A change in place changes the weight."""
    data = weight.detach()
    return data.to_local() if isinstance(data, DTensor) else data
