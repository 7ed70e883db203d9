"""What decoding is computed with: the parts of `incremental.py` that a runtime may have an operator of its own for.

Here they are plain PyTorch, as the formulas read. `export/onnx_kernels.py` has the same parts as operators of ONNX
Runtime, in fp32, fp16 and int8; `incremental.py` puts either together in one and the same way.

Letters in names of tensors: B sentences, K beams of a sentence, R rows (R = B * K, those of one sentence side by side),
S source positions, T target positions decoded so far, H heads, D width of a head, P width of all heads, M `d_model`,
C candidates, V vocabulary, W blocks of a shortlist, E tokens of a block. D and P of values may differ from those of
queries and keys.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.config import Side
from nmt_core.models.attention import attend_reference
from nmt_core.models.layers import FeedForward, join_heads, rotated, split_heads
from nmt_core.models.model import TranslationModel
from nmt_core.tokenizer.tokenizer import BOS_ID, PAD_ID

FORBIDDEN = (PAD_ID, BOS_ID)
"""A target never holds padding or a second <s>; label smoothing leaves both a little probability."""


class Kernels:
    """The parts in PyTorch.

    Args:
        model: in evaluation mode; its parameters are shared, not copied.
    """

    def __init__(self, model: TranslationModel) -> None:
        self.model = model
        self.num_heads = model.config.num_heads
        key_width, value_width = (self.num_heads * width for width in model.config.head_widths)
        self.widths = (key_width, key_width, value_width)
        """Of queries, keys and values of all heads."""

    @property
    def writes_in_place(self) -> bool:
        """Whether a step writes its keys and values into the past that it gets, in place of a longer copy of it."""
        return False

    @property
    def cache_dtype(self) -> torch.dtype:
        """Type of the keys and values of the target so far."""
        return self.model.output.weight.dtype

    def embed(self, ids: Tensor, side: Side) -> Tensor:
        """Ids [...] to vectors [..., M], not yet scaled."""
        model = self.model
        embedding = model.source_embedding if side == "source" else model.target_embedding
        return F.embedding(ids, embedding.weight)

    def linear(self, x: Tensor, *layers: nn.Linear) -> Tensor:
        """[..., in] to [..., out]; outputs of several layers that read the same, which have no bias, side by side."""
        if len(layers) == 1:
            output: Tensor = layers[0](x)
            return output
        # On a CPU a single wide product is faster than many narrow ones.
        return F.linear(x, torch.cat([layer.weight for layer in layers]))

    def feed_forward(self, x: Tensor, layer: FeedForward) -> Tensor:
        """The whole sub-layer: [..., M] to [..., M]."""
        return self.linear(layer.activate(self.linear(x, layer.inner)), layer.outer)

    def split(self, projected: Tensor) -> Sequence[Tensor]:
        """Queries, keys and values, which lie side by side, apart: each [..., P]."""
        return torch.split(projected, list(self.widths), dim=-1)

    def turn(self, projected: Tensor, turns_D: Tensor) -> Tensor:
        """The same with queries and keys turned by rotary positions [L, D]."""
        q_P, k_P, v_P = self.split(projected)
        turned = (join_heads(rotated(split_heads(x_P, self.num_heads), turns_D)) for x_P in (q_P, k_P))
        return torch.cat([*turned, v_P], dim=-1)

    def attend_source(self, projected: Tensor, mask_BS: Tensor) -> Tensor:
        """The source to itself: queries, keys and values side by side [B, S, 3 P], and its mask, to [B, S, P]."""
        q_BHSD, k_BHSD, v_BHSD = (split_heads(x, self.num_heads).transpose(1, 2) for x in self.split(projected))
        return join_heads(attend_reference(q_BHSD, k_BHSD, v_BHSD, mask_BS[:, None]).transpose(1, 2))

    def attend_past(self, number: int, projected: Tensor, past: Sequence[Tensor], position_1: Tensor) -> list[Tensor]:
        """The last token to itself and to those before it.

        Args:
            number: of the decoder's layer.
            projected: query, key and value of the last token side by side, [R, 1, 3 P].
            past: keys and values of this layer so far, each [R, H, T, D]; if `writes_in_place`, T or more positions, of
                which those beyond T are room for further ones.
            position_1: T, which is the place of the last token.

        Returns:
            Output [R, 1, P]; and keys and values with this position at the end, each [R, H, T + 1, D], or the past with
            this position written into it.
        """
        q_RH1D, *key_value = (split_heads(x, self.num_heads).transpose(1, 2) for x in self.split(projected))
        k_RHTD, v_RHTD = (torch.cat(both, dim=2) for both in zip(past, key_value, strict=True))
        return [join_heads(attend_reference(q_RH1D, k_RHTD, v_RHTD).transpose(1, 2)), k_RHTD, v_RHTD]

    def attend_cross(self, q_BKP: Tensor, cross: Sequence[Tensor], mask_BS: Tensor) -> Tensor:
        """The target to keys and values of the source; a sentence's beams are queries side by side: [B, K, P]."""
        q_BHKD = split_heads(q_BKP, self.num_heads).transpose(1, 2)
        return join_heads(attend_reference(q_BHKD, cross[0], cross[1], mask_BS[:, None]).transpose(1, 2))

    def output_of(self, ids_WE: Tensor) -> list[Tensor]:
        """The part of the output matrix that makes the logits of these tokens, as `times_output` takes it."""
        return [F.embedding(ids_WE, self.model.output.weight).permute(2, 0, 1)]

    def times_output(self, states_RM: Tensor, output: Sequence[Tensor]) -> Tensor:
        """Logits of the tokens of a shortlist: [R, W * E]."""
        return states_RM @ output[0].flatten(1)

    def logits(self, states_RM: Tensor, listed: Sequence[Tensor]) -> Tensor:
        """Of the whole vocabulary [R, V], if nothing is listed; else of what is, [R, W * E].

        Args:
            states_RM: of the decoder.
            listed: penalties [B, W, E] of the tokens in each sentence, 0 or minus infinity; then what `output_of` gave.
        """
        if not listed:
            return self.linear(states_RM, self.model.output)
        penalty_BWE, *output = listed
        logits_RV = self.times_output(states_RM, output).float()
        by_sentence = logits_RV.view(penalty_BWE.shape[0], -1, logits_RV.shape[1]) + penalty_BWE.flatten(1)[:, None]
        return by_sentence.view(-1, logits_RV.shape[1])

    def chosen(self, states_RM: Tensor, choice: Sequence[Tensor]) -> list[Tensor]:
        """Log-probabilities in nats of the C most probable tokens, best first, and their ids, both [R, C].

        Kernels of which graphs are made say more behind these, for other graphs than that of a beam.

        Args:
            states_RM: of the decoder.
            choice: [C], any values; behind it, with a shortlist, `listed` of `logits`. Ids are then places in the list,
                where the special ones stand first, each at its own place.
        """
        candidates, *listed = choice
        logits_RV = self.logits(states_RM, listed)
        forbidden = torch.tensor(FORBIDDEN, device=logits_RV.device)
        log_probs_RV = F.log_softmax(logits_RV, dim=-1).index_fill(1, forbidden, float("-inf"))
        log_probs_RC, ids_RC = log_probs_RV.topk(candidates.shape[0], dim=-1)
        return [log_probs_RC, ids_RC]


class Graph(nn.Module):
    """What is put together from kernels, to run in PyTorch and to be exported to ONNX.

    Args:
        kernels: what to compute with; they hold the model, in evaluation mode.
    """

    def __init__(self, kernels: Kernels) -> None:
        super().__init__()
        self.model = kernels.model
        self.kernels = kernels
