"""What the recurrent models have in common: embeddings, the encoder, and how they start to decode.

Which part of the source the decoder sees makes three of them: `fixed_context.py` and `attention.py`.

Letters in names of tensors: B sentences, K beams of a sentence, R rows (R = B * K, those of one sentence side by side),
S source positions, T target positions, E `d_model`, A width of an annotation, H hidden units, M width of a state that
leaves the decoder.
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
    """A batch that the encoder has read."""

    annotations_BSA: Tensor
    """What its last layer says of each position."""
    states: list[list[State]]
    """Last states, by layer and direction."""


class RecurrentModel(TranslationModel):
    """Embeddings and encoder; what is behind them is made by the three kinds.

    Args: as of `TranslationModel`. `max_positions` limits nothing in here.
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
        """Make `decoder` and the parts around it."""
        raise NotImplementedError

    def initialise(self) -> None:
        """Draw the weights as the paper of this kind does."""
        raise NotImplementedError

    @property
    def cross_shapes(self) -> dict[str, tuple[int | str, ...]]:
        """Shape of each tensor that `start` keeps for a sentence; sizes that vary go by their names."""
        raise NotImplementedError

    @property
    def state_names(self) -> list[str]:
        """Names of the tensors of a decoder's states, each [R, H], in order."""
        names = CELLS[self.config.rnn.cell].names
        return [f"{name}_{layer}" for layer in range(len(self.decoder)) for name in names]

    def encode(self, source_BS: Tensor, is_token_BS: Tensor, read: Read = read_steps) -> Source:
        """Read the source."""
        x_BSA, states = self.dropout(F.embedding(source_BS, self.source_embedding.weight)), []
        for number, layer in enumerate(self.encoder):
            x_BSA, last = layer(self.dropout(x_BSA) if number else x_BSA, is_token_BS, read)
            states.append(last)
        return Source(x_BSA, states)

    def start(self, source: Source) -> tuple[list[Tensor], list[State]]:
        """What stays with each sentence, in the order of `cross_shapes`, and the first state of each decoder layer."""
        raise NotImplementedError

    def decode(self, y_BTE: Tensor, cross: list[Tensor], is_token_BS: Tensor, states: list[State]) -> Tensor:
        """Embedded target so far and what `start` gave, to the states that leave the decoder [B, T, M]."""
        raise NotImplementedError

    def step(
        self, y_RE: Tensor, cross: list[Tensor], is_token_BS: Tensor, states: list[State]
    ) -> tuple[Tensor, list[State]]:
        """The same for one position of each row: [R, M], and the states behind it."""
        raise NotImplementedError

    def forward(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """As `TranslationModel.forward`, padded: [B, T, M].

        Raises:
            ConfigError: sentences are packed.
        """
        if isinstance(source_layout, Packed) or isinstance(target_layout, Packed):
            raise ConfigError("a recurrent network reads no packed sentences: set train.batching to padded")
        is_token_BS = source != PAD_ID
        cross, states = self.start(self.encode(source, is_token_BS))
        y_BTE = self.dropout(F.embedding(target, self.target_embedding.weight))
        dropped: Tensor = self.dropout(self.decode(y_BTE, cross, is_token_BS, states))
        return dropped

    @property
    def weights_per_token(self) -> tuple[int, int]:
        """As `TranslationModel.weights_per_token`; what is computed once per sentence does not count."""
        once = {id(weight) for part in self._once() for weight in part.parameters()}
        at_source = [weight for part in (self.encoder, *self._at_source()) for weight in part.parameters()]
        embeddings = (self.source_embedding.weight, self.target_embedding.weight)
        elsewhere = once | {id(weight) for weight in (*at_source, *embeddings)}
        at_target = [weight for weight in self.parameters() if id(weight) not in elsewhere]
        output = 0 if self.config.tied_embeddings == "none" else self.output.weight.numel()
        return sum(weight.numel() for weight in at_source), sum(weight.numel() for weight in at_target) + output

    def _once(self) -> list[nn.Module]:
        """Parts that are computed once per sentence."""
        return []

    def _at_source(self) -> list[nn.Module]:
        """Parts of the decoder that read each source position once."""
        return []


def first_hidden(layer: nn.Linear, x_BH: Tensor) -> Tensor:
    """tanh(W x), in the type of the weights: a state is summed up, and half precision is for products alone."""
    return torch.tanh(layer(x_BH)).to(layer.weight.dtype)


def draw_uniform(model: nn.Module, bound: float) -> None:
    """All weights from -bound to bound, evenly."""
    for weight in model.parameters():
        nn.init.uniform_(weight, -bound, bound)


def draw_normal(model: nn.Module) -> None:
    """Weights of deviation 0.01, those of recurrences orthogonal, and biases of 0 (Bahdanau et al. 2015, B.1)."""
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
