"""Recurrent layers, one step at a time: the gated hidden unit and long short-term memory.

Gates lie in the order of ONNX's operators GRU and LSTM, which compute the same (`export/onnx_rnn.py`).

Letters in names of tensors: B sentences, L positions, I width of what is read, C width of a context, H hidden units,
G hidden units times gates.
"""

from typing import Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.config import RnnConfig

State = tuple[Tensor, ...]
"""What a layer hands on from step to step, each [B, H]: what it says, and of LSTM its memory."""


class Recurrence(nn.Module):
    """One layer that reads in one direction.

    Args:
        input_size: I.
        hidden_size: H.
        context_size: C, of a vector that is read at each step beside the input; 0: there is none.
    """

    gates: int
    """G / H."""
    names: tuple[str, ...]
    """Of the parts of a state."""

    def __init__(self, input_size: int, hidden_size: int, context_size: int = 0) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.input = nn.Linear(input_size, self.gates * hidden_size)
        self.context = nn.Linear(context_size, self.gates * hidden_size, bias=False) if context_size else None

    def forward(
        self,
        x_BLI: Tensor,
        state: State | None = None,
        context_BC: Tensor | None = None,
        is_token_BL: Tensor | None = None,
        *,
        reverse: bool = False,
    ) -> tuple[Tensor, State]:
        """Read sequences.

        Args:
            x_BLI: the input.
            state: before the first step; None: zeros.
            context_BC: the same at each step.
            is_token_BL: False at padding, which leaves the state as it is; None: there is none that matters.
            reverse: read from the end.

        Returns:
            What the layer says after each position [B, L, H], and its last state.
        """
        projected_BLG: Tensor = self.input(x_BLI)
        if self.context is not None and context_BC is not None:
            projected_BLG = projected_BLG + self.context(context_BC)[:, None]
        steps = projected_BLG.unbind(1)
        is_token = is_token_BL[:, :, None].unbind(1) if is_token_BL is not None else None
        if is_token_BL is not None and is_token_BL.device.type == "cpu" and bool(is_token_BL.all()):
            is_token = None  # a GPU would have to be waited for to know
        state = state or self.nothing(x_BLI)
        said = [state[0]] * len(steps)
        for place in reversed(range(len(steps))) if reverse else range(len(steps)):
            after = self.step(steps[place], state)
            if is_token is not None:
                after = tuple(torch.where(is_token[place], new, old) for new, old in zip(after, state, strict=True))
            state = after
            said[place] = state[0]
        return torch.stack(said, dim=1), state

    def nothing(self, x_BLI: Tensor) -> State:
        """The state before anything has been read; in fp32 also where products are not, for it is summed up."""
        zeros_BH = x_BLI.new_zeros(len(x_BLI), self.hidden_size, dtype=self.input.weight.dtype)
        return (zeros_BH,) * len(self.names)

    def step(self, projected_G: Tensor, state: State) -> State:
        """Read one position, whose input (and context) is projected already, [B, G]."""
        raise NotImplementedError

    def recurrent_weights(self) -> list[Tensor]:
        """What a state is multiplied with: parts of [G, H], in order."""
        raise NotImplementedError

    def _last_block(self, x_G: Tensor) -> tuple[Tensor, Tensor]:
        """Gates, and the candidate, which lies behind them."""
        return x_G[..., : -self.hidden_size], x_G[..., -self.hidden_size :]


class GatedUnit(Recurrence):
    """The gated hidden unit (Cho et al. 2014, equations 5 to 8; Bahdanau et al. 2015, appendix A.1.1).

    z = sigmoid(W_z x + U_z h), r = sigmoid(W_r x + U_r h), h' = z h + (1 - z) tanh(W x + U (r h)): the reset gate comes
    before the product, which `nn.GRU` has the other way round. (In Bahdanau et al. z and 1 - z change places.)
    """

    gates = 3
    names = ("hidden",)

    def __init__(self, input_size: int, hidden_size: int, context_size: int = 0) -> None:
        super().__init__(input_size, hidden_size, context_size)
        self.recurrent = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.candidate = nn.Linear(hidden_size, hidden_size, bias=False)

    def step(self, projected_G: Tensor, state: State) -> State:
        """As `Recurrence.step`."""
        (hidden_BH,) = state
        of_gates, of_candidate = self._last_block(projected_G)
        update_BH, reset_BH = torch.sigmoid(of_gates + self.recurrent(hidden_BH)).chunk(2, dim=-1)
        candidate_BH = torch.tanh(of_candidate + self.candidate(reset_BH * hidden_BH))
        return (candidate_BH + update_BH * (hidden_BH - candidate_BH),)

    def recurrent_weights(self) -> list[Tensor]:
        """As `Recurrence.recurrent_weights`: update, reset, candidate."""
        return [self.recurrent.weight, self.candidate.weight]


