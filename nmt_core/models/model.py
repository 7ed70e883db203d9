"""What every model is to the trainer, the search and the export, whatever lies inside."""

import torch
from torch import Tensor, nn

from nmt_core.batches.layout import Layout
from nmt_core.config import ModelConfig
from nmt_core.errors import ConfigError


class TranslationModel(nn.Module):
    """An encoder and a decoder over token ids, and the output matrix. `build.py` makes the one that is asked for.

    Args:
        config: of the model.
        vocab_size: pieces of the target's vocabulary, or of both languages'.
        max_positions: longest sequence, in tokens.
        source_vocab_size: pieces of the source's own vocabulary; None if the vocabulary is joint.

    Raises:
        ConfigError: vocabularies of two languages are to share one matrix.
    """

    source_embedding: nn.Embedding
    target_embedding: nn.Embedding
    encoder: nn.ModuleList
    """Layers; each is called as a whole, so that it may be sharded, and computed twice, by itself."""
    decoder: nn.ModuleList
    """The same of the decoder."""
    output: nn.Linear
    """Turns the states that `forward` returns into logits; it has no bias."""
    compiles = True
    """Whether torch.compile makes anything faster of a layer."""

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
        """Where the weights are."""
        return self.output.weight.device

    @property
    def weights_per_token(self) -> tuple[int, int]:
        """Weights that each source token is multiplied with, and each target token."""
        raise NotImplementedError

    def forward(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """Source ids and target ids (shifted right: <s> first) to the states before `output`, [..., M].

        `output` is left to the caller, who may need few positions only.

        Args:
            source: ids, each sentence ending in </s>.
            target: ids, as many sentences.
            source_layout: how the source lies; None: padded with `PAD_ID`.
            target_layout: how the target lies; None: padded.
        """
        raise NotImplementedError
