"""Effort of a stage: a number in proportion to which its time grows, for forecasts from runs of other sizes.

The effort of training, search and the other stages with a model is counted in weights that are multiplied once, forward
and backward. Operations between matrix products, such as norms, dropout and softmax, take time in proportion to
numbers and not to weights. They count as as many weights as a device multiplies in the time of one such operation.
"""

import math
from collections.abc import Callable

from flows.runs.sizes import Sizes
from nmt_core.config import ModelConfig, PipelineConfig
from nmt_core.models.counts import weights_per_token

# For CPUs an estimate. For GPUs from Transformer base and big on an H200: 753,935 and 336,788 target tokens per second.
_WEIGHTS_PER_NUMBER = {"cpu": 16, "gpu": 200}
_NUMBERS_OF_ENCODER, _NUMBERS_OF_DECODER = 30, 45  # passes over the states of one layer, forward and backward
_NUMBERS_OF_FEED_FORWARD = 6
_NUMBERS_OF_OUTPUT = 5
_SHARE_OF_FORWARD = 1 / 3
_EFFORT_OF_SEARCH = 3
"""Effort of one token of a search in relation to a token of a training: one row in place of thousands."""
_EFFORT_OF_PYTORCH = 3
"""Effort of a translation by PyTorch in relation to one by ONNX Runtime."""
_EFFORT_OF_READING = 0.02  # of a pair, relative to one change of it
_EFFORT_OF_WEIGHT_WRITTEN = 270
"""Effort of one weight in a checkpoint, with its two moments."""


def effort(stage: str, config: PipelineConfig, sizes: Sizes, device: str = "cpu") -> float | None:
    """Return the effort of a stage, or None if a size that decides it is not known.

    Args:
        stage: name of the stage.
        config: the recipe.
        sizes: sizes of its text and model.
        device: `cpu` or `gpu`, which trains.
    """
    count = _EFFORTS.get(stage)
    return count(config, sizes, device) if count else 1.0


def update_effort(config: PipelineConfig, sizes: Sizes, device: str) -> float:
    """Return the effort of one update of the weights."""
    tokens: float = config.train.max_tokens
    if sizes.target_tokens:  # an update reads an epoch at most
        tokens = min(tokens, max(sizes.target_tokens, sizes.source_tokens or 0))
    return tokens * sum(per_token(config.model, _vocab(config, sizes), device))


def per_token(model: ModelConfig, vocab: float, device: str) -> tuple[float, float]:
    """Return the effort of a source token and of a target token in training."""
    at_source, at_target = weights_per_token(model, round(vocab))
    width = model.rnn.hidden_size if model.architecture == "rnn" else model.d_model
    inner = _NUMBERS_OF_FEED_FORWARD * (0 if model.architecture == "rnn" else model.d_ff)
    weights_per_number = _WEIGHTS_PER_NUMBER[device]
    encoder = model.encoder_layers * (_NUMBERS_OF_ENCODER * width + inner)
    decoder = model.decoder_layers * (_NUMBERS_OF_DECODER * width + inner) + _NUMBERS_OF_OUTPUT * vocab
    return at_source + weights_per_number * encoder, at_target + weights_per_number * decoder


def _vocab(config: PipelineConfig, sizes: Sizes) -> float:
    tokenizer = config.tokenizer
    return sizes.target_vocab or tokenizer.target_vocab_size or tokenizer.vocab_size


