"""The parts of decoding as operators of ONNX Runtime: in fp32 and fp16 here, in int8 below.

Where PyTorch has no such operator, `operator` writes it into the graph: these parts can be recorded, and not be run.
The operators of the domain com.microsoft are described in ONNX Runtime's ContribOperators.md; they were chosen by
measurement on a CPU (`tests/bench/translate.py`). None of them has been run on CUDA by this project's own tests.

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
from nmt_core.export.integers import integers_of, quantized
from nmt_core.export.recording.draft import Whole
from nmt_core.export.recording.recorder import operator
from nmt_core.models.kernels import FORBIDDEN, Kernels
from nmt_core.models.layers import FeedForward
from nmt_core.models.model import TranslationModel

_USUAL_CANDIDATES = 8
_FURTHER = 7
"""Tokens that pass a screen beside as many as are asked for."""


class OnnxKernels(Kernels):
    """fp32, and fp16 if the model is in half precision."""

    def __init__(self, model: TranslationModel) -> None:
        super().__init__(model)
        self.block_tokens: int = 2 ** round(math.log2(math.sqrt(model.vocab_size / _USUAL_CANDIDATES)))
        """Tokens of a block of the vocabulary: about as many blocks are ranked as tokens in the best of them."""
        self.spare = -model.vocab_size % self.block_tokens
        """Columns that the output has beside the vocabulary, for whole blocks."""
        self.screen = self._make_screen()
        """What chooses tokens without scores; None: nothing is faster than what chooses them with scores."""
        key_width, value_width = model.config.head_widths
        self.fits_operator = key_width == value_width and key_width % 8 == 0
        """Whether heads are of widths that GroupQueryAttention takes; others keep to the formula."""

    def attend_source(self, projected: Tensor, mask_BS: Tensor) -> Tensor:
        """As `Kernels.attend_source`."""
        q_BSP, k_BSP, v_BSP = self.split(projected)
        return self._multi_head(q_BSP, k_BSP, v_BSP, mask_BS)

    def attend_cross(self, q_BKP: Tensor, cross: Sequence[Tensor], mask_BS: Tensor) -> Tensor:
        """As `Kernels.attend_cross`; of heads, the operator takes keys and values of one width alone."""
        if cross[0].shape[3] != cross[1].shape[3]:
            return super().attend_cross(q_BKP, cross, mask_BS)
        return self._multi_head(q_BKP, cross[0], cross[1], mask_BS)

    def _multi_head(self, q: Tensor, key: Tensor, value: Tensor, mask_BS: Tensor) -> Tensor:
        inputs = (q, key, value, None, mask_BS.to(torch.int32))
        shape = (*q.shape[:-1], self.widths[-1])
        return _operator("MultiHeadAttention", inputs, like=q, shape=shape, num_heads=self.num_heads)

    @property
    def writes_in_place(self) -> bool:
        """As `Kernels.writes_in_place`: the operator does, where a caller gives it one tensor to read and to write."""
        return self.fits_operator

    def attend_past(self, number: int, projected: Tensor, past: Sequence[Tensor], position_1: Tensor) -> list[Tensor]:
        """As `Kernels.attend_past`; the operator takes the projections as they are."""
        if not self.fits_operator:
            return super().attend_past(number, projected, past, position_1)
        rows = projected.shape[0]
        position_R = position_1.to(torch.int32).expand(rows)
        length = (position_1 + 1).to(torch.int32).squeeze(0)
        scales, attributes = self._cache(number)
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
        """Scales of a layer's keys and values, if they are kept as integers, and what else the operator has to know."""
        return [], {}

    def _make_screen(self) -> "Screen | None":
        output_VM = self.model.output.weight.detach()
        return Screen(output_VM, self.spare) if output_VM.dtype == torch.float32 else None

    def chosen(self, states_RM: Tensor, choice: Sequence[Tensor]) -> list[Tensor]:
        """As `Kernels.chosen`; and unless there is a list, behind that the log-probabilities of the whole vocabulary in
        the order of ids, [R, V], and if there is a screen, the ids [R, C] of the best tokens that pass it.
        """
        candidates, *listed = choice
        logits_RV = self.logits(states_RM, listed).float()
        scored = self._scored(logits_RV, candidates, listed)
        if listed:
            return scored
        whole_RV = _without_forbidden(F.log_softmax(logits_RV, dim=-1))
        screened = [self._screened(self.screen, states_RM, candidates)] if self.screen else []
        return [*scored, whole_RV, *screened]

    def _scored(self, logits_RV: Tensor, candidates: Tensor, listed: Sequence[Tensor]) -> list[Tensor]:
        """The best of all tokens, or of those of a list, and how likely they are.

        As many more are looked at as are forbidden, for these may be among the best. Ids depend on logits alone, so
        that a graph without scores needs no softmax; of that, one column tells by how much all logits are too large.
        """
        wanted, width = candidates.shape[0] + len(FORBIDDEN), listed[0].shape[2] if listed else self.block_tokens
        padded_RV = F.pad(logits_RV, (0, self.spare), value=float("-inf")) if self.spare and not listed else logits_RV
        logits_RX, ids_RX = _best(padded_RV, width, _least(wanted, logits_RV.shape[1]))
        best_R1 = F.softmax(logits_RV, dim=-1).gather(1, ids_RX[:, :1])  # at least 1 / V: far from the smallest number
        excess_R1 = logits_RX[:, :1] - best_R1.log()
        for forbidden in FORBIDDEN:
            logits_RX = torch.where(ids_RX == forbidden, float("-inf"), logits_RX)
        logits_RC, place_RC = logits_RX.topk(candidates.shape[0], dim=-1)
        return [logits_RC - excess_R1, ids_RX.gather(1, place_RC)]

    def _screened(self, screen: "Screen", states_RM: Tensor, candidates: Tensor) -> Tensor:
        """The best of those that pass the screen, by their logits in fp32."""
        wanted = _least(candidates.shape[0] + _FURTHER, self.model.vocab_size)
        rough_RX, ids_RX = _best(screen.rough(states_RM), self.block_tokens, wanted)
        logits_RX = (F.embedding(ids_RX, self.model.output.weight) * states_RM[:, None]).sum(dim=-1)
        allowed_RX = torch.where(rough_RX == float("-inf"), rough_RX, logits_RX)
        _, place_RC = allowed_RX.topk(candidates.shape[0], dim=-1)
        return ids_RX.gather(1, place_RC)


