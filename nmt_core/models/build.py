"""Build a model from its configuration."""

from nmt_core.config import ModelConfig
from nmt_core.models.model import TranslationModel
from nmt_core.models.recurrent.attention import GlobalAttentionModel, SearchModel
from nmt_core.models.recurrent.fixed_context import FixedContextModel
from nmt_core.models.recurrent.model import RecurrentModel
from nmt_core.models.transformer import Transformer

_RECURRENT: dict[str, type[RecurrentModel]] = {
    "none": FixedContextModel,
    "additive": SearchModel,
    "dot": GlobalAttentionModel,
    "general": GlobalAttentionModel,
    "concat": GlobalAttentionModel,
}


def build_model(
    config: ModelConfig, vocab_size: int, max_positions: int = 1_024, source_vocab_size: int | None = None
) -> TranslationModel:
    """Return a model with random weights.

    Args:
        config: architecture and sizes.
        vocab_size: number of pieces of the target vocabulary, or of the joint one.
        max_positions: longest sequence, in tokens. It adds no parameters.
        source_vocab_size: number of pieces of the source's own vocabulary. None means that the vocabulary is joint.

    Raises:
        ConfigError: two vocabularies would have to share one matrix.
    """
    kind = _RECURRENT[config.rnn.attention] if config.architecture == "rnn" else Transformer
    return kind(config, vocab_size, max_positions, source_vocab_size)
