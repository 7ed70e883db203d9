"""How much disk a stage will need: measured on its last artifact, or by a rule of thumb that is named."""

from dataclasses import dataclass
from pathlib import Path

from nmt_core.artifacts import Store
from nmt_core.config import ModelConfig, PipelineConfig

_TOY_BYTES_PER_PAIR = 90
_TOKEN_BYTES_PER_TEXT_BYTE = 0.6  # ids as uint16, compressed
_BYTES_PER_WEIGHT = 4
_BYTES_PER_WEIGHT_TO_RESUME = 12  # itself and Adam's two moments
_CHECKPOINTS_TO_RESUME = 3  # at most at a time: the newest, the one before, and the one that is being written


@dataclass(frozen=True)
class Estimate:
    """Bytes, and where the number comes from."""

    bytes: float | None
    basis: str


def parameters(model: ModelConfig, vocab_size: int) -> int:
    """Weights of a model, without building it; the vocabulary is joint."""
    return (_of_recurrent if model.architecture == "rnn" else _of_transformer)(model, vocab_size)


def _of_transformer(model: ModelConfig, vocab_size: int) -> int:
    d, ff = model.d_model, model.d_ff
    attention, feed_forward, norm = 4 * d * d, 2 * d * ff + ff + d, 2 * d
    encoder = model.encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = model.decoder_layers * (2 * attention + feed_forward + 3 * norm)
    matrices = {"three-way": 1, "two-way": 2, "none": 3}[model.tied_embeddings]
    last_norms = 2 * norm if model.norm == "pre" else 0
    return encoder + decoder + last_norms + matrices * vocab_size * d


def _of_recurrent(model: ModelConfig, vocab_size: int) -> int:
    rnn, word, hidden = model.rnn, model.d_model, model.rnn.hidden_size
    gates = {"gru": 3, "lstm": 4}[rnn.cell] * hidden
    directions = 2 if rnn.bidirectional else 1
    annotation = directions * hidden
    encoder = sum(
        directions * gates * ((annotation if number else word) + 1 + hidden) for number in range(model.encoder_layers)
    )
    decoder = sum(gates * ((hidden if number else word) + 1 + hidden) for number in range(model.decoder_layers))
    if rnn.attention == "dot":
        decoder += 2 * hidden * hidden
    elif not rnn.hands_over_states:
        context = hidden if rnn.attention == "none" else annotation
        decoder += gates * context + 2 * rnn.maxout_size * (hidden + 1 + word + context)
        first = hidden * (hidden + 1)
        if rnn.attention == "none":
            decoder += hidden * (annotation + 1) + model.decoder_layers * first
        else:
            decoder += first + rnn.alignment_size * (hidden + annotation + 2)
    matrices = {"three-way": 1, "two-way": 2, "none": 2}[model.tied_embeddings]
    output = vocab_size * rnn.state_size if model.tied_embeddings == "none" else 0
    return encoder + decoder + matrices * vocab_size * word + output


def estimate(stage: str, config: PipelineConfig, store: Store) -> Estimate:
    """Disk that a new artifact of the stage will take."""
    former = [artifact for artifact in store.all(stage) if artifact.manifest().recipe == config.name]
    if former:
        return Estimate(former[0].manifest().size, f"as {former[0].short}")
    weights = parameters(config.model, config.tokenizer.vocab_size)
    text = _text_bytes(config)
    rules: dict[str, tuple[float | None, str]] = {
        "train": _of_training(weights, config),
        "average": (weights * _BYTES_PER_WEIGHT, f"{weights:,} weights x 4 bytes"),
        "export": (weights * _BYTES_PER_WEIGHT * 1.2, f"{weights:,} weights x 4 bytes, some in both graphs"),
        "tokenizer": (config.tokenizer.vocab_size * 30, "pieces x 30 bytes"),
        "encode": (text and text * _TOKEN_BYTES_PER_TEXT_BYTE, "0.6 x text"),
        "evaluate": (1e6, "reports and translations of the test sets"),
    }
    size, basis = rules.get(stage, (text, "as large as the text"))
    return Estimate(size, basis) if size else Estimate(None, "known when the text is here")


def _of_training(weights: int, config: PipelineConfig) -> tuple[float, str]:
    """Most that training takes while it runs; when it has ended, one checkpoint to resume from is left."""
    average = _BYTES_PER_WEIGHT if config.train.ema_decay else 0
    to_resume = _BYTES_PER_WEIGHT_TO_RESUME + average
    kept = config.train.keep_checkpoints + config.train.keep_best + 1
    size = weights * (_CHECKPOINTS_TO_RESUME * to_resume + _BYTES_PER_WEIGHT * kept + average)
    rule = f"{to_resume} bytes x {_CHECKPOINTS_TO_RESUME} + 4 bytes x {kept}"
    return size, f"while it runs: {weights:,} weights x ({rule})"


def _text_bytes(config: PipelineConfig) -> float | None:
    """Size of all text, if it can be known without a network."""
    if config.corpus.toy:
        return config.corpus.toy.pairs * _TOY_BYTES_PER_PAIR
    files = [*config.corpus.train, *config.corpus.dev, *config.corpus.test]
    paths = [Path(place) for pair in files for place in (pair.source, pair.target)]
    if not all(path.is_file() for path in paths):
        return None
    packed = {".gz", ".zst"}
    return sum(path.stat().st_size * (3 if path.suffix in packed else 1) for path in paths)
