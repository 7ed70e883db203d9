"""Recurrent models that attend to source positions: RNNsearch, and the global and local attention of Luong et al.

Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate"; Luong et al. 2015,
"Effective Approaches to Attention-based Neural Machine Translation".

Letters: see `model.py`, and `cells.py` for G; in addition N counts the hidden units of the alignment model.
"""

from typing import cast

import torch
from torch import Tensor, nn

from nmt_core.models.recurrent.cells import CELLS, Recurrence, State, maxout, softmax_over
from nmt_core.models.recurrent.model import RecurrentModel, Source, draw_normal, draw_uniform, first_hidden


class SearchLayer(nn.Module):
    """Alignment model and recurrence of RNNsearch (Bahdanau et al. 2015, equations 4 to 6 and appendix A.1.2).

    e_ij = v^T tanh(W s_(i-1) + U h_j), alpha_i = softmax(e_i), c_i = sum over j of alpha_ij h_j. The recurrence reads
    the word y_(i-1) and c_i. U h_j is computed once per source, outside of this layer.

    Args:
        recurrence: recurrent layer that reads words, and contexts of the annotations' width.
        alignment_size: number of hidden units of the alignment model (N).
    """

    def __init__(self, recurrence: Recurrence, alignment_size: int) -> None:
        super().__init__()
        self.recurrence = recurrence
        self.query = nn.Linear(recurrence.hidden_size, alignment_size, bias=False)
        self.score = nn.Linear(alignment_size, 1, bias=False)

    def forward(
        self, y_BTE: Tensor, annotations_BSA: Tensor, key_BSN: Tensor, is_token_BS: Tensor, state: State
    ) -> tuple[Tensor, Tensor]:
        """Return the states before each word, s_(i-1) [B, T, H], and the contexts c_i [B, T, A]."""
        before, contexts = [], []
        for number, projected_BG in enumerate(self.recurrence.input(y_BTE).unbind(1)):
            state = self.recurrence.cut(state, number)
            context_BA, after = self.step(projected_BG, annotations_BSA, key_BSN, is_token_BS, state)
            before.append(state[0])
            contexts.append(context_BA)
            state = after
        return torch.stack(before, dim=1), torch.stack(contexts, dim=1)

    def step(
        self, projected_RG: Tensor, annotations_BSA: Tensor, key_BSN: Tensor, is_token_BS: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """Return the context [R, A] and the next state, for words that are projected already."""
        align_BKS = self.align(key_BSN, is_token_BS, state[0])
        context_RA = (align_BKS @ annotations_BSA).flatten(0, 1)
        assert self.recurrence.context is not None
        return context_RA, self.recurrence.step(projected_RG + self.recurrence.context(context_RA), state)

    def align(self, key_BSN: Tensor, is_token_BS: Tensor, hidden_RH: Tensor) -> Tensor:
        """Return alpha [B, K, S], the share of its attention that each row pays to each source position."""
        query_RN = self.query(hidden_RH)
        query_BKN = query_RN.view(key_BSN.shape[0], -1, query_RN.shape[-1])
        score_BKS = self.score(torch.tanh(query_BKN[:, :, None] + key_BSN[:, None])).squeeze(-1)
        return softmax_over(score_BKS, is_token_BS[:, None])


class AttendingModel(RecurrentModel):
    """Recurrent model whose decoder attends to each source position."""

    def weights(self, before: list[State], after: list[State], cross: list[Tensor], is_token_BS: Tensor) -> Tensor:
        """Return the share of its attention that a step of the decoder pays to each source position, [B, K, S].

        Args:
            before: states before the step.
            after: states after the step, the second result of `step`.
            cross: first result of `start`.
            is_token_BS: True at source tokens and False at padding.
        """
        raise NotImplementedError


class SearchModel(AttendingModel):
    """RNNsearch (Bahdanau et al. 2015, section 3 and appendix A).

    s_0 = tanh(W_s h), where h is the last state of the backward direction, at the first word. The readout is maxout of
    U_o s_(i-1) + V_o y_(i-1) + C_o c_i (Bahdanau et al. 2015, appendix A.2.2).
    """

    def _build(self) -> None:
        config, rnn = self.config, self.config.rnn
        recurrence = CELLS[rnn.cell](config.d_model, rnn.hidden_size, self.annotation_size)
        self.decoder = nn.ModuleList([SearchLayer(recurrence, rnn.alignment_size)])
        self.key = nn.Linear(self.annotation_size, rnn.alignment_size)
        self.first_state = nn.Linear(rnn.hidden_size, rnn.hidden_size)
        self.readout_state = nn.Linear(rnn.hidden_size, 2 * rnn.maxout_size)
        self.readout_word = nn.Linear(config.d_model, 2 * rnn.maxout_size, bias=False)
        self.readout_context = nn.Linear(self.annotation_size, 2 * rnn.maxout_size, bias=False)

    def initialise(self) -> None:
        """Draw the weights as Bahdanau et al. (2015, appendix B.1).

        W and U of the alignment model have a deviation of 0.001, and v is 0.
        """
        draw_normal(self)
        (layer,) = cast(list[SearchLayer], self.decoder)
        nn.init.normal_(layer.query.weight, std=0.001)
        nn.init.normal_(self.key.weight, std=0.001)
        nn.init.zeros_(layer.score.weight)

    @property
    def cross_shapes(self) -> dict[str, tuple[int | str, ...]]:
        """Shapes of the annotations h_j, and of U h_j (see `RecurrentModel.cross_shapes`)."""
        return {
            "annotation": ("sentences", "source_positions", self.annotation_size),
            "key": ("sentences", "source_positions", self.config.rnn.alignment_size),
        }

    def start(self, source: Source) -> tuple[list[Tensor], list[State]]:
        """Return the annotations and U h_j, and the first state (see `RecurrentModel.start`)."""
        last, *rest = source.states[-1][-1]
        first_BH = first_hidden(self.first_state, last)
        annotations_BSA = source.annotations_BSA
        return [annotations_BSA, self.key(annotations_BSA)], [(first_BH, *(torch.zeros_like(first_BH) for _ in rest))]

    def decode(self, y_BTE: Tensor, cross: list[Tensor], is_token_BS: Tensor, states: list[State]) -> Tensor:
        """Return the readouts [B, T, M] (see `RecurrentModel.decode`)."""
        before_BTH, contexts_BTA = self.decoder[0](y_BTE, *cross, is_token_BS, states[0])
        return self._read_out(before_BTH, y_BTE, contexts_BTA)

    def step(
        self, y_RE: Tensor, cross: list[Tensor], is_token_BS: Tensor, states: list[State]
    ) -> tuple[Tensor, list[State]]:
        """Return the readouts [R, M] and the next state (see `RecurrentModel.step`)."""
        layer, (state,) = cast(SearchLayer, self.decoder[0]), states
        annotations_BSA, key_BSN = cross
        context_RA, after = layer.step(layer.recurrence.input(y_RE), annotations_BSA, key_BSN, is_token_BS, state)
        return self._read_out(state[0], y_RE, context_RA), [after]

    def weights(self, before: list[State], after: list[State], cross: list[Tensor], is_token_BS: Tensor) -> Tensor:
        """Return alpha of a step, which depends on the state before it (see `AttendingModel.weights`)."""
        return cast(SearchLayer, self.decoder[0]).align(cross[1], is_token_BS, before[0][0])

    def _read_out(self, hidden_H: Tensor, y_E: Tensor, context_A: Tensor) -> Tensor:
        return maxout(self.readout_state(hidden_H) + self.readout_word(y_E) + self.readout_context(context_A))

    def _once(self) -> list[nn.Module]:
        return [self.first_state]

    def _at_source(self) -> list[nn.Module]:
        return [self.key]


class GlobalAttentionModel(AttendingModel):
    """Attention of Luong et al. (2015, sections 3 and 3.1), with input feeding (section 3.3) if the recipe says so.

    The layers of the decoder start from the last states of the encoder's layers, and read words. With the state h_t of
    the last layer, alpha = softmax over s of score(h_t, h_s), c_t = sum of alpha_s h_s, and the decoder returns the
    attentional vector tanh(W_c [c_t; h_t]) (Luong et al. 2015, equation 5).

    Equation 8 has three scores: h_t^T h_s (`dot`), h_t^T W_a h_s (`general`) and v_a^T tanh(W_a [h_t; h_s])
    (`concat`). The product of W_a and h_s is computed once per source. With input feeding, the first layer of the
    decoder also reads the attentional vector of the step before, zeros at the first step.

    Local attention (Luong et al. 2015, section 3.2) weighs the source positions s with |s - p_t| <= D only. The centre
    p_t is t (`monotonic`), or S sigmoid(v_p^T tanh(W_p h_t)) for a source of S tokens (`predictive`, equations 9 and
    10), and the weights are then multiplied by exp(-(s - p_t)^2 / (2 sigma^2)) with sigma = D / 2.
    """

    def _build(self) -> None:
        config, rnn = self.config, self.config.rnn
        hidden, cell = rnn.hidden_size, CELLS[rnn.cell]
        self.decoder = nn.ModuleList(
            cell(hidden, hidden) if number else cell(config.d_model, hidden, hidden if rnn.input_feeding else 0)
            for number in range(config.decoder_layers)
        )
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)
        if rnn.attention != "dot":
            self.key = nn.Linear(self.annotation_size, self._key_size, bias=False)
        if rnn.attention == "concat":
            self.query = nn.Linear(hidden, self._key_size, bias=False)
            self.score = nn.Linear(self._key_size, 1, bias=False)
        if rnn.window == "predictive":
            self.centre = nn.Linear(hidden, hidden, bias=False)
            self.centre_score = nn.Linear(hidden, 1, bias=False)

    @property
    def _key_size(self) -> int:
        """Width of W_a h_s."""
        return self.config.rnn.alignment_size if self.config.rnn.attention == "concat" else self.config.rnn.hidden_size

    def initialise(self) -> None:
        """Draw the weights as Luong et al. (2015, section 4.1)."""
        draw_uniform(self, 0.1)

    @property
    def cross_shapes(self) -> dict[str, tuple[int | str, ...]]:
        """Shapes of the encoder's states h_s, and of W_a h_s if there is W_a (see `RecurrentModel.cross_shapes`)."""
        shapes = {"annotation": self.annotation_size}
        if self.config.rnn.attention != "dot":
            shapes["key"] = self._key_size
        return {name: ("sentences", "source_positions", size) for name, size in shapes.items()}

    @property
    def state_sizes(self) -> dict[str, int]:
        """Widths of the states, with the vector that is fed back, and the target position for `monotonic`."""
        rnn = self.config.rnn
        fed = {"attentional": rnn.hidden_size} if rnn.input_feeding else {}
        return super().state_sizes | fed | ({"position": 1} if rnn.window == "monotonic" else {})

    def start(self, source: Source) -> tuple[list[Tensor], list[State]]:
        """Return the encoder's states with W_a h_s, and the first states (see `RecurrentModel.start`).

        A state for the vector that is fed back, and one for the target position, may follow the states of the layers.
        """
        annotations_BSA, states = source.annotations_BSA, [state for (state,) in source.states]
        if self.config.rnn.input_feeding:
            states.append((torch.zeros_like(states[-1][0]),))
        if self.config.rnn.window == "monotonic":
            states.append((torch.zeros_like(states[-1][0][:, :1]),))
        cross = [annotations_BSA]
        if self.config.rnn.attention != "dot":
            cross.append(self.key(annotations_BSA))
        return cross, states

    def decode(self, y_BTE: Tensor, cross: list[Tensor], is_token_BS: Tensor, states: list[State]) -> Tensor:
        """Return the outputs of the decoder [B, T, M] (see `RecurrentModel.decode`)."""
        if self.config.rnn.input_feeding:
            return self._decode_fed(y_BTE, cross, is_token_BS, states)
        x_BTH, place_1T = y_BTE, torch.arange(y_BTE.shape[1], device=y_BTE.device)[None]
        for number, (layer, state) in enumerate(zip(self.decoder, states, strict=False)):
            x_BTH, _ = layer(self.dropout(x_BTH) if number else x_BTH, state)
        return self._attend(x_BTH, cross, is_token_BS, place_1T)

    def _decode_fed(self, y_BTE: Tensor, cross: list[Tensor], is_token_BS: Tensor, states: list[State]) -> Tensor:
        """Decode one position after the other, because each one reads the output of the one before."""
        layers = len(self.decoder)
        states, (fed_BH,) = states[:layers], states[layers]
        outputs = []
        first = cast(Recurrence, self.decoder[0])
        for place, y_B1E in enumerate(torch.split(y_BTE, 1, dim=1)):
            states, (fed_BH,) = [first.cut(state, place) for state in states], first.cut((fed_BH,), place)
            x_B1H = y_B1E
            for number, layer in enumerate(self.decoder):
                if number:
                    x_B1H, states[number] = layer(self.dropout(x_B1H), states[number])
                else:
                    x_B1H, states[number] = layer(x_B1H, states[number], fed_BH)
            outputs.append(self._attend(x_B1H, cross, is_token_BS, torch.tensor([[place]], device=y_BTE.device)))
            fed_BH = outputs[-1].squeeze(1)
        return torch.cat(outputs, dim=1)

    def step(
        self, y_RE: Tensor, cross: list[Tensor], is_token_BS: Tensor, states: list[State]
    ) -> tuple[Tensor, list[State]]:
        """Return the outputs of the decoder [R, M] and the next states (see `RecurrentModel.step`)."""
        x_RH, after = y_RE, list[State]()
        for layer, state in zip(cast(list[Recurrence], self.decoder), states, strict=False):
            projected_RG = layer.input(x_RH)
            if layer.context is not None:
                projected_RG = projected_RG + layer.context(states[len(self.decoder)][0])
            after.append(layer.step(projected_RG, state))
            x_RH = after[-1][0]
        hidden_BKH, place_BK = self._by_sentence(x_RH, is_token_BS), self._places(states, is_token_BS)
        output_RH = self._attend(hidden_BKH, cross, is_token_BS, place_BK).flatten(0, 1)
        if self.config.rnn.input_feeding:
            after.append((output_RH,))
        if self.config.rnn.window == "monotonic":
            after.append((states[-1][0] + 1,))
        return output_RH, after

    def weights(self, before: list[State], after: list[State], cross: list[Tensor], is_token_BS: Tensor) -> Tensor:
        """Return alpha of a step, which depends on the state after it (see `AttendingModel.weights`)."""
        last_RH = after[len(self.decoder) - 1][0]
        place_BK = self._places(before, is_token_BS)
        return self.align(self._by_sentence(last_RH, is_token_BS), cross, is_token_BS, place_BK)

    def align(
        self, hidden_BTH: Tensor, cross: list[Tensor], is_token_BS: Tensor, place_BT: Tensor | None = None
    ) -> Tensor:
        """Return alpha [B, T, S], the share of its attention that each target position pays to each source position.

        Args:
            hidden_BTH: states of the last layer.
            cross: first result of `start`.
            is_token_BS: True at source tokens and False at padding.
            place_BT: numbers of the target positions, from 0, or [1, T]. Only `monotonic` needs them.
        """
        if self.config.rnn.attention == "concat":
            query_BTN, key_BSN = self.query(hidden_BTH), cross[-1]
            score_BTS = self.score(torch.tanh(query_BTN[:, :, None] + key_BSN[:, None])).squeeze(-1)
        else:
            score_BTS = hidden_BTH @ cross[-1].transpose(1, 2)
        if self.config.rnn.window == "all":
            return softmax_over(score_BTS, is_token_BS[:, None])
        return self._in_window(score_BTS, self._centre(hidden_BTH, is_token_BS, place_BT), is_token_BS)

    def _in_window(self, score_BTS: Tensor, centre_BT: Tensor, is_token_BS: Tensor) -> Tensor:
        """Return alpha of local attention [B, T, S], for the centres of the windows."""
        size = float(self.config.rnn.window_size)
        place_S = torch.arange(is_token_BS.shape[1], device=is_token_BS.device).float()
        distance_BTS = place_S - centre_BT[:, :, None]
        squared_BTS = distance_BTS * distance_BTS
        align_BTS = softmax_over(score_BTS, is_token_BS[:, None] & (squared_BTS <= size * size))
        if self.config.rnn.window == "predictive":
            align_BTS = align_BTS * (squared_BTS * (-2 / (size * size))).exp().to(align_BTS.dtype)
        return align_BTS

    def _centre(self, hidden_BTH: Tensor, is_token_BS: Tensor, place_BT: Tensor | None) -> Tensor:
        """Return the centre of each target position's window, fp32 [B, T]. At least one source token is in a window."""
        length_B1 = is_token_BS.sum(dim=1, dtype=torch.float32)[:, None]
        if self.config.rnn.window == "predictive":
            score_BT = self.centre_score(torch.tanh(self.centre(hidden_BTH))).squeeze(-1)
            return length_B1 * torch.sigmoid(score_BT.float())
        assert place_BT is not None
        return torch.minimum(place_BT.float(), length_B1 - 1)

    def _places(self, states: list[State], is_token_BS: Tensor) -> Tensor | None:
        """Return the number of the target position of each row, [B, K], or None if it does not matter."""
        if self.config.rnn.window != "monotonic":
            return None
        return self._by_sentence(states[-1][0], is_token_BS).squeeze(-1)

    def _by_sentence(self, x_RH: Tensor, is_token_BS: Tensor) -> Tensor:
        """Return the rows of each sentence side by side, [B, K, H]."""
        return x_RH.view(is_token_BS.shape[0], -1, x_RH.shape[-1])

    def _attend(self, hidden_BTH: Tensor, cross: list[Tensor], is_token_BS: Tensor, place_BT: Tensor | None) -> Tensor:
        context_BTA = self.align(hidden_BTH, cross, is_token_BS, place_BT) @ cross[0]
        return torch.tanh(self.combine(torch.cat([context_BTA, hidden_BTH], dim=-1)))

    def _at_source(self) -> list[nn.Module]:
        return [] if self.config.rnn.attention == "dot" else [self.key]
