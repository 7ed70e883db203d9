"""Models of the benchmarks: weights read without PyTorch, and a small model that computes the same in a larger size."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_model, save_model

from nmt_core.config import ModelConfig
from nmt_core.models.layers import sinusoidal_positions
from nmt_core.models.transformer import Transformer

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from translate_grow import grown
from translate_models import POSITIONS_KEY, Weights

SMALL = {"d_model": 16, "d_ff": 24, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 2}
LARGE = {"d_model": 64, "d_ff": 48, "num_heads": 4, "encoder_layers": 3, "decoder_layers": 3}
PIECES, MORE_PIECES = 40, 60


def trained(config: ModelConfig) -> Transformer:
    """Model whose norms and biases differ from their initial values."""
    model = Transformer(config, PIECES).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            parameter.copy_(torch.rand(parameter.shape) + 0.5)
    return model


def logits(model: Transformer) -> torch.Tensor:
    source, target = torch.tensor([[5, 9, 31, 3], [7, 3, 0, 0]]), torch.tensor([[2, 8, 30], [2, 11, 4]])
    output: torch.Tensor = model.output(model(source, target))
    return output


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_grown_model_says_what_the_small_one_says(norm: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    small, large = ModelConfig(**SMALL, norm=norm), ModelConfig(**LARGE, norm=norm)
    model = trained(small)
    save_model(model, str(tmp_path / "small.safetensors"))
    arrays, metadata = grown(Weights(tmp_path / "small.safetensors"), small, large, MORE_PIECES)
    save_file(arrays, tmp_path / "large.safetensors", metadata)
    weights = Weights(tmp_path / "large.safetensors")
    assert ModelConfig(**weights.sizes(4)) == large
    copy = Transformer(large, MORE_PIECES).eval().requires_grad_(False)
    load_model(copy, tmp_path / "large.safetensors")
    assert logits(copy)[..., :PIECES].sub(logits(model)).abs().max() > 0.1  # positions of its own width
    copy.positions_LM.copy_(torch.from_numpy(weights.positions(len(copy.positions_LM))))
    found = logits(copy)
    torch.testing.assert_close(found[..., :PIECES], logits(model), atol=1e-3, rtol=0)
    torch.testing.assert_close(found[..., PIECES:], torch.full_like(found[..., PIECES:], -100.0), atol=1e-2, rtol=0)
    assert weights.metadata[POSITIONS_KEY] == "16"


@pytest.mark.parametrize("tied", ["three_way", "two_way", "none"])
def test_weights_are_read_as_they_are_tied(tied: str, tmp_path: Path) -> None:
    config = ModelConfig(**SMALL, tied_embeddings=tied)
    model = Transformer(config, PIECES, source_vocab_size=None if tied == "three_way" else 50)
    save_model(model, str(tmp_path / "model.safetensors"))
    weights = Weights(tmp_path / "model.safetensors")
    assert ModelConfig(**weights.sizes(2)) == config
    for name, parameter in model.state_dict(keep_vars=True).items():
        np.testing.assert_array_equal(weights[name], parameter.detach().numpy())
    np.testing.assert_allclose(weights.positions(30), sinusoidal_positions(30, 16).numpy(), atol=1e-6)