class LongShortTermMemory(Recurrence):
    """LSTM (Hochreiter and Schmidhuber 1997) with a forget gate (Gers et al. 2000) and without peepholes.

    c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'), where i, o, f, g = W x + U h.
    """

    gates = 4
    names = ("hidden", "memory")

    def __init__(self, input_size: int, hidden_size: int, context_size: int = 0) -> None:
        super().__init__(input_size, hidden_size, context_size)
        self.recurrent = nn.Linear(hidden_size, 4 * hidden_size, bias=False)

    def step(self, projected_G: Tensor, state: State) -> State:
        """As `Recurrence.step`."""
        hidden_BH, memory_BH = state
        of_gates, of_candidate = self._last_block(projected_G + self.recurrent(hidden_BH))
        input_BH, output_BH, forget_BH = torch.sigmoid(of_gates).chunk(3, dim=-1)
        memory_BH = forget_BH * memory_BH + input_BH * torch.tanh(of_candidate)
        return output_BH * torch.tanh(memory_BH), memory_BH

    def recurrent_weights(self) -> list[Tensor]:
        """As `Recurrence.recurrent_weights`: input, output, forget, candidate."""
        return [self.recurrent.weight]


CELLS: dict[str, type[Recurrence]] = {"gru": GatedUnit, "lstm": LongShortTermMemory}


class Read(Protocol):
    """How a layer reads a source: step by step here, by one operator in an exported graph."""

    def __call__(
        self, recurrence: Recurrence, x_BLI: Tensor, is_token_BL: Tensor, *, reverse: bool
    ) -> tuple[Tensor, State]:
        """As `Recurrence.forward`, from zeros and without a context."""


def read_steps(recurrence: Recurrence, x_BLI: Tensor, is_token_BL: Tensor, *, reverse: bool) -> tuple[Tensor, State]:
    """`Read`, step by step."""
    found: tuple[Tensor, State] = recurrence(x_BLI, is_token_BL=is_token_BL, reverse=reverse)
    return found


class EncoderLayer(nn.Module):
    """One layer of the encoder, in one direction or in both.

    Args:
        config: of the network.
        input_size: width of what it reads.
    """

    def __init__(self, config: RnnConfig, input_size: int) -> None:
        super().__init__()
        self.reverse = (False, True) if config.bidirectional else (config.reverse_source,)
        self.directions = nn.ModuleList(CELLS[config.cell](input_size, config.hidden_size) for _ in self.reverse)

    def forward(self, x_BLI: Tensor, is_token_BL: Tensor, read: Read = read_steps) -> tuple[Tensor, list[State]]:
        """What it says of each position, directions side by side [B, L, H or 2 H], and the last state of each."""
        found = [
            read(recurrence, x_BLI, is_token_BL, reverse=reverse)
            for recurrence, reverse in zip(cast(list[Recurrence], self.directions), self.reverse, strict=True)
        ]
        return torch.cat([said_BLH for said_BLH, _ in found], dim=-1), [state for _, state in found]


def beside(x_RX: Tensor, of_sentence_BX: Tensor) -> Tensor:
    """Add to each row what belongs to its sentence: [R, X] and [B, X] to [R, X]."""
    x_BKX = x_RX.view(of_sentence_BX.shape[0], -1, x_RX.shape[-1])
    return (x_BKX + of_sentence_BX[:, None]).flatten(0, 1)


def maxout(x: Tensor) -> Tensor:
    """The larger of each two neighbours: [..., 2 n] to [..., n] (Goodfellow et al. 2013)."""
    return x.view(*x.shape[:-1], -1, 2).amax(dim=-1)


def softmax_over(scores: Tensor, is_token: Tensor) -> Tensor:
    """Weights over the last dimension in fp32; none where nothing but padding stands."""
    return F.softmax(scores.float().masked_fill(~is_token, float("-inf")), dim=-1).to(scores.dtype)
