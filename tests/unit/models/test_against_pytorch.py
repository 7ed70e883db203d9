"""The Transformer computes what the layers of `torch.nn.Transformer` compute with the same weights.

PyTorch's layers are an implementation that others wrote and many use. They differ in names and in two points that the
test levels: they project with biases, which are 0 here, and they leave embeddings, positions and the output to the
caller.
"""

from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from nmt_core.batches.layout import Packed, Padded
from nmt_core.config import ModelConfig
from nmt_core.models.layers import CrossAttention, DecoderLayer, EncoderLayer, FeedForward, Residual, SelfAttention
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import PAD_ID

VOCABULARY = 40
SIZES = {"d_model": 16, "d_ff": 24, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 3, "dropout": 0.0}
SOURCE_BS = torch.tensor([[5, 6, 7, 8, 9, 3], [10, 11, 3, 0, 0, 0], [12, 13, 14, 15, 3, 0]])
TARGET_BT = torch.tensor([[2, 20, 21, 22, 23], [2, 30, 31, 0, 0], [2, 32, 33, 34, 0]])
EPSILON = 0.02
"""Not PyTorch's default, and large enough to show in the fifth digit."""


def random_model(**changes: object) -> Transformer:
    """Weights of norms and biases differ from 1 and 0, so that each one counts."""
    torch.manual_seed(1)
    model = Transformer(ModelConfig.model_validate(SIZES | {"layer_norm_eps": EPSILON} | changes), VOCABULARY)
    for name, weight in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            nn.init.normal_(weight, mean=float(name.endswith("norm.weight")), std=0.3)
    return model.eval().requires_grad_(False)


def pytorch_layers(model: Transformer) -> tuple[nn.TransformerEncoder, nn.TransformerDecoder]:
    """Encoder and decoder of PyTorch with the weights of a model."""
    config = model.config
    is_pre = config.norm == "pre"
    options: dict[str, Any] = {
        "d_model": config.d_model,
        "nhead": config.num_heads,
        "dim_feedforward": config.d_ff,
        "dropout": 0.0,
        "activation": config.activation,
        "layer_norm_eps": config.layer_norm_eps,
        "batch_first": True,
        "norm_first": is_pre,
    }
    norms = [nn.LayerNorm(config.d_model, eps=config.layer_norm_eps) if is_pre else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**options), config.encoder_layers, norms[0], enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**options), config.decoder_layers, norms[1])
    for copied, layer in zip(encoder.layers, cast(list[EncoderLayer], model.encoder), strict=True):
        _copy_self_attention(layer.self_attention, copied.self_attn)
        _copy_feed_forward(layer.feed_forward, copied)
        _copy_norms([layer.self_attention_frame, layer.feed_forward_frame], copied)
    for copied, layer in zip(decoder.layers, cast(list[DecoderLayer], model.decoder), strict=True):
        _copy_self_attention(layer.self_attention, copied.self_attn)
        _copy_cross_attention(layer.cross_attention, copied.multihead_attn)
        _copy_feed_forward(layer.feed_forward, copied)
        frames = [layer.self_attention_frame, layer.cross_attention_frame, layer.feed_forward_frame]
        _copy_norms(frames, copied)
    for norm, copied_norm in zip((model.encoder_norm, model.decoder_norm), norms, strict=True):
        if copied_norm is not None:
            copied_norm.load_state_dict(norm.state_dict())
    return encoder.eval().requires_grad_(False), decoder.eval().requires_grad_(False)


def _copy_self_attention(attention: SelfAttention, copied: nn.MultiheadAttention) -> None:
    """PyTorch also has queries, keys and values in one matrix, in this order."""
    _copy_attention(copied, attention.query_key_value.weight, attention.output.weight)


def _copy_cross_attention(attention: CrossAttention, copied: nn.MultiheadAttention) -> None:
    projection = torch.cat([attention.query.weight, attention.key_value.weight])
    _copy_attention(copied, projection, attention.output.weight)


