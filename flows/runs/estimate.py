"""Estimate of the disk space and the memory that a stage needs, by its last artifact or by a rule that is named."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nmt_core.config import ParallelCorpus, PipelineConfig
from nmt_core.errors import ArtifactError, counted
from nmt_core.models.counts import parameters
from nmt_core.store.artifacts import Artifact, Store

_TOY_BYTES_PER_PAIR = 90
_TOKEN_BYTES_PER_TEXT_BYTE = 0.6  # ids as uint16, compressed
_BYTES_PER_WEIGHT = 4
_BYTES_PER_WEIGHT_TO_RESUME = 12  # the weight and Adam's two moments
_BYTES_IN_A_GRAPH = {"fp32": 4.0, "int8": 1.05, "fp16": 2.0}
"""Bytes per weight in the graphs of each precision. For int8, this includes scales and biases."""
_POSITIONS = 2_048  # `nmt_core.export.onnx.MAX_POSITIONS`, which would import torch
_BYTES_OF_GRAPHS = 80_000
"""Bytes of the graphs of one precision without weights."""
_CHECKPOINTS_TO_RESUME = 3  # the maximum at one time: the newest, the one before, and the one being written
_PACKED = {".gz", ".zst", ".xz", ".bz2"}
_UNPACKED = 3  # size of text in relation to its compressed size
_LOOKED_AT = 50  # newest artifacts of a stage: a store may hold thousands


BYTES_PER_PAIR = 120
"""Usual size of a pair of sentences, where the text is not there yet."""
_PROCESS_BYTES = 0.2e9
"""Memory of a process that has imported what the stages of text need."""
_TORCH_BYTES = 0.4e9
"""Memory of a process that has imported torch as well."""
# Measured with SentencePiece 0.2 on 50,000, 200,000 and 600,000 pairs of English and German (6, 24 and 72 MB): 93, 204
# and 441 MiB for byte-pair encoding. A unigram model begins with a suffix array over all text: 1.7 GB for 657,674 pairs
# (79 MB). Both also hold the sample itself.
_TOKENIZER_BYTES_PER_TEXT_BYTE = {"bpe": 7.0, "unigram": 22.0, "char": 2.0, "word": 2.0}
# Raw, normalised, keys and measures of the shard that a worker holds: 517 MiB for 250,000 pairs of 94 bytes.
_CLEAN_BYTES_PER_TEXT_BYTE = 23.0
_BYTES_PER_WEIGHT_IN_TRAINING = 16  # the weight, its gradient and Adam's two moments
_BYTES_PER_WEIGHT_IN_EXPORT = 12  # the model, its graph, and the copy that is checked


@dataclass(frozen=True)
class Estimate:
    """Size in bytes, with the basis of the number."""

    bytes: float | None
    basis: str


def estimate(stage: str, config: PipelineConfig, store: Store, text: float | None = None) -> Estimate:
    """Estimate the disk space that a stage needs while it runs. Training needs less when it has finished.

    `text` is the expected size of the text in bytes, for text that is not on this machine.
    """
    former = [artifact for artifact in store.newest(stage, _LOOKED_AT) if _recipe_of(artifact) == config.name]
    if former and stage != "train":
        return Estimate(former[0].manifest().size, f"as {former[0].short}")
    weights = _weights(config)
    text, samples = text_bytes(config) or text, config.encode.samples
    rules: dict[str, tuple[float | None, str]] = {
        "train": _of_training(weights, config),
        "average": (weights * _BYTES_PER_WEIGHT, f"{weights:,} weights x 4 bytes"),
        "export": _of_export(weights, config),
        "tokenizer": (config.tokenizer.vocab_size * 30, "pieces x 30 bytes"),
        "encode": (text and text * _TOKEN_BYTES_PER_TEXT_BYTE * samples, f"0.6 x text x {samples}"),
        "evaluate": (1e6, "reports and translations of the test sets"),
    }
    size, basis = rules.get(stage, (text, "as large as the text"))
    return Estimate(size, basis) if size else Estimate(None, "known when the text is downloaded")


def memory(stage: str, config: PipelineConfig, workers: int, text: float | None = None) -> Estimate:
    """Estimate the memory that a stage needs at its peak, on a machine where `workers` of its processes run.

    Training on a GPU needs its own memory besides. Activations are not included. `text` is the expected size of the
    text in bytes, for text that is not on this machine.
    """
    weights = _weights(config)
    if stage == "tokenizer":
        return _memory_of_tokenizer(config, text_bytes(config) or text)
    if stage in ("clean", "split", "encode"):
        shard = config.clean.shard_pairs * BYTES_PER_PAIR
        if text:  # of a small text, few workers have a shard, and none a large one
            workers, shard = min(workers, math.ceil(text / shard)), round(min(text, shard))
        factor = _CLEAN_BYTES_PER_TEXT_BYTE if stage == "clean" else _CLEAN_BYTES_PER_TEXT_BYTE / 2
        size = workers * (_PROCESS_BYTES + shard * factor)
        return Estimate(size, f"{counted(workers, 'worker')}, {config.clean.shard_pairs:,} pairs each")
    if stage == "train":
        size = _TORCH_BYTES + weights * _BYTES_PER_WEIGHT_IN_TRAINING
        return Estimate(size, f"{weights:,} weights x {_BYTES_PER_WEIGHT_IN_TRAINING} bytes, without activations")
    if stage in ("average", "export", "evaluate"):
        size = _TORCH_BYTES + weights * _BYTES_PER_WEIGHT_IN_EXPORT
        return Estimate(size, f"{weights:,} weights x {_BYTES_PER_WEIGHT_IN_EXPORT} bytes")
    return Estimate(_PROCESS_BYTES, "files are streamed")


def _memory_of_tokenizer(config: PipelineConfig, text: float | None) -> Estimate:
    """Return the peak of SentencePiece, which holds its whole sample and its statistics."""
    tokenizer = config.tokenizer
    if tokenizer.start_from and not tokenizer.added_pieces:
        return Estimate(_PROCESS_BYTES, "the vocabulary exists")
    most = tokenizer.pairs_to_sample * BYTES_PER_PAIR
    sample = most if text is None else min(text, most)
    bytes_per_byte = [_TOKENIZER_BYTES_PER_TEXT_BYTE[kind] for kind in tokenizer.kinds]
    # With two vocabularies, each is learned from one side: half of the text. The whole sample is held meanwhile.
    factor = max(bytes_per_byte) if tokenizer.vocabularies == "joint" else 1 + max(bytes_per_byte) / 2
    known = "" if text is not None else "at most, "
    rule = f"{known}{sample / BYTES_PER_PAIR:,.0f} pairs x {BYTES_PER_PAIR} bytes x {factor:g} ({tokenizer.kind})"
    return Estimate(_PROCESS_BYTES + sample * factor, rule)


def _weights(config: PipelineConfig) -> int:
    """Return the number of weights of a recipe's model."""
    tokenizer = config.tokenizer
    of_source = tokenizer.vocab_size if tokenizer.vocabularies == "separate" else 0
    return parameters(config.model, tokenizer.target_vocab_size or tokenizer.vocab_size, of_source)