def _of_training(config: PipelineConfig, sizes: Sizes, device: str) -> float:
    """Return the effort of updates, validations and checkpoints."""
    train, updates = config.train, sizes.updates or config.train.max_updates
    at_source, at_target = per_token(config.model, _vocab(config, sizes), device)
    length, dev = sizes.tokens_per_pair, sizes.dev_pairs or 0
    validation = dev * length * (at_source + at_target) * _SHARE_OF_FORWARD
    translated = min(dev, train.dev_sentences) * length * at_target * _EFFORT_OF_SEARCH * train.dev_beam_size
    checkpoint = (sizes.weights or 0) * _EFFORT_OF_WEIGHT_WRITTEN
    return (
        updates * update_effort(config, sizes, device)
        + updates // train.validate_every * (validation + translated)
        + (updates // train.checkpoint_every + 1) * checkpoint
    )


def _of_average(config: PipelineConfig, sizes: Sizes, device: str) -> float:
    """Return the effort of the dev losses of all kept checkpoints and of their average."""
    train, updates = config.train, sizes.updates or config.train.max_updates
    kept = min(train.keep_checkpoints + train.keep_best, math.ceil(updates / train.checkpoint_every)) + 1
    at_both = sum(per_token(config.model, _vocab(config, sizes), "cpu"))
    return kept * (sizes.dev_pairs or 0) * sizes.tokens_per_pair * at_both * _SHARE_OF_FORWARD


def _of_export(config: PipelineConfig, sizes: Sizes, device: str) -> float:
    """Return the effort of graphs and of the translations that compare them."""
    export, dev = config.export, sizes.dev_pairs or 0
    kinds = len({"fp32", *export.precisions}) * (1 + export.shortlist)
    compared = kinds * min(dev, export.quality_sentences)
    in_pytorch = 2 * min(dev, export.parity_sentences) + min(dev, export.calibration_sentences)
    return (compared + _EFFORT_OF_PYTORCH * in_pytorch) * _of_sentence(config, sizes, export.parity_beam_size)


def _of_evaluation(config: PipelineConfig, sizes: Sizes, device: str) -> float | None:
    return sizes.test_pairs and sizes.test_pairs * _of_sentence(config, sizes, config.search.beam_size)


def _of_sentence(config: PipelineConfig, sizes: Sizes, beam: int) -> float:
    """Return the effort of the translation of one sentence."""
    at_source, at_target = per_token(config.model, _vocab(config, sizes), "cpu")
    output = (sizes.output_length or sizes.tokens_per_pair) * at_target * _EFFORT_OF_SEARCH * beam
    return (sizes.tokens_per_pair * at_source + output) * _SHARE_OF_FORWARD


def _of_augmentation(config: PipelineConfig, sizes: Sizes, device: str) -> float | None:
    """Return the effort of reading all pairs for each part, and of changing some."""
    parts = config.augmentation.parts
    return sizes.train_pairs and sizes.train_pairs * sum(
        _EFFORT_OF_READING + part.share * len(part.changes) for part in parts
    )


def _of_tokenizer(config: PipelineConfig, sizes: Sizes, device: str) -> float | None:
    if config.tokenizer.start_from and not config.tokenizer.added_pieces:
        return 1.0
    return sizes.train_pairs and min(sizes.train_pairs, config.tokenizer.pairs_to_sample)


_EFFORTS: dict[str, Callable[[PipelineConfig, Sizes, str], float | None]] = {
    "download": lambda config, sizes, device: sizes.text_bytes,
    "clean": lambda config, sizes, device: sizes.pairs,
    "split": lambda config, sizes, device: sizes.clean_pairs,
    "augment": _of_augmentation,
    "tokenizer": _of_tokenizer,
    "encode": lambda config, sizes, device: (
        sizes.train_pairs and sizes.train_pairs * config.encode.samples * sizes.tokens_per_pair
    ),
    "train": _of_training,
    "average": _of_average,
    "export": _of_export,
    "evaluate": _of_evaluation,
}
"""Effort of each stage. Registration has none: its time hardly depends on anything."""


def kind(stage: str, config: PipelineConfig) -> tuple[object, ...]:
    """Return what must be equal in two recipes for the effort of a stage to compare well."""
    corpus = config.corpus
    places = [one.source or one.address for one in (*corpus.train, *corpus.dev, *corpus.test)]
    is_remote = any("://" in place or place.startswith(("opus:", "mtdata:", "sacrebleu:", "hf:")) for place in places)
    kinds: dict[str, tuple[object, ...]] = {
        "download": ("toy",) if corpus.toy else ("remote" if is_remote else "local",),
        "clean": (config.clean.model_dump_json(exclude={"overrides", "shard_pairs", "in_domain"}), config.languages),
        "synthesise": (config.synthesis.model_dump_json(),),
        "tokenizer": (config.tokenizer.kind, config.tokenizer.vocabularies, bool(config.tokenizer.start_from)),
        "encode": (config.tokenizer.kind, config.tokenizer.pretokenize_source, config.tokenizer.pretokenize_target),
        "train": (config.model.architecture, config.train.batching, config.train.precision),
        "export": (config.model.architecture, tuple(config.export.precisions), config.export.shortlist),
    }
    return kinds.get(stage, (config.model.architecture,))