def _copy_attention(copied: nn.MultiheadAttention, projection: Tensor, output: Tensor) -> None:
    with torch.no_grad():
        copied.in_proj_weight.copy_(projection)
        copied.out_proj.weight.copy_(output)
        copied.in_proj_bias.zero_()
        copied.out_proj.bias.zero_()


def _copy_feed_forward(layer: FeedForward, copied: nn.Module) -> None:
    copied.get_submodule("linear1").load_state_dict(layer.inner.state_dict())
    copied.get_submodule("linear2").load_state_dict(layer.outer.state_dict())


def _copy_norms(frames: list[Residual], copied: nn.Module) -> None:
    for number, frame in enumerate(frames, 1):
        copied.get_submodule(f"norm{number}").load_state_dict(frame.norm.state_dict())


def pytorch_states(model: Transformer, source_BS: Tensor, target_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Memory [B, S, M] and states of the decoder [B, T, M], with PyTorch's masks: True hides a key."""
    encoder, decoder = pytorch_layers(model)
    is_padding_BS, is_padding_BT = source_BS == PAD_ID, target_BT == PAD_ID
    is_later_TT = torch.ones(target_BT.shape[1], target_BT.shape[1], dtype=torch.bool).triu(1)
    x_BSM = model.embed(source_BS, model.source_embedding, Padded())
    y_BTM = model.embed(target_BT, model.target_embedding, Padded())
    memory_BSM = encoder(x_BSM, src_key_padding_mask=is_padding_BS)
    states_BTM = decoder(
        y_BTM,
        memory_BSM,
        tgt_mask=is_later_TT,
        tgt_key_padding_mask=is_padding_BT,
        memory_key_padding_mask=is_padding_BS,
    )
    return memory_BSM, states_BTM


def as_stream(ids_BL: Tensor) -> tuple[Tensor, Packed]:
    """Sentences one after another, without padding."""
    lengths = (ids_BL != PAD_ID).sum(1)
    starts = nn.functional.pad(lengths.cumsum(0), (1, 0))
    sentence_N = torch.repeat_interleave(lengths)
    position_N = torch.arange(len(sentence_N)) - starts[sentence_N]
    return ids_BL[ids_BL != PAD_ID], Packed(starts.int(), sentence_N, position_N, int(lengths.max()), len(lengths))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_model_computes_what_pytorch_computes_with_the_same_weights(norm: str, activation: str) -> None:
    model = random_model(norm=norm, activation=activation)
    memory_BSM, states_BTM = pytorch_states(model, SOURCE_BS, TARGET_BT)
    is_source_BS, is_target_BT = SOURCE_BS != PAD_ID, TARGET_BT != PAD_ID
    found_BSM = model.encode(SOURCE_BS, Padded(is_source_BS))
    torch.testing.assert_close(found_BSM[is_source_BS], memory_BSM[is_source_BS], atol=1e-5, rtol=0)
    found_BTM = model(SOURCE_BS, TARGET_BT)
    torch.testing.assert_close(found_BTM[is_target_BT], states_BTM[is_target_BT], atol=1e-5, rtol=0)
    source_N, source = as_stream(SOURCE_BS)
    target_N, target = as_stream(TARGET_BT)
    torch.testing.assert_close(model(source_N, target_N, source, target), states_BTM[is_target_BT], atol=1e-5, rtol=0)


def test_the_comparison_sees_an_activation_a_norm_and_an_epsilon() -> None:
    """A comparison that any model passes would show nothing."""
    _, states_BTM = pytorch_states(random_model(), SOURCE_BS, TARGET_BT)
    for changes in ({"activation": "gelu"}, {"norm": "pre"}, {"layer_norm_eps": 1e-5}):
        found_BTM = random_model(**changes)(SOURCE_BS, TARGET_BT)
        difference = (found_BTM - states_BTM)[TARGET_BT != PAD_ID].abs().max()
        assert difference > 1e-3, changes
