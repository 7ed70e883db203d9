"""How much of what the device can do training makes use of.

Model FLOP utilisation (Chowdhery et al. 2022, "PaLM", appendix B): the operations that the model needs by its formulas,
by those that the device did in its best matrix products in the same time. What is computed twice, or for padding, does
not count.
"""

import functools
import time

import torch

from nmt_core.models.model import TranslationModel

_FORWARD_AND_BACKWARD = 6  # operations per weight and token: two forward, four backward
_SIDE = {"cpu": 1_024, "cuda": 8_192}
_TIMES = 5


def training_flop(model: TranslationModel, source_tokens: float, target_tokens: float) -> float:
    """Operations of a forward and backward pass over so many tokens, but for those of attention's weights."""
    at_source, at_target = model.weights_per_token
    return _FORWARD_AND_BACKWARD * (at_source * source_tokens + at_target * target_tokens)


@functools.cache
def peak_matmul_flops(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second of this process in a large matrix product, the best of some; measured once."""
    side = _SIDE.get(device.type, 1_024)
    # Drawn from a generator of their own. Not constants: with those a GPU takes less power, and runs faster.
    draw = torch.Generator(device).manual_seed(0)
    one, other = (torch.randn(side, side, device=device, dtype=dtype, generator=draw) for _ in range(2))
    best = 0.0
    for _ in range(_TIMES):
        start = time.perf_counter()
        one @ other
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = max(best, 2 * side**3 / (time.perf_counter() - start))
    return best
