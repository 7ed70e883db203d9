"""The RNN encoder-decoder, which sees the source as one vector of fixed length.

Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation";
Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks".

Letters: see `model.py`, and `cells.py` for G and X.
"""

from typing import cast

import torch
from torch import Tensor, nn

from nmt_core.models.recurrent.cells import CELLS, Recurrence, State, beside, maxout
from nmt_core.models.recurrent.model import RecurrentModel, Source, draw_normal, draw_uniform, first_hidden


class FixedContextModel(RecurrentModel):
    """Model of Cho et al. (2014, appendix A.1) with `rnn.context: every_step`, else of Sutskever et al. (2014).

    Cho et al.: c = tanh(V h_S), h'_0 = tanh(V' c). Each step reads the last word and c. The readout is maxout of O_h
    h'_t + O_y y_(t-1) + O_c c. Layers above the first, which the paper does not have, read the layer below.

    Sutskever et al.: the layers of the decoder start from the last states of the encoder's layers, and the logits are
    computed from the state of the last layer.
    """

    def _build(self) -> None:
        config, rnn = self.config, self.config.rnn
        hidden, cell = rnn.hidden_size, CELLS[rnn.cell]
        self.has_context = not rnn.hands_over_states
        self.decoder = nn.ModuleList(
            cell(hidden, hidden) if number else cell(config.d_model, hidden, hidden if self.has_context else 0)
            for number in range(config.decoder_layers)
        )
        if self.has_context:
            self.summary = nn.Linear(self.annotation_size, hidden)
            self.first_states = nn.ModuleList(nn.Linear(hidden, hidden) for _ in self.decoder)
            self.readout_state = nn.Linear(hidden, 2 * rnn.maxout_size)
            self.readout_word = nn.Linear(config.d_model, 2 * rnn.maxout_size, bias=False)
            self.readout_context = nn.Linear(hidden, 2 * rnn.maxout_size, bias=False)

    def initialise(self) -> None:
        """Draw the weights.

        The model of Cho et al. draws them as Bahdanau et al. (2015, appendix B.1), the other as Sutskever et al. (2014,
        section 3.4).
        """
        if self.has_context:
            draw_normal(self)
        else:
            draw_uniform(self, 0.08)

    @property
    def cross_shapes(self) -> dict[str, tuple[int | str, ...]]:
        """Shape of the context vector, if each step reads it (see `RecurrentModel.cross_shapes`)."""
        return {"context": ("sentences", self.config.rnn.hidden_size)} if self.has_context else {}

    def start(self, source: Source) -> tuple[list[Tensor], list[State]]:
        """Return the context vector, if each step reads it, and the first states (see `RecurrentModel.start`)."""
        if not self.has_context:
            return [], [state for (state,) in source.states]
        last_BA = torch.cat([state[0] for state in source.states[-1]], dim=-1)
        context_BH = first_hidden(self.summary, last_BA)
        rest = [torch.zeros_like(context_BH)] * (len(CELLS[self.config.rnn.cell].names) - 1)
        firsts = cast(list[nn.Linear], self.first_states)
        return [context_BH], [(first_hidden(first, context_BH), *rest) for first in firsts]

    def decode(self, y_BTE: Tensor, cross: list[Tensor], is_token_BS: Tensor, states: list[State]) -> Tensor:
        """Return the outputs of the decoder [B, T, M] (see `RecurrentModel.decode`)."""
        x_BTH = y_BTE
        for number, (layer, state) in enumerate(zip(self.decoder, states, strict=True)):
            if number:
                x_BTH, _ = layer(self.dropout(x_BTH), state)
            else:
                x_BTH, _ = layer(x_BTH, state, *cross)
        if not cross:
            return x_BTH
        return maxout(self.readout_state(x_BTH) + self.readout_word(y_BTE) + self.readout_context(cross[0])[:, None])

    def step(
        self, y_RE: Tensor, cross: list[Tensor], is_token_BS: Tensor, states: list[State]
    ) -> tuple[Tensor, list[State]]:
        """Return the outputs of the decoder [R, M] and the next states (see `RecurrentModel.step`)."""
        x_RH, after = y_RE, []
        for layer, state in zip(cast(list[Recurrence], self.decoder), states, strict=True):
            projected_RG = layer.input(x_RH)
            if layer.context is not None:
                projected_RG = beside(projected_RG, layer.context(cross[0]))
            after.append(layer.step(projected_RG, state))
            x_RH = after[-1][0]
        if not cross:
            return x_RH, after
        read_RX = self.readout_state(x_RH) + self.readout_word(y_RE)
        return maxout(beside(read_RX, self.readout_context(cross[0]))), after

    def _once(self) -> list[nn.Module]:
        if not self.has_context:
            return []
        first = cast(Recurrence, self.decoder[0])
        return [self.summary, self.first_states, self.readout_context, cast(nn.Linear, first.context)]
