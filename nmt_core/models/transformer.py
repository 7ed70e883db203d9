"""The Transformer (Vaswani et al. 2017).

Letters in names of tensors: B sentences, T target positions, S source positions, M `d_model`, V vocabulary.
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.config import ModelConfig
from nmt_core.errors import ConfigError
from nmt_core.models.layers import DecoderLayer, Dropout, EncoderLayer, sinusoidal_positions
from nmt_core.tokenizer.tokenizer import PAD_ID


class Transformer(nn.Module):
    """Encoder and decoder over token ids.

    Args:
        config: sizes, dropout, place of the norms, ties of the embeddings.
        vocab_size: pieces of the target's vocabulary, or of both languages'.
        max_positions: longest sequence, in tokens; positions are computed, not learned, so this is no parameter.
        source_vocab_size: pieces of the source's own vocabulary; None if the vocabulary is joint.

    Raises:
        ConfigError: vocabularies of two languages are to share one matrix.
    """

    positions_LM: Tensor

    def __init__(
        self, config: ModelConfig, vocab_size: int, max_positions: int = 1_024, source_vocab_size: int | None = None
    ) -> None:
        super().__init__()
        is_tied = config.tied_embeddings == "three-way"
        if is_tied and source_vocab_size:
            raise ConfigError(
                "model.tied_embeddings=three-way needs a joint vocabulary: set it to two-way, or set "
                "tokenizer.vocabularies to joint"
            )
        self.config = config
        self.vocab_size = vocab_size
        self.source_vocab_size = source_vocab_size
        self.target_embedding = nn.Embedding(vocab_size, config.d_model)
        self.source_embedding = (
            self.target_embedding if is_tied else nn.Embedding(source_vocab_size or vocab_size, config.d_model)
        )
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        # Post-norm layers end in a norm; a pre-norm stack needs one of its own.
        self.encoder_norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.output = nn.Linear(config.d_model, vocab_size, bias=False)
        if config.tied_embeddings != "none":
            self.output.weight = self.target_embedding.weight
        self.dropout = Dropout(config.dropout)
        self.register_buffer("positions_LM", sinusoidal_positions(max_positions, config.d_model), persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        """Xavier uniform for matrices; deviation d_model^-0.5 for embeddings, which are scaled up by sqrt(d_model)."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        # A dict, not a set, for its order: the same seed must give the same weights.
        for embedding in dict.fromkeys((self.source_embedding, self.target_embedding)):
            nn.init.normal_(embedding.weight, std=self.config.d_model**-0.5)

    def embed(self, ids_BL: Tensor, embedding: nn.Embedding, first_position: int = 0) -> Tensor:
        """Embeddings times sqrt(d_model), plus positions, with dropout (sections 3.4, 3.5 and 5.4): [B, L, M]."""
        x_BLM = F.embedding(ids_BL, embedding.weight) * math.sqrt(self.config.d_model)
        positions_LM = self.positions_LM[first_position : first_position + ids_BL.shape[1]]
        dropped: Tensor = self.dropout(x_BLM + positions_LM)
        return dropped

    def encode(self, source_BS: Tensor, mask_B1S: Tensor | None) -> Tensor:
        """Source ids [B, S] to memory [B, S, M]; the mask is True at tokens and False at padding."""
        x_BSM = self.embed(source_BS, self.source_embedding)
        for layer in self.encoder:
            x_BSM = layer(x_BSM, mask_B1S)
        memory: Tensor = self.encoder_norm(x_BSM)
        return memory

    def decode(self, target_BT: Tensor, memory_BSM: Tensor, mask_B1S: Tensor | None) -> Tensor:
        """Target ids so far [B, T] and memory to the decoder's states [B, T, M]."""
        x_BTM = self.embed(target_BT, self.target_embedding)
        for layer in self.decoder:
            x_BTM = layer(x_BTM, memory_BSM, mask_B1S)
        states: Tensor = self.decoder_norm(x_BTM)
        return states

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Source ids and target ids (shifted right: <s> first), both padded, to states [B, T, M].

        `output` turns states into logits; it is left to the caller, who may need few positions only.
        Padding of the target stands at the end, so the causal mask alone keeps it out of sight of real tokens.
        """
        mask_B1S = padding_mask(source_BS)
        return self.decode(target_BT, self.encode(source_BS, mask_B1S), mask_B1S)


def padding_mask(source_BS: Tensor) -> Tensor:
    """[B, 1, S], True at tokens and False at padding."""
    return (source_BS != PAD_ID)[:, None]


def count_parameters(model: nn.Module) -> int:
    """Trainable parameters, a tied matrix counted once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