def _recipe_of(artifact: Artifact) -> str:
    with suppress(ArtifactError):  # a damaged artifact
        return artifact.manifest().recipe
    return ""


def _of_training(weights: int, config: PipelineConfig) -> tuple[float, str]:
    """Return the peak size of training. When it has finished, only one checkpoint to resume from is left."""
    average = _BYTES_PER_WEIGHT if config.train.ema_decay else 0
    to_resume = _BYTES_PER_WEIGHT_TO_RESUME + average
    kept = config.train.keep_checkpoints + config.train.keep_best + 1
    size = weights * (_CHECKPOINTS_TO_RESUME * to_resume + _BYTES_PER_WEIGHT * kept + average)
    rule = f"{to_resume} bytes x {_CHECKPOINTS_TO_RESUME} + 4 bytes x {kept}"
    return size, f"peak: {weights:,} weights x ({rule})"


def _of_export(weights: int, config: PipelineConfig) -> tuple[float, str]:
    """Return the size of the graphs of each precision, with position tables and the matrix that preselects tokens."""
    model, tokenizer = config.model, config.tokenizer
    precisions = sorted({"fp32", *config.export.precisions})
    has_table = model.architecture != "rnn" and model.positions == "sinusoidal"
    table = _BYTES_PER_WEIGHT * _POSITIONS * model.d_model * has_table
    screen = (tokenizer.target_vocab_size or tokenizer.vocab_size) * model.d_model * ("fp32" in precisions)
    bytes_per_weight = sum(_BYTES_IN_A_GRAPH[precision] for precision in precisions)
    size = weights * bytes_per_weight + len(precisions) * (table + _BYTES_OF_GRAPHS) + screen
    return size, f"{weights:,} weights x {bytes_per_weight:g} bytes ({', '.join(precisions)}) and tables"


def text_bytes(config: PipelineConfig, *, stored: bool = False) -> float | None:
    """Return the size of all text, or None if it cannot be known without a download.

    With `stored`, this is the size of the files. Otherwise, it is about the size of the text in them.
    """
    if config.corpus.toy:
        return config.corpus.toy.pairs * _TOY_BYTES_PER_PAIR
    parallel = bytes_of([*config.corpus.train, *config.corpus.dev, *config.corpus.test], stored=stored)
    alone = _bytes_at([text.address for text in config.corpus.monolingual], stored=stored)
    return None if parallel is None or alone is None else parallel + alone


def bytes_of(corpora: Sequence[ParallelCorpus], *, stored: bool = False) -> float | None:
    """Return the size of the text of some corpora, or None if a file of them is not on this machine."""
    places = [place for one in corpora for place in ((one.source, one.target) if one.source else (one.address,))]
    return _bytes_at(places, stored=stored)


def _bytes_at(places: Sequence[str], *, stored: bool) -> float | None:
    paths = [Path(place) for place in places]
    if not all(path.is_file() for path in paths):
        return None
    return sum(path.stat().st_size * (_UNPACKED if path.suffix in _PACKED and not stored else 1) for path in paths)
