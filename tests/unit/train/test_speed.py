"""The operations of a model by its formulas, and what the device can do."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from nmt_core.config import ModelConfig
from nmt_core.models.transformer import Transformer
from nmt_core.train.speed import peak_matmul_flops, training_flop

BASE = ModelConfig(tied_embeddings="three_way")
BIG = ModelConfig(d_model=1_024, d_ff=4_096, num_heads=16)


@pytest.mark.parametrize(("config", "gigaflop"), [(BASE, 0.381), (BIG, 1.290)])
def test_the_published_models_need_what_is_known(config: ModelConfig, gigaflop: float) -> None:
    """Per pair of tokens, with a joint vocabulary of 37,000 pieces."""
    with torch.device("meta"):
        model = Transformer(config, 37_000)
    assert training_flop(model, 1, 1) / 1e9 == pytest.approx(gigaflop, rel=0.03)


def test_the_formula_is_what_pytorch_counts() -> None:
    """But for the products of attention itself, which are few in short sentences."""
    model = Transformer(ModelConfig(d_model=64, d_ff=128, num_heads=4, encoder_layers=2, decoder_layers=3), 300)
    source, target = torch.randint(4, 300, (8, 5)), torch.randint(4, 300, (8, 4))
    with FlopCounterMode(display=False) as counter:
        model.output(model(source, target)).sum().backward()
    assert training_flop(model, source.numel(), target.numel()) == pytest.approx(counter.get_total_flops(), rel=0.1)


def test_a_matrix_product_takes_time() -> None:
    assert 1e8 < peak_matmul_flops(torch.device("cpu"), torch.float32) < 1e14
