"""Implement the parts of decoding as operators of ONNX Runtime, in fp32, fp16 and int8.

Where PyTorch has no such operator, `operator` writes it into the graph. Such parts can be recorded, but not run. ONNX
Runtime's ContribOperators.md describes the operators of the domain com.microsoft. They were chosen by measurement on a
CPU (`benchmarks/translate.py`). The project's own tests have run none of them on CUDA, where `search/agreement.py`
compares them with the CPU.

Letters in names of tensors: as in `models/kernels.py`; W blocks of the vocabulary, E tokens of a block.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.config import Side
from nmt_core.export.calibration import Ranges, name_of
from nmt_core.export.recording.draft import Whole
from nmt_core.export.recording.recorder import operator
from nmt_core.models.integers import integers_of, quantized
from nmt_core.models.kernels import FORBIDDEN, Kernels, biases_of
from nmt_core.models.layers import FeedForward
from nmt_core.models.model import TranslationModel

_USUAL_CANDIDATES = 8
_FURTHER = 7
"""Number of tokens that pass a screen beyond the requested number."""


class OnnxKernels(Kernels):
    """Kernels in fp32, or in fp16 if the model is in half precision."""

    def __init__(self, model: TranslationModel) -> None:
        super().__init__(model)
        self.block_tokens: int = 2 ** round(math.log2(math.sqrt(model.vocab_size / _USUAL_CANDIDATES)))
        """Tokens in a block of the vocabulary. About as many blocks are ranked as tokens in the best blocks."""
        self.spare = -model.vocab_size % self.block_tokens
        """Number of columns to add to the vocabulary, so that all blocks are full."""
        self.screen = self._make_screen()
        """Screen that chooses tokens without scores. None if that would not be faster than with scores."""
        key_width, value_width = model.config.head_widths
        self.fits_operator = key_width == value_width and key_width % 8 == 0
        """True if GroupQueryAttention supports the widths of the heads. Otherwise attention uses its formula."""

    def attend_source(self, projected: Tensor, mask_BS: Tensor) -> Tensor:
        """Attend from the source to itself by one operator, and return [B, S, P].

        Restricted attention uses its formula, because the operator masks padding alone.
        """
        if self.width:
            return super().attend_source(projected, mask_BS)
        q_BSP, k_BSP, v_BSP = self.split(projected)
        return self._multi_head(q_BSP, k_BSP, v_BSP, mask_BS)

    def attend_cross(self, q_BKP: Tensor, cross: Sequence[Tensor], mask_BS: Tensor) -> Tensor:
        """Attend to the keys and values of the source, and return [B, K, P].

        The operator is used only if keys and values of heads have the same width.
        """
        if cross[0].shape[3] != cross[1].shape[3]:
            return super().attend_cross(q_BKP, cross, mask_BS)
        return self._multi_head(q_BKP, cross[0], cross[1], mask_BS)

    def _multi_head(self, q: Tensor, key: Tensor, value: Tensor, mask_BS: Tensor) -> Tensor:
        inputs = (q, key, value, None, mask_BS.to(torch.int32))
        shape = (*q.shape[:-1], self.widths[-1])
        return _operator("MultiHeadAttention", inputs, like=q, shape=shape, num_heads=self.num_heads)

    @property
    def writes_in_place(self) -> bool:
        """True if a step writes into the past that it gets: the caller passes one tensor as input and output."""
        return self.fits_operator

    def attend_past(self, number: int, projected: Tensor, past: Sequence[Tensor], position_1: Tensor) -> list[Tensor]:
        """Attend from the last token of each row to itself and to the tokens before it.

        The operator takes the projections of queries, keys and values without a split.
        """
        if not self.fits_operator:
            return super().attend_past(number, projected, past, position_1)
        rows = projected.shape[0]
        position_R = position_1.to(torch.int32).expand(rows)
        length = (position_1 + 1).to(torch.int32).squeeze(0)
        scales, attributes = self._cache(number)
        attributes |= {"local_window_size": self.width} if self.width else {}
        inputs = [projected, None, None, *past, position_R, length]
        written = tuple(past[0].shape)
        return list(
            operator(
                "com.microsoft::GroupQueryAttention",
                [*inputs, *([None] * 5 if scales else []), *scales],
                {"num_heads": self.num_heads, "kv_num_heads": self.num_heads} | attributes,
                dtypes=(projected.dtype, self.cache_dtype, self.cache_dtype),
                shapes=((rows, 1, self.widths[-1]), written, written),
            )
        )

    def _cache(self, number: int) -> tuple[list[Tensor], dict[str, Any]]:
        """Return scales of a layer's keys and values if they are integers, and more attributes of the operator."""
        return [], {}

    def _make_screen(self) -> "Screen | None":
        output_VM = self.model.output.weight.detach()
        return Screen(output_VM, self.spare, self.model.output.bias) if output_VM.dtype == torch.float32 else None

    def chosen(self, states_RM: Tensor, choice: Sequence[Tensor]) -> list[Tensor]:
        """Return the log-probabilities in nats of the C most probable tokens, best first, and their ids, both [R, C].

        Without a list, two more outputs follow: the log-probabilities [R, V] of the whole vocabulary in the order of
        ids and, if there is a screen, the ids [R, C] of the best tokens that pass it.
        """
        candidates, *listed = choice
        best = self.best(self.logits(states_RM, listed), choice)
        return best if listed or not self.screen else [*best, self._screened(self.screen, states_RM, candidates)]

    def best(self, logits_RV: Tensor, choice: Sequence[Tensor]) -> list[Tensor]:
        """Return the results of `chosen` for logits, without the ids that pass a screen."""
        candidates, *listed = choice
        logits_RV = logits_RV.float()
        scored = self._scored(logits_RV, candidates, listed)
        return scored if listed else [*scored, _without_forbidden(F.log_softmax(logits_RV, dim=-1))]

    def _scored(self, logits_RV: Tensor, candidates: Tensor, listed: Sequence[Tensor]) -> list[Tensor]:
        """Return the log-probabilities and ids of the best tokens, of the whole vocabulary or of a list.

        The forbidden tokens may be among the best, so as many more are ranked. Ids depend on logits alone, so that a
        graph without scores needs no softmax. One column of the softmax gives the number to subtract from all logits.
        """
        count, width = candidates.shape[0] + len(FORBIDDEN), listed[0].shape[2] if listed else self.block_tokens
        padded_RV = F.pad(logits_RV, (0, self.spare), value=float("-inf")) if self.spare and not listed else logits_RV
        logits_RX, ids_RX = _best(padded_RV, width, _least(count, logits_RV.shape[1]))
        best_R1 = F.softmax(logits_RV, dim=-1).gather(1, ids_RX[:, :1])  # at least 1 / V: no underflow
        excess_R1 = logits_RX[:, :1] - best_R1.log()
        for forbidden in FORBIDDEN:
            logits_RX = torch.where(ids_RX == forbidden, float("-inf"), logits_RX)
        logits_RC, place_RC = logits_RX.topk(candidates.shape[0], dim=-1)
        return [logits_RC - excess_R1, ids_RX.gather(1, place_RC)]

    def _screened(self, screen: "Screen", states_RM: Tensor, candidates: Tensor) -> Tensor:
        """Return the ids of the best tokens that pass the screen, by their logits in fp32."""
        count = _least(candidates.shape[0] + _FURTHER, self.model.vocab_size)
        rough_RX, ids_RX = _best(screen.rough(states_RM), self.block_tokens, count)
        logits_RX = (F.embedding(ids_RX, self.model.output.weight) * states_RM[:, None]).sum(dim=-1)
        for bias_RX in self.biases_of_output(ids_RX):
            logits_RX = logits_RX + bias_RX
        allowed_RX = torch.where(rough_RX == float("-inf"), rough_RX, logits_RX)
        _, place_RC = allowed_RX.topk(candidates.shape[0], dim=-1)
        return ids_RX.gather(1, place_RC)


