"""Operations of decoding for which a runtime may have operators of its own.

Here they are plain PyTorch. `export/onnx_kernels.py` has the same operations as operators of ONNX Runtime, in fp32,
fp16 and int8. `incremental.py` builds its graphs from either in the same way.

Letters: see `nmt_core.models`.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.config import Side
from nmt_core.models.attention import Sight, attend_reference, visible
from nmt_core.models.layers import FeedForward, join_heads, rotated, split_heads
from nmt_core.models.model import TranslationModel
from nmt_core.tokenizer.tokenizer import BOS_ID, PAD_ID

FORBIDDEN = (PAD_ID, BOS_ID)
"""Ids that a target never contains: padding, and a second <s>. Label smoothing leaves both a little probability."""


class Kernels:
    """Operations of decoding in PyTorch.

    Args:
        model: model in evaluation mode. Its parameters are shared, not copied.
    """

    def __init__(self, model: TranslationModel) -> None:
        self.model = model
        self.num_heads = model.config.num_heads
        key_width, value_width = (self.num_heads * width for width in model.config.head_widths)
        self.widths = (key_width, key_width, value_width)
        """Widths of the queries, keys and values of all heads."""
        self.width = model.config.attention_width
        """Number of positions that self-attention sees. 0 means all."""

    @property
    def writes_in_place(self) -> bool:
        """True if a step writes its keys and values into the past that it gets, instead of into a longer copy."""
        return False

    @property
    def cache_dtype(self) -> torch.dtype:
        """Data type of the keys and values of the target so far."""
        return self.model.output.weight.dtype

    def embed(self, ids: Tensor, side: Side) -> Tensor:
        """Map ids [...] to vectors [..., M], which are not yet scaled."""
        model = self.model
        embedding = model.source_embedding if side == "source" else model.target_embedding
        return F.embedding(ids, embedding.weight)

    def linear(self, x: Tensor, *layers: nn.Linear) -> Tensor:
        """Map [..., in] to [..., out].

        The outputs of several layers are side by side. They read the same input.
        """
        if len(layers) == 1:
            output: Tensor = layers[0](x)
            return output
        # On a CPU a single wide product is faster than many narrow ones.
        return F.linear(x, torch.cat([layer.weight for layer in layers]), biases_of(*layers))

    def feed_forward(self, x: Tensor, layer: FeedForward) -> Tensor:
        """Apply the whole feed-forward sub-layer, [..., M] to [..., M]."""
        return self.linear(layer.activate(self.linear(x, layer.inner)), layer.outer)

    def split(self, projected: Tensor) -> Sequence[Tensor]:
        """Split queries, keys and values that are side by side. Each is [..., P]."""
        return torch.split(projected, list(self.widths), dim=-1)

    def turn(self, projected: Tensor, turns_D: Tensor) -> Tensor:
        """Return queries, keys and values, side by side, with queries and keys turned by rotary positions [L, D]."""
        q_P, k_P, v_P = self.split(projected)
        turned = (join_heads(rotated(split_heads(x_P, self.num_heads), turns_D)) for x_P in (q_P, k_P))
        return torch.cat([*turned, v_P], dim=-1)

    def attend_source(self, projected: Tensor, mask_BS: Tensor) -> Tensor:
        """Attend from the source to itself, and return [B, S, P].

        Args:
            projected: queries, keys and values side by side, [B, S, 3 P].
            mask_BS: bool, True at source tokens and False at padding.
        """
        q_BHSD, k_BHSD, v_BHSD = (split_heads(x, self.num_heads).transpose(1, 2) for x in self.split(projected))
        mask_BTS = mask_BS[:, None]
        if self.width:
            mask_BTS = visible(mask_BTS, Sight(width=self.width), projected.shape[1], projected.device)
        return join_heads(attend_reference(q_BHSD, k_BHSD, v_BHSD, mask_BTS).transpose(1, 2))

    def attend_past(self, number: int, projected: Tensor, past: Sequence[Tensor], position_1: Tensor) -> list[Tensor]:
        """Attend from the last token of each row to itself and to the tokens before it.

        Args:
            number: number of the decoder's layer.
            projected: query, key and value of the last token side by side, [R, 1, 3 P].
            past: keys and values of this layer so far, each [R, H, T, D]. If `writes_in_place`, they have T or more
                positions, and those after T are free.
            position_1: T, the position of the last token.

        Returns:
            Output [R, 1, P]; and keys and values with this position at the end, each [R, H, T + 1, D], or of the last
            positions that restricted attention sees, or the past with this position written into it.
        """
        q_RH1D, *key_value = (split_heads(x, self.num_heads).transpose(1, 2) for x in self.split(projected))
        k_RHTD, v_RHTD = (torch.cat(both, dim=2) for both in zip(past, key_value, strict=True))
        if self.width:  # what no later query sees is forgotten
            k_RHTD, v_RHTD = (x_RHTD[:, :, -self.width :] for x_RHTD in (k_RHTD, v_RHTD))
        return [join_heads(attend_reference(q_RH1D, k_RHTD, v_RHTD).transpose(1, 2)), k_RHTD, v_RHTD]

    def attend_cross(self, q_BKP: Tensor, cross: Sequence[Tensor], mask_BS: Tensor) -> Tensor:
        """Attend from the target to the keys and values of the source, and return [B, K, P].

        The beams of a sentence are queries side by side.
        """
        q_BHKD = split_heads(q_BKP, self.num_heads).transpose(1, 2)
        return join_heads(attend_reference(q_BHKD, cross[0], cross[1], mask_BS[:, None]).transpose(1, 2))

    def output_of(self, ids_WE: Tensor) -> list[Tensor]:
        """Return the part of the output matrix for the logits of these tokens, as `times_output` takes it."""
        return [F.embedding(ids_WE, self.model.output.weight).permute(2, 0, 1), *self.biases_of_output(ids_WE)]

    def biases_of_output(self, ids_WE: Tensor) -> list[Tensor]:
        """Return the biases [W, E] of these tokens in a list, which is empty if the output matrix has no bias."""
        bias_V = self.model.output.bias
        return [] if bias_V is None else [F.embedding(ids_WE, bias_V[:, None]).squeeze(2)]

    def times_output(self, states_RM: Tensor, output: Sequence[Tensor]) -> Tensor:
        """Return the logits of the tokens of a shortlist, [R, W * E]."""
        logits_RX = states_RM @ output[0].flatten(1)
        return logits_RX + output[1].flatten() if self.model.config.output_bias else logits_RX

    def logits(self, states_RM: Tensor, listed: Sequence[Tensor]) -> Tensor:
        """Return the logits of the whole vocabulary, [R, V], or of a shortlist, [R, W * E].

        Args:
            states_RM: states of the decoder.
            listed: with a shortlist, the penalties [B, W, E] of its tokens in each sentence, 0 or minus infinity, and
                then the result of `output_of`. Empty means the whole vocabulary.
        """
        if not listed:
            return self.linear(states_RM, self.model.output)
        penalty_BWE, *output = listed
        logits_RV = self.times_output(states_RM, output).float()
        by_sentence = logits_RV.view(penalty_BWE.shape[0], -1, logits_RV.shape[1]) + penalty_BWE.flatten(1)[:, None]
        return by_sentence.view(-1, logits_RV.shape[1])

    def chosen(self, states_RM: Tensor, choice: Sequence[Tensor]) -> list[Tensor]:
        """Return the log-probabilities in nats of the C most probable tokens, best first, and their ids, both [R, C].

        Kernels from which graphs are exported append more results, for other graphs than the step of a beam search.

        Args:
            states_RM: states of the decoder.
            choice: [C] with any values, followed by `listed` of `logits`. With a shortlist, ids are places in the list.
                The special tokens come first in it, each at its own id.
        """
        return self.best(self.logits(states_RM, choice[1:]), choice)

    def best(self, logits_RV: Tensor, choice: Sequence[Tensor]) -> list[Tensor]:
        """Return the results of `chosen` for logits of the whole vocabulary, [R, V], or of a shortlist, [R, W * E].

        Log-probabilities are logits too.
        """
        candidates = choice[0]
        forbidden = torch.tensor(FORBIDDEN, device=logits_RV.device)
        log_probs_RV = F.log_softmax(logits_RV, dim=-1).index_fill(1, forbidden, float("-inf"))
        log_probs_RC, ids_RC = log_probs_RV.topk(candidates.shape[0], dim=-1)
        return [log_probs_RC, ids_RC]


def biases_of(*layers: nn.Linear) -> Tensor | None:
    """Return the biases of layers side by side, or None if they have none. All have one, or none has."""
    biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    return torch.cat(biases) if biases else None


class Graph(nn.Module):
    """Module that computes with kernels, to run in PyTorch and to be exported to ONNX.

    Args:
        kernels: kernels to compute with, which hold the model in evaluation mode.
    """

    def __init__(self, kernels: Kernels) -> None:
        super().__init__()
        self.model = kernels.model
        self.kernels = kernels
