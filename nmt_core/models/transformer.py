"""The Transformer (Vaswani et al. 2017).

Letters: see `nmt_core.models`.
"""

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.batches.layout import Layout, Packed, Padded, Rows
from nmt_core.config import ModelConfig
from nmt_core.errors import ConfigError
from nmt_core.models.attention import attention_scores
from nmt_core.models.layers import DecoderLayer, Dropout, EncoderLayer, residual_dtype, sinusoidal_positions
from nmt_core.models.model import TranslationModel
from nmt_core.tokenizer.tokenizer import PAD_ID


@dataclass(frozen=True)
class AligningAttention:
    """Attention to the source in the heads that learn alignments."""

    q_HD: Tensor
    """Queries, [..., H, D]."""
    k_HD: Tensor
    """Keys, [..., H, D]."""
    source_layout: Layout
    target_layout: Layout

    def log_weights(self) -> Tensor:
        """Return the logarithm of the weight of each source position, fp32 [B, H, T, S]."""
        q_BTHD, _ = _unpacked(self.q_HD, self.target_layout)
        k_BSHD, source = _unpacked(self.k_HD, self.source_layout)
        scores_BHTS = attention_scores(q_BTHD.float().transpose(1, 2), k_BSHD.float().transpose(1, 2))
        if source.is_token_BL is not None:
            scores_BHTS = scores_BHTS.masked_fill(~source.is_token_BL[:, None, None], float("-inf"))
        return scores_BHTS.log_softmax(-1)

    def targets(self, aligned: Tensor) -> Tensor:
        """Return `Batch.aligned`, padded or packed, as [B, T], with -1 at places outside of a sentence."""
        if not isinstance(self.target_layout, Packed):
            return aligned
        aligned_BT, target = self.target_layout.unpack(aligned)
        assert target.is_token_BL is not None
        return aligned_BT.masked_fill(~target.is_token_BL, -1)