class Screen:
    """The product with the output matrix, the largest one of a step, in 8-bit integers: exact enough to tell which
    tokens can be the best, of which logits in fp32 then choose.

    Over 43,000 positions of two trained models the best token was never behind more than two others, and the eighth
    token's logit was always 10 or more times the usual error behind it, which is a 50th of the spread of all logits;
    counted in PyTorch with the same rounding. ONNX Runtime has the operator for CPUs alone: on CUDA in fp32, which is
    not what CUDA takes unless asked, the product goes to the CPU.

    Args:
        output_VM: the output matrix in fp32.
        spare: columns to add, for whole blocks.
    """

    def __init__(self, output_VM: Tensor, spare: int) -> None:
        integers_VM, self.scale_V = integers_of(F.pad(output_VM, (0, 0, 0, spare)))
        self.integers_MV = integers_VM.t()
        self.penalty_V = torch.zeros_like(self.scale_V)
        """Minus infinity for what a target never holds."""
        self.penalty_V[list(FORBIDDEN)] = float("-inf")
        self.penalty_V[len(output_VM) :] = float("-inf")

    def rough(self, states_RM: Tensor) -> Tensor:
        """Logits, roughly: [R, V + spare]."""
        inputs = (states_RM, self.integers_MV, self.scale_V, None, self.penalty_V)
        return _operator("DynamicQuantizeMatMul", inputs, like=states_RM, shape=(states_RM.shape[0], len(self.scale_V)))


