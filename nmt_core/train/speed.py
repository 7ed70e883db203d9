"""How much of what the device can do training makes use of.

Model FLOP utilisation (Chowdhery et al. 2022, "PaLM", appendix B): the operations that the model needs by its formulas,
by those that the device did in its best matrix products in the same time. What is computed twice, or for padding, does
not count.
"""

import time

import torch

from nmt_core.models.transformer import Transformer

_FORWARD_AND_BACKWARD = 6  # operations per weight and token: two forward, four backward
_SIDE = {"cpu": 1_024, "cuda": 8_192}
_TIMES = 5


def training_flop(model: Transformer, source_tokens: float, target_tokens: float) -> float:
    """Operations of a forward and backward pass over so many tokens, but for those of attention's weights.

    Embeddings are looked up, not multiplied; the output matrix is multiplied, even where it is tied to them.
    """
    encoder = sum(parameter.numel() for parameter in model.encoder.parameters())
    decoder = sum(parameter.numel() for parameter in model.decoder.parameters())
    read_at_source = sum(parameter.numel() for layer in model.decoder for parameter in _of_memory(layer))
    output = model.vocab_size * model.config.d_model
    at_source = (encoder + read_at_source) * source_tokens
    at_target = (decoder - read_at_source + output) * target_tokens
    return _FORWARD_AND_BACKWARD * (at_source + at_target)


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second of this process in a large matrix product, the best of some."""
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


def _of_memory(layer: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Weights of a decoder layer that are multiplied with the source's states."""
    return list(layer.get_submodule("cross_attention").get_submodule("key_value").parameters())