class Screen:
    """Product with the output matrix in 8-bit integers, which selects the tokens that can be the best.

    This product is the largest of a step. Logits in fp32 then choose among the selected tokens.

    Over 43,000 positions of two trained models, at most two tokens were ever ahead of the best one. The logit of the
    eighth token was always behind it by at least 10 times the usual error, which is a 50th of the spread of all logits.
    This was counted in PyTorch with the same rounding. ONNX Runtime has the operator only for CPUs. With CUDA in fp32,
    which must be requested, the product runs on the CPU.

    Args:
        output_VM: the output matrix in fp32.
        spare: number of columns to add, so that all blocks are full.
        bias_V: bias of the output. None means that it has none.
    """

    def __init__(self, output_VM: Tensor, spare: int, bias_V: Tensor | None = None) -> None:
        integers_VM, self.scale_V = integers_of(F.pad(output_VM, (0, 0, 0, spare)))
        self.integers_MV = integers_VM.t()
        self.penalty_V = torch.zeros_like(self.scale_V)
        """Minus infinity for tokens that a target never holds, and for spare columns. Elsewhere the bias, or 0."""
        if bias_V is not None:
            self.penalty_V[: len(bias_V)] = bias_V.detach()
        self.penalty_V[list(FORBIDDEN)] = float("-inf")
        self.penalty_V[len(output_VM) :] = float("-inf")

    def rough(self, states_RM: Tensor) -> Tensor:
        """Return approximate logits [R, V + spare]."""
        inputs = (states_RM, self.integers_MV, self.scale_V, None, self.penalty_V)
        return _operator("DynamicQuantizeMatMul", inputs, like=states_RM, shape=(states_RM.shape[0], len(self.scale_V)))


