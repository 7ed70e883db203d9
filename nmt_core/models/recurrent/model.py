"""Common parts of the recurrent models: the embeddings, the encoder, and the interface of the decoders.

The models differ in the part of the source that the decoder sees (`fixed_context.py` and `attention.py`).

Letters: see `nmt_core.models`. Here E is `d_model`, H counts hidden units, and M is the width of the decoder's outputs;
in addition A is the width of an annotation. A variable of a loop over layers has the letters of what the layers return,
although it holds the embeddings at first.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.batches.layout import Layout, Packed
from nmt_core.config import ModelConfig
from nmt_core.errors import ConfigError
from nmt_core.models.layers import Dropout
from nmt_core.models.model import TranslationModel
from nmt_core.models.recurrent.cells import CELLS, EncoderLayer, Read, Recurrence, State, read_steps
from nmt_core.tokenizer.tokenizer import PAD_ID


@dataclass(frozen=True)
class Source:
    """Batch of sources that the encoder has read."""

    annotations_BSA: Tensor
    """Output of the last layer at each position."""
    states: list[list[State]]
    """Last states, by layer and direction."""


class RecurrentModel(TranslationModel):
    """Embeddings and encoder of a recurrent model. Subclasses add the decoder.

    See `TranslationModel` for the arguments. `max_positions` has no effect.
    """

    compiles = False  # a loop over positions would be compiled anew for each length

    def __init__(
        self, config: ModelConfig, vocab_size: int, max_positions: int = 1_024, source_vocab_size: int | None = None
    ) -> None:
        super().__init__(config, vocab_size, max_positions, source_vocab_size)
        rnn = config.rnn
        self.annotation_size = rnn.hidden_size * (2 if rnn.bidirectional else 1)
        self.target_embedding = nn.Embedding(vocab_size, config.d_model)
        self.source_embedding = (
            self.target_embedding
            if config.tied_embeddings == "three_way"
            else nn.Embedding(source_vocab_size or vocab_size, config.d_model)
        )
        self.encoder = nn.ModuleList(
            EncoderLayer(rnn, self.annotation_size if number else config.d_model)
            for number in range(config.encoder_layers)
        )
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(rnn.state_size, vocab_size, bias=False)
        if config.tied_embeddings != "none":
            self.output.weight = self.target_embedding.weight
        self._build()
        self.initialise()

    def _build(self) -> None:
        """Create `decoder` and the parts around it."""
        raise NotImplementedError

    def initialise(self) -> None:
        """Draw the weights as in the paper of this model."""
        raise NotImplementedError

    @property
    def cross_shapes(self) -> dict[str, tuple[int | str, ...]]:
        """Shape of each tensor that `start` keeps for the sentences. A size that varies is given by its name."""
        raise NotImplementedError

    @property
    def state_sizes(self) -> dict[str, int]:
        """Width of each tensor of the decoder's states, by its name, in order. Each tensor has a row for each row."""
        names = CELLS[self.config.rnn.cell].names
        hidden = self.config.rnn.hidden_size
        return {f"{name}_{layer}": hidden for layer in range(len(self.decoder)) for name in names}

    def states_of(self, past: list[Tensor]) -> list[State]:
        """Return the states for a list of their tensors: of each layer, then any others, as `start` returns them."""
        width, layers = len(CELLS[self.config.rnn.cell].names), len(self.decoder)
        states: list[State] = [tuple(past[number * width : (number + 1) * width]) for number in range(layers)]
        return states + [(other,) for other in past[layers * width :]]

    def encode(self, source_BS: Tensor, is_token_BS: Tensor, read: Read = read_steps) -> Source:
        """Read the source."""
        x_BSA, states = self.dropout(F.embedding(source_BS, self.source_embedding.weight)), []
        for number, layer in enumerate(self.encoder):
            x_BSA, last = layer(self.dropout(x_BSA) if number else x_BSA, is_token_BS, read)
            states.append(last)
        return Source(x_BSA, states)

    def start(self, source: Source) -> tuple[list[Tensor], list[State]]:
        """Return the tensors that stay with each sentence, and the first state of each layer of the decoder.

        The tensors are in the order of `cross_shapes`.
        """
        raise NotImplementedError

    def decode(self, y_BTE: Tensor, cross: list[Tensor], is_token_BS: Tensor, states: list[State]) -> Tensor:
        """Return the outputs of the decoder, [B, T, M].

        Args:
            y_BTE: embeddings of the target so far.
            cross: first result of `start`.
            is_token_BS: True at source tokens and False at padding.
            states: second result of `start`.
        """
        raise NotImplementedError

    def step(
        self, y_RE: Tensor, cross: list[Tensor], is_token_BS: Tensor, states: list[State]
    ) -> tuple[Tensor, list[State]]:
        """Decode one position of each row. Return the outputs [R, M] and the next states.

        Args:
            y_RE: embedding of the last token of each row.
            cross: first result of `start`.
            is_token_BS: True at source tokens and False at padding.
            states: second result of `start`, or of the previous step, in the order of the rows.
        """
        raise NotImplementedError

    def forward(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """Return the states before `output`, [B, T, M] (see `TranslationModel.forward`). Sentences are padded.

        Raises:
            ConfigError: sentences are packed.
        """
        if isinstance(source_layout, Packed) or isinstance(target_layout, Packed):
            raise ConfigError("a recurrent network cannot read packed sentences: set train.batching to padded")
        is_token_BS = source != PAD_ID
        cross, states = self.start(self.encode(source, is_token_BS))
        y_BTE = self.dropout(F.embedding(target, self.target_embedding.weight))
        dropped: Tensor = self.dropout(self.decode(y_BTE, cross, is_token_BS, states))
        return dropped

    @property
    def weights_per_token(self) -> tuple[int, int]:
        """Number of weights that multiply each source token, and number of weights that multiply each target token.

        Weights that multiply once per sentence are not counted.
        """
        once = {id(weight) for part in self._once() for weight in part.parameters()}
        at_source = [weight for part in (self.encoder, *self._at_source()) for weight in part.parameters()]
        embeddings = (self.source_embedding.weight, self.target_embedding.weight)
        elsewhere = once | {id(weight) for weight in (*at_source, *embeddings)}
        at_target = [weight for weight in self.parameters() if id(weight) not in elsewhere]
        output = 0 if self.config.tied_embeddings == "none" else self.output.weight.numel()
        return sum(weight.numel() for weight in at_source), sum(weight.numel() for weight in at_target) + output

    def _once(self) -> list[nn.Module]:
        """Return the parts that are computed once per sentence."""
        return []

    def _at_source(self) -> list[nn.Module]:
        """Return the parts of the decoder that read each source position once."""
        return []


def first_hidden(layer: nn.Linear, x_BH: Tensor) -> Tensor:
    """Return tanh(W x), [B, H], for x of any width.

    The result has the dtype of the weights: a state is a sum of many steps, and half precision is for products only.
    """
    return torch.tanh(layer(x_BH)).to(layer.weight.dtype)


def draw_uniform(model: nn.Module, bound: float) -> None:
    """Draw all weights evenly from -bound to bound."""
    for weight in model.parameters():
        nn.init.uniform_(weight, -bound, bound)


def draw_normal(model: nn.Module) -> None:
    """Draw weights with a deviation of 0.01, orthogonal recurrent weights, and zeros for biases.

    These are the choices of Bahdanau et al. (2015, appendix B.1).
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.01)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for module in model.modules():
        if isinstance(module, Recurrence):
            for part in module.recurrent_weights():
                for gate in part.chunk(len(part) // module.hidden_size):
                    nn.init.orthogonal_(gate)