class Int8Kernels(OnnxKernels):
    """Products of 8-bit integers: weights with a scale for each output, activations and cache with measured scales.

    A fixed scale for each layer's input (Jacob et al. 2018, section 3) makes a translation independent of what else is
    in its batch, which a scale taken from the batch would not.

    Args:
        model: in fp32.
        ranges: of every layer's input and of keys and values; see `calibration.py`.
        cache_in_int8: whether keys and values are kept as integers too; else they are kept in fp32, which is exacter,
            takes four times the memory, and more time for long sentences.
    """

    def __init__(self, model: TranslationModel, ranges: Ranges, *, cache_in_int8: bool = True) -> None:
        super().__init__(model)
        self.has_int8_cache = cache_in_int8 and self.fits_operator
        self.ranges = ranges
        self.integers = quantized(model)

    def _make_screen(self) -> None:
        """There is none: all logits are products of integers already."""

    @property
    def cache_dtype(self) -> torch.dtype:
        """As `Kernels.cache_dtype`."""
        return torch.int8 if self.has_int8_cache else super().cache_dtype

    def embed(self, ids: Tensor, side: Side) -> Tensor:
        """As `Kernels.embed`; a row has a scale of its own."""
        rows_VM, scale_V = self.integers[(f"{side}_embedding",)]
        return F.embedding(ids, rows_VM).float() * F.embedding(ids, scale_V[:, None])

    def linear(self, x: Tensor, *layers: nn.Linear) -> Tensor:
        """As `Kernels.linear`."""
        names = tuple(name_of(layer) for layer in layers)
        weight_OI, scale_O = self.integers[names]
        bias = [None, layers[0].bias] if layers[0].bias is not None else []
        return self._times(x, names[0], weight_OI.t(), scale_O, *bias)

    def output_of(self, ids_WE: Tensor) -> list[Tensor]:
        """As `Kernels.output_of`: the integers [M, W, E], and their scales [W, E]."""
        rows_VM, scale_V = self.integers[("output",)]
        scale_WE1 = F.embedding(ids_WE, scale_V[:, None])
        return [F.embedding(ids_WE, rows_VM).permute(2, 0, 1), scale_WE1.squeeze(2)]

    def times_output(self, states_RM: Tensor, output: Sequence[Tensor]) -> Tensor:
        """As `Kernels.times_output`."""
        return self._times(states_RM, "output", output[0].flatten(1), output[1].flatten())

    def _times(self, x: Tensor, name: str, weight_IO: Tensor, scale_O: Tensor, *bias: Tensor | None) -> Tensor:
        """[..., in] to [..., out]; the name is that of the layer that reads `x`."""
        scale, zero_point = self.ranges.of_input(name)
        integers = _operator("QuantizeLinear", (x, scale, zero_point), like=x, dtype=torch.uint8)
        return _operator(
            "MatMulIntegerToFloat",
            (integers, weight_IO, scale, scale_O, zero_point, *bias),
            like=x,
            shape=(*x.shape[:-1], weight_IO.shape[1]),
        )

    def feed_forward(self, x: Tensor, layer: FeedForward) -> Tensor:
        """As `Kernels.feed_forward`; ReLU's zeros come about where its result becomes an unsigned integer."""
        if layer.activation != "relu":
            return super().feed_forward(x, layer)
        return self.linear(self.linear(x, layer.inner), layer.outer)

    def _cache(self, number: int) -> tuple[list[Tensor], dict[str, Any]]:
        if not self.has_int8_cache:
            return super()._cache(number)
        attributes = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
        return list(self.ranges.of_cache(number)), attributes


def _without_forbidden(log_probs_RV: Tensor) -> Tensor:
    """Minus infinity for what a target never holds: the first few columns, so that no penalty is stored of the rest."""
    few = max(FORBIDDEN) + 1
    penalty = torch.tensor([float("-inf") if token in FORBIDDEN else 0.0 for token in range(few)])
    return torch.cat([log_probs_RV[:, :few] + penalty, log_probs_RV[:, few:]], dim=1)


def _best(logits_RV: Tensor, width: int, wanted: int) -> tuple[Tensor, Tensor]:
    """The X = `wanted` greatest logits and their places, both [R, X]; only the best blocks of them are sorted.

    Any of the X best tokens is in one of the X blocks with the highest maximum. `width` divides the vocabulary.
    """
    rows, blocks = logits_RV.shape[0], logits_RV.shape[1] // width
    logits_RWE = logits_RV.view(rows, blocks, width)
    _, block_RW = logits_RWE.amax(dim=-1).topk(_least(wanted, blocks), dim=-1)
    # Whole blocks are copied as rows of a table: several times faster than element by element.
    logits_RE = F.embedding(torch.arange(rows)[:, None] * blocks + block_RW, logits_RWE.flatten(0, 1)).flatten(1)
    logits_RX, place_RX = logits_RE.topk(wanted, dim=-1)
    block_RX = block_RW.gather(1, torch.div(place_RX, width, rounding_mode="trunc"))
    return logits_RX, block_RX * width + torch.fmod(place_RX, width)


def _least(one: int, other: int) -> int:
    """The smaller of two sizes, of which an export may know only how they come about."""
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
    """An operator of ONNX Runtime whose result has the type and the shape of `like`, or those that are given."""
    (output,) = operator(
        f"com.microsoft::{name}", inputs, attributes, dtypes=[dtype or like.dtype], shapes=[shape or like.shape]
    )
    return output
