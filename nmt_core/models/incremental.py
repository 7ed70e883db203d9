"""The Transformer cut in two for decoding: what is computed once per source, and what once per target token.

Attention is written as the formula reads: for one query at a time the fused kernel has no advantage, and its export
moves the keys about in memory at every step.

The same two modules run in PyTorch (`search/torch_step.py`) and are exported to ONNX (`export/onnx.py`): what is tested
in one is what runs in the other.

Letters in names of tensors: B sentences, K beams of a sentence, R rows (R = B * K, those of one sentence side by side),
S source positions, T target positions decoded so far, H heads, D width of a head, M `d_model`, C candidates,
V vocabulary.
"""

import math
from collections.abc import Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.batches.layout import Padded
from nmt_core.models.attention import attend_reference
from nmt_core.models.layers import DecoderLayer, join_heads, split_heads
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import BOS_ID, PAD_ID


class EncoderGraph(nn.Module):
    """Source ids to the keys and values that each layer of the decoder attends to; they stay the same at every step.

    Args:
        model: in evaluation mode; its parameters are shared, not copied.
    """

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source_BS: Tensor) -> list[Tensor]:
        """Source ids, end marks included and padded, to [key, value] of layer 0, of layer 1...; each [B, H, S, D]."""
        memory_BSM = self.model.encode(source_BS, Padded(source_BS != PAD_ID))
        # One matrix product for all layers: on a CPU a single wide one is faster than many narrow ones.
        weight = torch.cat([layer.cross_attention.key_value.weight for layer in _decoder_layers(self.model)])
        projected = F.linear(memory_BSM, weight).chunk(2 * len(self.model.decoder), dim=-1)
        return [split_heads(x_BSM, self.model.config.num_heads).transpose(1, 2) for x_BSM in projected]


class StepGraph(nn.Module):
    """One step of decoding: the last token of each row to its most probable successors.

    Args:
        model: in evaluation mode; its parameters are shared, not copied.
    """

    forbidden_V: Tensor

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        # A target never holds padding or a second <s>; label smoothing leaves both a little probability.
        forbidden_V = torch.zeros(model.vocab_size)
        forbidden_V[[PAD_ID, BOS_ID]] = float("-inf")
        self.register_buffer("forbidden_V", forbidden_V, persistent=False)

    def forward(
        self,
        tokens_R: Tensor,
        parents_R: Tensor,
        source_mask_BS: Tensor,
        candidates: Tensor,
        cross: list[Tensor],
        past: list[Tensor],
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Decode one position further.

        Args:
            tokens_R: ids of the tokens to read; R is any multiple of B, so a first step has one row per sentence.
            parents_R: for each row, the row of the step before (of any R) that it continues.
            source_mask_BS: bool, True at source tokens and False at padding.
            candidates: [C], any values: its length says how many successors to return.
            cross: what `EncoderGraph` gave, each [B, H, S, D]; never copied per beam.
            past: the third result of the step before, each [R of that step, H, T, D]; T = 0 at the first step.

        Returns:
            Log-probabilities [R, C] in nats, best first; their ids [R, C]; and [key, value] of each layer's
            self-attention with this position at the end, each [R, H, T + 1, D].
        """
        model, mask_B1S, present = self.model, source_mask_BS[:, None], list[Tensor]()
        x_R1M = F.embedding(tokens_R[:, None], model.target_embedding.weight) * math.sqrt(model.config.d_model)
        x_R1M = x_R1M + F.embedding(_position(past[0]), model.positions_LM)
        for number, layer in enumerate(_decoder_layers(model)):
            frame = layer.self_attention_frame
            q_RH1D, k_RH1D, v_RH1D = (x.transpose(1, 2) for x in layer.self_attention.project(frame.enter(x_R1M)))
            k_RHTD = torch.cat([past[2 * number].index_select(0, parents_R), k_RH1D], dim=2)
            v_RHTD = torch.cat([past[2 * number + 1].index_select(0, parents_R), v_RH1D], dim=2)
            present += [k_RHTD, v_RHTD]
            attended_RH1D = attend_reference(q_RH1D, k_RHTD, v_RHTD)
            x_R1M = frame.leave(x_R1M, layer.self_attention.output(join_heads(attended_RH1D.transpose(1, 2))))
            # The beams of a sentence look at one and the same source: they are queries side by side, not copies.
            frame = layer.cross_attention_frame
            x_BKM = frame.enter(x_R1M).view(source_mask_BS.shape[0], -1, model.config.d_model)
            q_BHKD = split_heads(layer.cross_attention.query(x_BKM), model.config.num_heads).transpose(1, 2)
            attended_BHKD = attend_reference(q_BHKD, cross[2 * number], cross[2 * number + 1], mask_B1S)
            attended_R1M = join_heads(attended_BHKD.transpose(1, 2)).view(-1, 1, model.config.d_model)
            x_R1M = frame.leave(x_R1M, layer.cross_attention.output(attended_R1M))
            frame = layer.feed_forward_frame
            x_R1M = frame.leave(x_R1M, layer.feed_forward(frame.enter(x_R1M)))
        logits_RV = model.output(model.decoder_norm(x_R1M).squeeze(1))
        log_probs_RV = F.log_softmax(logits_RV, dim=-1) + self.forbidden_V
        log_probs_RC, ids_RC = log_probs_RV.topk(candidates.shape[0], dim=-1)
        return log_probs_RC, ids_RC, present


def _decoder_layers(model: Transformer) -> Iterator[DecoderLayer]:
    return (cast(DecoderLayer, layer) for layer in model.decoder)


def _position(past_RHTD: Tensor) -> Tensor:
    """[1]: the position to decode, which is the number of positions in the past."""
    return torch.full((1,), past_RHTD.shape[2], dtype=torch.int64, device=past_RHTD.device)
