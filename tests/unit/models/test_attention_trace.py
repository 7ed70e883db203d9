"""The attention that is shown is the attention that the model computes: every weight of every head."""

import math

import pytest
import torch
from torch import Tensor

from nmt_core.config import ModelConfig
from nmt_core.models import attention, layers
from nmt_core.models.attention import attend
from nmt_core.models.attention_trace import AttentionView
from nmt_core.models.kernels import Kernels
from nmt_core.models.transformer import Transformer

SOURCE_BS = torch.tensor([[5, 6, 7, 8, 9, 3], [10, 11, 3, 0, 0, 0]])
TARGET_BT = torch.tensor([[2, 7, 8, 9], [2, 5, 0, 0]])
LAYERS, HEADS, WIDTH = 3, 4, 32


def random_model(norm: str) -> Transformer:
    torch.manual_seed(3)
    config = ModelConfig(d_model=WIDTH, d_ff=64, num_heads=HEADS, encoder_layers=2, decoder_layers=LAYERS, norm=norm)
    return Transformer(config, 40, max_positions=64).eval().requires_grad_(False)


def paid(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Return the weights of each attention in the order of `Transformer.forward`, from its queries and keys."""
    seen = list[Tensor]()

    def looked_at(
        q: Tensor, k: Tensor, v: Tensor, keys, queries=None, *, causal: bool = False, width: int = 0
    ) -> Tensor:
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
        for sentence in range(len(scores)):
            for t in range(scores.shape[2]):
                for s in range(scores.shape[3]):
                    hidden = s > t if causal else not keys.is_token_BL[sentence, s]
                    if hidden:
                        scores[sentence, :, t, s] = -1e30
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
        seen.append(weights)
        return attend(q, k, v, keys, queries, causal=causal)

    for module in (attention, layers):
        monkeypatch.setattr(module, "attend", looked_at)
    model(SOURCE_BS, TARGET_BT)
    return seen


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_what_is_shown_is_what_the_model_pays(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(norm)
    *vectors, encoder, decoder, cross, _ = AttentionView(Kernels(model), 1)(SOURCE_BS, TARGET_BT)
    seen = paid(model, monkeypatch)
    expected = seen[:2], seen[2::2], seen[3::2]
    for found, of_layers in zip((encoder, decoder, cross), expected, strict=True):
        torch.testing.assert_close(found, torch.stack(of_layers, dim=1))
    assert encoder.shape == (2, 2, HEADS, 6, 6)
    assert (decoder.shape, cross.shape) == ((2, LAYERS, HEADS, 4, 4), (2, LAYERS, HEADS, 4, 6))
    assert (cross[1, :, :, :, 3:] == 0).all() and (decoder.triu(1) == 0).all()
    torch.testing.assert_close(cross.sum(-1), torch.ones(cross.shape[:-1]))
    embedding, positions, *_ = vectors
    torch.testing.assert_close(embedding[0, 1], model.source_embedding.weight[6] * WIDTH**0.5)
    torch.testing.assert_close(positions, model.positions_LM[:6])


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_alignments_are_made_of_the_last_layers(layers: int) -> None:
    model = random_model("pre")
    *_, cross, found = AttentionView(Kernels(model), layers)(SOURCE_BS, TARGET_BT)
    torch.testing.assert_close(found, cross[:, -layers:].mean(dim=(1, 2)))