class Int8Kernels(OnnxKernels):
    """Kernels with products of 8-bit integers.

    Weights have a scale for each output. Activations and the cache have measured scales. A fixed scale for each layer's
    input (Jacob et al. 2018, section 3) makes a translation independent of the rest of its batch. A scale computed from
    the batch would not.

    Args:
        model: the model, in fp32.
        ranges: ranges of every layer's input, and of keys and values. See `calibration.py`.
        cache_in_int8: True to keep keys and values as integers as well. False keeps them in fp32, which is more exact,
            but takes four times the memory, and more time for long sentences.
    """

    def __init__(self, model: TranslationModel, ranges: Ranges, *, cache_in_int8: bool = True) -> None:
        super().__init__(model)
        self.has_int8_cache = cache_in_int8 and self.fits_operator
        self.ranges = ranges
        self.integers = quantized(model)

    def _make_screen(self) -> None:
        """Return None: all logits are products of integers already."""

    @property
    def cache_dtype(self) -> torch.dtype:
        """Data type of the keys and values of the target so far: int8, unless they stay in fp32."""
        return torch.int8 if self.has_int8_cache else super().cache_dtype

    def embed(self, ids: Tensor, side: Side) -> Tensor:
        """Map ids [...] to vectors [..., M], of which each row has a scale of its own."""
        rows_VM, scale_V = self.integers[(f"{side}_embedding",)]
        return F.embedding(ids, rows_VM).float() * F.embedding(ids, scale_V[:, None])

    def linear(self, x: Tensor, *layers: nn.Linear) -> Tensor:
        """Map [..., in] to [..., out] by products of integers."""
        names = tuple(name_of(layer) for layer in layers)
        weight_OI, scale_O = self.integers[names]
        bias_O = biases_of(*layers)
        return self._times(x, names[0], weight_OI.t(), scale_O, *([] if bias_O is None else [None, bias_O]))

    def output_of(self, ids_WE: Tensor) -> list[Tensor]:
        """Return the part of the output matrix for these tokens: integers [M, W, E], and their scales [W, E].

        Biases [W, E] follow, if there are any.
        """
        rows_VM, scale_V = self.integers[("output",)]
        scale_WE1 = F.embedding(ids_WE, scale_V[:, None])
        rows_MWE = F.embedding(ids_WE, rows_VM).permute(2, 0, 1)
        return [rows_MWE, scale_WE1.squeeze(2), *self.biases_of_output(ids_WE)]

    def times_output(self, states_RM: Tensor, output: Sequence[Tensor]) -> Tensor:
        """Return the logits of the tokens of a shortlist, [R, W * E], by products of integers."""
        biases = [None, output[2].flatten()] if self.model.config.output_bias else []
        return self._times(states_RM, "output", output[0].flatten(1), output[1].flatten(), *biases)

    def _times(self, x: Tensor, name: str, weight_IO: Tensor, scale_O: Tensor, *bias: Tensor | None) -> Tensor:
        """Return the product [..., O] of `x` [..., I] with a weight. `name` is the layer that reads `x`."""
        scale, zero_point = self.ranges.of_input(name)
        integers = _operator("QuantizeLinear", (x, scale, zero_point), like=x, dtype=torch.uint8)
        return _operator(
            "MatMulIntegerToFloat",
            (integers, weight_IO, scale, scale_O, zero_point, *bias),
            like=x,
            shape=(*x.shape[:-1], weight_IO.shape[1]),
        )

    def feed_forward(self, x: Tensor, layer: FeedForward) -> Tensor:
        """Apply the whole feed-forward sub-layer, [..., M] to [..., M], by products of integers.

        ReLU needs no operator: negative numbers become 0 where its output is quantized to unsigned integers.
        """
        if layer.activation != "relu":
            return super().feed_forward(x, layer)
        return self.linear(self.linear(x, layer.inner), layer.outer)

    def _cache(self, number: int) -> tuple[list[Tensor], dict[str, Any]]:
        if not self.has_int8_cache:
            return super()._cache(number)
        attributes = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
        return list(self.ranges.of_cache(number)), attributes


