"""Recurrent layers, one step at a time: the plain unit, the gated hidden unit, and long short-term memory.

Gates are in the order of ONNX's operators RNN, GRU and LSTM, which compute the same (`export/onnx_rnn.py`).

Letters: see `nmt_core.models`. Here H counts hidden units, and C is the width of a context; in addition I is the width
of the input, G is the number of hidden units times gates, and X is any width.
"""

from typing import Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.config import RnnConfig

State = tuple[Tensor, ...]
"""State of a layer that one step passes to the next, each [B, H]: the output of the layer, and for LSTM its memory."""


class Recurrence(nn.Module):
    """Recurrent layer that reads in one direction.

    Args:
        input_size: width of the input (I).
        hidden_size: number of hidden units (H).
        context_size: width of a vector that each step reads beside the input (C). 0 means that there is none.
    """

    gates: int
    """Number of gates, the candidate included: G / H."""
    names: tuple[str, ...]
    """Names of the parts of a state."""
    operator: str
    """Operator of ONNX that computes the layer."""
    bptt_steps = 0
    """Number of steps after which the gradient through time is cut (see `truncate_gradients`). 0 means never."""

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
            x_BLI: input.
            state: state before the first step. None means zeros.
            context_BC: context, the same at each step.
            is_token_BL: False at padding, which does not change the state. None means that all positions are read.
            reverse: True to read from the end.

        Returns:
            Outputs of the layer after each position [B, L, H], and its last state.
        """
        projected_BLG: Tensor = self.input(x_BLI)
        if self.context is not None and context_BC is not None:
            projected_BLG = projected_BLG + self.context(context_BC)[:, None]
        steps = projected_BLG.unbind(1)
        is_token = is_token_BL[:, :, None].unbind(1) if is_token_BL is not None else None
        if is_token_BL is not None and is_token_BL.device.type == "cpu" and bool(is_token_BL.all()):
            is_token = None  # on a GPU the host would have to wait for the answer
        state = state or self.nothing(x_BLI)
        said = [state[0]] * len(steps)
        for number, place in enumerate(reversed(range(len(steps))) if reverse else range(len(steps))):
            state = self.cut(state, number)
            after = self.step(steps[place], state)
            if is_token is not None:
                after = tuple(torch.where(is_token[place], new, old) for new, old in zip(after, state, strict=True))
            state = after
            said[place] = state[0]
        return torch.stack(said, dim=1), state

    def nothing(self, x_BLI: Tensor) -> State:
        """Return the state before anything has been read.

        It is in fp32 even where products are not, because it is a sum of many steps.
        """
        zeros_BH = x_BLI.new_zeros(len(x_BLI), self.hidden_size, dtype=self.input.weight.dtype)
        return (zeros_BH,) * len(self.names)

    def cut(self, state: State, number: int) -> State:
        """Return the state before a step, through which no gradient flows if `bptt_steps` end there.

        `number` is the number of steps so far.
        """
        if self.bptt_steps and number and number % self.bptt_steps == 0:
            return tuple(part.detach() for part in state)
        return state

    def step(self, projected_G: Tensor, state: State) -> State:
        """Read one position, for which input (and context) are projected already, [B, G]."""
        raise NotImplementedError

    def recurrent_weights(self) -> list[Tensor]:
        """Return the matrices by which a state is multiplied: parts of [G, H], in order."""
        raise NotImplementedError

    def _last_block(self, x_G: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gates, and the candidate that follows them."""
        return x_G[..., : -self.hidden_size], x_G[..., -self.hidden_size :]


class PlainUnit(Recurrence):
    """Unit of a plain recurrent network, without gates (Elman 1990): h' = tanh(W x + U h).

    Its gradient over many steps vanishes or explodes (Bengio et al. 1994), which the gated units prevent.
    """

    gates = 1
    names = ("hidden",)
    operator = "RNN"

    def __init__(self, input_size: int, hidden_size: int, context_size: int = 0) -> None:
        super().__init__(input_size, hidden_size, context_size)
        self.recurrent = nn.Linear(hidden_size, hidden_size, bias=False)

    def step(self, projected_G: Tensor, state: State) -> State:
        """Read one position (see `Recurrence.step`)."""
        return (torch.tanh(projected_G + self.recurrent(state[0])),)

    def recurrent_weights(self) -> list[Tensor]:
        """Return the only matrix (see `Recurrence.recurrent_weights`)."""
        return [self.recurrent.weight]


class GatedUnit(Recurrence):
    """Gated hidden unit (Cho et al. 2014, equations 5 to 8, and Bahdanau et al. 2015, appendix A.1.1).

    z = sigmoid(W_z x + U_z h), r = sigmoid(W_r x + U_r h), h' = z h + (1 - z) tanh(W x + U (r h)). The reset gate is
    applied before the product, whereas `nn.GRU` applies it after. (In Bahdanau et al. 2015, z and 1 - z are exchanged.)
    """

    gates = 3
    names = ("hidden",)
    operator = "GRU"

    def __init__(self, input_size: int, hidden_size: int, context_size: int = 0) -> None:
        super().__init__(input_size, hidden_size, context_size)
        self.recurrent = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.candidate = nn.Linear(hidden_size, hidden_size, bias=False)

    def step(self, projected_G: Tensor, state: State) -> State:
        """Read one position (see `Recurrence.step`)."""
        (hidden_BH,) = state
        of_gates, of_candidate = self._last_block(projected_G)
        update_BH, reset_BH = torch.sigmoid(of_gates + self.recurrent(hidden_BH)).chunk(2, dim=-1)
        candidate_BH = torch.tanh(of_candidate + self.candidate(reset_BH * hidden_BH))
        return (candidate_BH + update_BH * (hidden_BH - candidate_BH),)

    def recurrent_weights(self) -> list[Tensor]:
        """Return the matrices of update and reset, and of the candidate (see `Recurrence.recurrent_weights`)."""
        return [self.recurrent.weight, self.candidate.weight]


