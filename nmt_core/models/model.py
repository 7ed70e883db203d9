"""Interface of every model for the trainer, the search and the export."""

from typing import Protocol

import torch
from torch import Tensor, nn

from nmt_core.batches.layout import Layout
from nmt_core.config import ModelConfig
from nmt_core.errors import ConfigError


class LearnedAttention(Protocol):
    """Attention to the source, as one pass of a model computed it, that learns word alignments."""

    def log_weights(self) -> Tensor:
        """Return the logarithm of the weight of each source position, fp32 [B, H, T, S]."""

    def targets(self, aligned: Tensor) -> Tensor:
        """Return `Batch.aligned`, padded or packed, as [B, T], with -1 at places outside of a sentence."""


class TranslationModel(nn.Module):
    """Encoder and decoder over token ids, and the output matrix. `build.py` builds one from a configuration.

    Args:
        config: configuration of the model.
        vocab_size: number of pieces of the target vocabulary, or of the joint one.
        max_positions: longest sequence, in tokens.
        source_vocab_size: number of pieces of the source's own vocabulary. None means that the vocabulary is joint.

    Raises:
        ConfigError: two vocabularies would have to share one matrix.
    """

    source_embedding: nn.Embedding
    target_embedding: nn.Embedding
    encoder: nn.ModuleList
    """Layers of the encoder. Each is called as a whole, so that it can be sharded or recomputed by itself."""
    decoder: nn.ModuleList
    """Layers of the decoder. Each is called as a whole, so that it can be sharded or recomputed by itself."""
    output: nn.Linear
    """Output matrix, with a bias if `model.output_bias`. It maps the states that `forward` returns to logits."""
    compiles = True
    """True if torch.compile makes a layer faster."""

    def __init__(
        self, config: ModelConfig, vocab_size: int, max_positions: int, source_vocab_size: int | None = None
    ) -> None:
        super().__init__()
        if config.tied_embeddings == "three_way" and source_vocab_size:
            raise ConfigError(
                "model.tied_embeddings=three_way needs a joint vocabulary: set it to two_way, or set "
                "tokenizer.vocabularies to joint"
            )
        self.config = config
        self.vocab_size = vocab_size
        self.max_positions = max_positions
        self.source_vocab_size = source_vocab_size

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.output.weight.device

    @property
    def weights_per_token(self) -> tuple[int, int]:
        """Number of weights that multiply each source token, and number of weights that multiply each target token."""
        raise NotImplementedError

    def forward(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """Return the states before `output`, [..., M], for source ids and target ids.

        `output` is left to the caller, which may need few positions only.

        Args:
            source: ids, each sentence with </s> at the end.
            target: ids of equally many sentences, shifted right, with <s> first.
            source_layout: layout of the source. None means padded with `PAD_ID`.
            target_layout: layout of the target. None means padded.
        """
        raise NotImplementedError

    def forward_with_attention(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> tuple[Tensor, LearnedAttention]:
        """Return the states of `forward`, and the attention that learns word alignments.

        Raises:
            ConfigError: this kind of model has no attention that can learn them.
        """
        raise ConfigError(
            f"model.alignment_layer={self.config.alignment_layer}: a {type(self).__name__} has no attention that can "
            "learn word alignments: set alignment_layer to 0, or model.architecture to transformer"
        )