class Transformer(TranslationModel):
    """Transformer: encoder and decoder over token ids.

    Args:
        config: sizes, dropout, place of the norms, ties of the embeddings.
        vocab_size: number of pieces of the target vocabulary, or of the joint one.
        max_positions: longest sequence, in tokens, if positions are computed. It adds no parameters. The number of
            learned positions is in `config`.
        source_vocab_size: number of pieces of the source's own vocabulary. None means that the vocabulary is joint.

    Raises:
        ConfigError: two vocabularies would have to share one matrix.
    """

    positions_LM: Tensor
    """Vector of each position. Rotary positions are as wide as the keys of one head, [L, D]."""

    def __init__(
        self, config: ModelConfig, vocab_size: int, max_positions: int = 1_024, source_vocab_size: int | None = None
    ) -> None:
        max_positions = config.max_positions if config.positions == "learned" else max_positions
        super().__init__(config, vocab_size, max_positions, source_vocab_size)
        is_tied = config.tied_embeddings == "three_way"
        self.turns = config.positions == "rotary"
        """True if positions are rotary: they turn queries and keys, and nothing is added to the embeddings."""
        self.target_embedding = nn.Embedding(vocab_size, config.d_model)
        self.source_embedding = (
            self.target_embedding if is_tied else nn.Embedding(source_vocab_size or vocab_size, config.d_model)
        )
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        # Post-norm layers end in a norm; a pre-norm stack needs one of its own.
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(config.d_model, eps=config.layer_norm_eps) if config.norm == "pre" else nn.Identity()
            for _ in range(2)
        )
        self.output = nn.Linear(config.d_model, vocab_size, bias=config.output_bias)
        if config.tied_embeddings != "none":
            self.output.weight = self.target_embedding.weight
        self.dropout = Dropout(config.dropout)
        if config.positions == "learned":
            self.positions_LM = nn.Parameter(torch.empty(config.max_positions, config.d_model))
        else:
            width = config.d_model if config.positions == "sinusoidal" else config.head_widths[0]
            self.register_buffer("positions_LM", sinusoidal_positions(max_positions, width), persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        """Draw the weights.

        Matrices are Xavier uniform. Embeddings, which are scaled up by sqrt(d_model), have a deviation of d_model^-0.5.
        Learned positions, which are not scaled, have a deviation of 0.1, as in Gehring et al. (2017, section 3.5), to
        whom Vaswani et al. (2017) refer.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        # A dict, not a set, for its order: the same seed must give the same weights.
        for embedding in dict.fromkeys((self.source_embedding, self.target_embedding)):
            nn.init.normal_(embedding.weight, std=self.config.d_model**-0.5)
        if self.config.positions == "learned":
            nn.init.normal_(self.positions_LM, std=0.1)

    def embed(self, ids: Tensor, embedding: nn.Embedding, layout: Layout) -> Tensor:
        """Return the embeddings times sqrt(d_model), with dropout, [..., M].

        Positions are added unless they are rotary (Vaswani et al. 2017, sections 3.4, 3.5 and 5.4).

        Raises:
            ConfigError: a sequence is longer than there are positions.
        """
        longest = ids.shape[1] if isinstance(layout, Padded) else layout.longest
        if longest > len(self.positions_LM):
            raise ConfigError(
                f"a sequence has {longest:,} tokens, and the model {len(self.positions_LM):,} positions: lower "
                "encode.max_length, or raise model.max_positions if they are learned"
            )
        x_M = F.embedding(ids, embedding.weight) * math.sqrt(self.config.d_model)
        if not self.turns:
            x_M = x_M + self._positions(ids, layout)
        dropped: Tensor = self.dropout(x_M)
        return dropped.to(residual_dtype(ids.device))

    def _positions(self, ids: Tensor, layout: Layout) -> Tensor:
        """Return the vector of each token's position: [N, M], or [L, M] for all sentences."""
        place = slice(ids.shape[1]) if isinstance(layout, Padded) else layout.position_N
        return self.positions_LM[place]

    def encode(self, source: Tensor, layout: Layout) -> Tensor:
        """Return the memory [..., M] of source ids."""
        x_M = self.embed(source, self.source_embedding, layout)
        turns_D = self._positions(source, layout) if self.turns else None
        for layer in self.encoder:
            x_M = layer(x_M, layout, turns_D)
        memory_M: Tensor = self.encoder_norm(x_M)
        return memory_M

    def decode(self, target: Tensor, memory_M: Tensor, source_layout: Layout, target_layout: Layout) -> Tensor:
        """Return the decoder's states [..., M] for the target ids so far and the memory."""
        return self._decode(target, memory_M, source_layout, target_layout, 0)[0]

    def _decode(
        self, target: Tensor, memory_M: Tensor, source_layout: Layout, target_layout: Layout, aligning_heads: int
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """Return the decoder's states, and queries and keys of the aligning heads if their number is not 0."""
        x_M = self.embed(target, self.target_embedding, target_layout)
        turns_D = self._positions(target, target_layout) if self.turns else None
        attention = None
        for number, layer in enumerate(self.decoder, start=1):
            if aligning_heads and number == self.config.alignment_layer:
                x_M, q_HD, k_HD = layer(x_M, memory_M, source_layout, target_layout, turns_D, aligning_heads)
                attention = q_HD, k_HD
            else:
                x_M = layer(x_M, memory_M, source_layout, target_layout, turns_D)
        states_M: Tensor = self.decoder_norm(x_M)
        return states_M, attention

    def forward(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """Return the decoder's states [..., M] for source ids and target ids.

        `output` maps states to logits. It is left to the caller, which may need few positions only.

        Args:
            source: ids, each sentence with </s> at the end.
            target: ids of equally many sentences, shifted right, with <s> first.
            source_layout: layout of the source. None means padded with `PAD_ID`.
            target_layout: layout of the target. None means padded. Padding follows the tokens, so the causal mask alone
                hides it from real tokens.
        """
        states_M, _ = self._states(source, target, source_layout, target_layout, 0)
        return states_M

    def forward_with_attention(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> tuple[Tensor, "AligningAttention"]:
        """Return the states of `forward`, and the attention that learns alignments. Needs `model.alignment_layer`."""
        heads = self.config.alignment_heads
        states_M, attention = self._states(source, target, source_layout, target_layout, heads)
        assert attention
        return states_M, attention

    def _states(
        self,
        source: Tensor,
        target: Tensor,
        source_layout: Layout | None,
        target_layout: Layout | None,
        aligning_heads: int,
    ) -> tuple[Tensor, "AligningAttention | None"]:
        source_layout, target_layout = source_layout or Padded(source != PAD_ID), target_layout or Padded()
        is_in_rows = _is_compiled_by_rows(source.device)
        if is_in_rows:
            source, source_layout = _in_rows(source, source_layout)
            target, target_layout = _in_rows(target, target_layout)
        memory_M = self.encode(source, source_layout)
        states_M, attention = self._decode(target, memory_M, source_layout, target_layout, aligning_heads)
        if is_in_rows and isinstance(target_layout, Rows):
            states_M = target_layout.unpack(states_M)[0]
        return states_M, AligningAttention(*attention, source_layout, target_layout) if attention else None

    @property
    def recurrent_layers(self) -> int:
        """Number of decoder layers with a recurrent unit in place of self-attention: all of them, or none."""
        return len(self.decoder) if self.config.decoder_autoregression == "ssru" else 0

    @property
    def weights_per_token(self) -> tuple[int, int]:
        """Number of weights that multiply each source token, and number of weights that multiply each target token.

        Products of queries, keys and values with one another are not counted. Embeddings are looked up, not multiplied.
        The output matrix is multiplied, even where it is tied to them.
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


def _unpacked(x: Tensor, layout: Layout) -> tuple[Tensor, Padded]:
    """Return a tensor [..., ] with one sentence a row, [B, L, ...], and its layout."""
    return (x, layout) if isinstance(layout, Padded) else layout.unpack(x)


def _is_compiled_by_rows(device: torch.device) -> bool:
    """Return True on a CPU in half precision, where `Rows` keeps the number of sizes to compile for small."""
    return device.type == "cpu" and torch.is_autocast_enabled("cpu")


def _in_rows(ids: Tensor, layout: Layout) -> tuple[Tensor, Layout]:
    """Return padded ids in the layout `Rows`. Ids in another layout are returned unchanged."""
    if not isinstance(layout, Padded):
        return ids, layout
    rows = Rows.of(layout, *ids.shape)
    return rows.pack(ids), rows


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters. A tied matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