def _without_forbidden(log_probs_RV: Tensor) -> Tensor:
    """Return log-probabilities with minus infinity for forbidden tokens. Only the first columns need a penalty."""
    few = max(FORBIDDEN) + 1
    penalty = torch.tensor([float("-inf") if token in FORBIDDEN else 0.0 for token in range(few)])
    return torch.cat([log_probs_RV[:, :few] + penalty, log_probs_RV[:, few:]], dim=1)


def _best(logits_RV: Tensor, width: int, count: int) -> tuple[Tensor, Tensor]:
    """Return the X = `count` greatest logits and their indices, both [R, X]. Sort only the best blocks.

    Each of the X best tokens is in one of the X blocks with the highest maximum. `width` must divide the vocabulary.
    """
    rows, blocks = logits_RV.shape[0], logits_RV.shape[1] // width
    logits_RWE = logits_RV.view(rows, blocks, width)
    _, block_RW = logits_RWE.amax(dim=-1).topk(_least(count, blocks), dim=-1)
    # Whole blocks are copied as rows of a table: several times faster than element by element.
    logits_RE = F.embedding(torch.arange(rows)[:, None] * blocks + block_RW, logits_RWE.flatten(0, 1)).flatten(1)
    logits_RX, place_RX = logits_RE.topk(count, dim=-1)
    block_RX = block_RW.gather(1, torch.div(place_RX, width, rounding_mode="trunc"))
    return logits_RX, block_RX * width + torch.fmod(place_RX, width)


def _least(one: int, other: int) -> int:
    """Return the smaller of two sizes. In an export they may be symbolic."""
    size: int = torch.sym_min(one, other)  # type: ignore[no-untyped-call]
    return size


def _operator(
    name: str,
    inputs: Sequence[Tensor | None],
    like: Tensor,
    *,
    dtype: torch.dtype | None = None,
    shape: Sequence[Whole] | None = None,
    **attributes: Any,
) -> Tensor:
    """Write an operator of ONNX Runtime whose result has the type and shape of `like`, unless others are given."""
    (output,) = operator(
        f"com.microsoft::{name}", inputs, attributes, dtypes=[dtype or like.dtype], shapes=[shape or like.shape]
    )
    return output