class LongShortTermMemory(Recurrence):
    """LSTM (Hochreiter and Schmidhuber 1997) with a forget gate (Gers et al. 2000) and without peepholes.

    c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'), where i, o, f, g = W x + U h.
    """

    gates = 4
    names = ("hidden", "memory")
    operator = "LSTM"

    def __init__(self, input_size: int, hidden_size: int, context_size: int = 0) -> None:
        super().__init__(input_size, hidden_size, context_size)
        self.recurrent = nn.Linear(hidden_size, 4 * hidden_size, bias=False)

    def step(self, projected_G: Tensor, state: State) -> State:
        """Read one position (see `Recurrence.step`)."""
        hidden_BH, memory_BH = state
        of_gates, of_candidate = self._last_block(projected_G + self.recurrent(hidden_BH))
        input_BH, output_BH, forget_BH = torch.sigmoid(of_gates).chunk(3, dim=-1)
        memory_BH = forget_BH * memory_BH + input_BH * torch.tanh(of_candidate)
        return output_BH * torch.tanh(memory_BH), memory_BH

    def recurrent_weights(self) -> list[Tensor]:
        """Return the matrix of input, output, forget and candidate (see `Recurrence.recurrent_weights`)."""
        return [self.recurrent.weight]


def truncate_gradients(model: nn.Module, steps: int) -> None:
    """Cut the gradient of all recurrent layers of a model after each `steps` steps. 0 means never.

    This is truncated back-propagation through time (Williams and Peng 1990). The states themselves continue, so the
    outputs are the same. In an encoder-decoder, attention and the first state of the decoder carry gradients to the
    source as before.
    """
    for module in model.modules():
        if isinstance(module, Recurrence):
            module.bptt_steps = steps


CELLS: dict[str, type[Recurrence]] = {"rnn": PlainUnit, "gru": GatedUnit, "lstm": LongShortTermMemory}


class Read(Protocol):
    """Function by which a layer reads a source: step by step here, and by one operator in an exported graph."""

    def __call__(
        self, recurrence: Recurrence, x_BLI: Tensor, is_token_BL: Tensor, *, reverse: bool
    ) -> tuple[Tensor, State]:
        """Read sequences like `Recurrence.forward`, from zeros and without a context."""


def read_steps(recurrence: Recurrence, x_BLI: Tensor, is_token_BL: Tensor, *, reverse: bool) -> tuple[Tensor, State]:
    """Read a source step by step (see `Read`)."""
    found: tuple[Tensor, State] = recurrence(x_BLI, is_token_BL=is_token_BL, reverse=reverse)
    return found


class EncoderLayer(nn.Module):
    """Layer of the encoder, in one direction or in both.

    Args:
        config: configuration of the network.
        input_size: width of the input.
    """

    def __init__(self, config: RnnConfig, input_size: int) -> None:
        super().__init__()
        self.reverse = (False, True) if config.bidirectional else (config.reverse_source,)
        self.directions = nn.ModuleList(CELLS[config.cell](input_size, config.hidden_size) for _ in self.reverse)

    def forward(self, x_BLI: Tensor, is_token_BL: Tensor, read: Read = read_steps) -> tuple[Tensor, list[State]]:
        """Return the outputs at each position, and the last state of each direction.

        The outputs of the directions are side by side, [B, L, H] or [B, L, 2 H].
        """
        found = [
            read(recurrence, x_BLI, is_token_BL, reverse=reverse)
            for recurrence, reverse in zip(cast(list[Recurrence], self.directions), self.reverse, strict=True)
        ]
        return torch.cat([said_BLH for said_BLH, _ in found], dim=-1), [state for _, state in found]


def beside(x_RX: Tensor, of_sentence_BX: Tensor) -> Tensor:
    """Add to each row the vector of its sentence: [R, X] and [B, X] to [R, X]."""
    x_BKX = x_RX.view(of_sentence_BX.shape[0], -1, x_RX.shape[-1])
    return (x_BKX + of_sentence_BX[:, None]).flatten(0, 1)


def maxout(x: Tensor) -> Tensor:
    """Return the larger of each two neighbours: [..., 2 n] to [..., n] (Goodfellow et al. 2013)."""
    return x.view(*x.shape[:-1], -1, 2).amax(dim=-1)


def softmax_over(scores: Tensor, is_token: Tensor) -> Tensor:
    """Return weights over the last dimension, computed in fp32. Padding has the weight 0."""
    return F.softmax(scores.float().masked_fill(~is_token, float("-inf")), dim=-1).to(scores.dtype)
