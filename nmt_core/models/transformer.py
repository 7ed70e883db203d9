"""The Transformer (Vaswani et al. 2017).

Letters in names of tensors: M `d_model`, V vocabulary. What lies before them is [B, L] where sentences are padded, B
sentences of L positions each, and [N] where N tokens are packed into one stream (`attention.py`).
"""

import math
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.batches.layout import Layout, Packed, Padded
from nmt_core.config import ModelConfig
from nmt_core.models.layers import DecoderLayer, Dropout, EncoderLayer, sinusoidal_positions
from nmt_core.models.model import TranslationModel
from nmt_core.tokenizer.tokenizer import PAD_ID


class Transformer(TranslationModel):
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
        super().__init__(config, vocab_size, max_positions, source_vocab_size)
        is_tied = config.tied_embeddings == "three-way"
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

    def embed(self, ids: Tensor, embedding: nn.Embedding, layout: Layout) -> Tensor:
        """Embeddings times sqrt(d_model), plus positions, with dropout (sections 3.4, 3.5 and 5.4): [..., M]."""
        x_M = F.embedding(ids, embedding.weight) * math.sqrt(self.config.d_model)
        place = layout.position_N if isinstance(layout, Packed) else slice(ids.shape[1])
        positions_M = self.positions_LM[place]
        dropped: Tensor = self.dropout(x_M + positions_M)
        return dropped

    def encode(self, source: Tensor, layout: Layout) -> Tensor:
        """Source ids to memory [..., M]."""
        x_M = self.embed(source, self.source_embedding, layout)
        for layer in self.encoder:
            x_M = layer(x_M, layout)
        memory_M: Tensor = self.encoder_norm(x_M)
        return memory_M

    def decode(self, target: Tensor, memory_M: Tensor, source_layout: Layout, target_layout: Layout) -> Tensor:
        """Target ids so far and memory to the decoder's states [..., M]."""
        x_M = self.embed(target, self.target_embedding, target_layout)
        for layer in self.decoder:
            x_M = layer(x_M, memory_M, source_layout, target_layout)
        states_M: Tensor = self.decoder_norm(x_M)
        return states_M

    def forward(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """Source ids and target ids (shifted right: <s> first) to states [..., M].

        `output` turns states into logits; it is left to the caller, who may need few positions only.

        Args:
            source: ids, each sentence ending in </s>.
            target: ids, as many sentences.
            source_layout: how the source lies; None: padded with `PAD_ID`.
            target_layout: how the target lies; None: padded. Padding stands at its end, so the causal mask alone keeps
                it out of sight of real tokens.
        """
        source_layout = source_layout or Padded(source != PAD_ID)
        return self.decode(target, self.encode(source, source_layout), source_layout, target_layout or Padded())

    @property
    def weights_per_token(self) -> tuple[int, int]:
        """As `TranslationModel.weights_per_token`, without those of attention.

        Embeddings are looked up, not multiplied; the output matrix is multiplied, even where it is tied to them.
        """
        encoder, decoder = (
            sum(weight.numel() for weight in layers.parameters()) for layers in (self.encoder, self.decoder)
        )
        read_at_source = sum(
            weight.numel()
            for layer in cast(list[DecoderLayer], self.decoder)
            for weight in layer.cross_attention.key_value.parameters()
        )
        return encoder + read_at_source, decoder - read_at_source + self.vocab_size * self.config.d_model


def count_parameters(model: nn.Module) -> int:
    """Trainable parameters, a tied matrix counted once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
