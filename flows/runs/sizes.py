"""Sizes of the text and the model of a run, which decide how long its stages take."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, ConfigDict

from flows.runs.estimate import BYTES_PER_PAIR, bytes_of, text_bytes
from nmt_core.config import PipelineConfig
from nmt_core.models.counts import parameters

_SHARE_KEPT = 0.9
"""Usual share of pairs that cleaning keeps."""
_TOKENS_PER_SENTENCE = {"bpe": 22.0, "unigram": 22.0, "char": 90.0, "word": 18.0}
"""Usual number of tokens of a sentence by the kind of the pieces."""
_HELD_OUT_PAIRS = 1_000.0
"""Usual size of a dev or test set that is not there yet."""


class Sizes(BaseModel):
    """Sizes of one run. None means that a size is not known."""

    model_config = ConfigDict(frozen=True)
    text_bytes: float | None = None
    """Size of the files of text as they are downloaded."""
    pairs: float | None = None
    """Number of pairs that `clean` reads."""
    clean_pairs: float | None = None
    train_pairs: float | None = None
    dev_pairs: float | None = None
    test_pairs: float | None = None
    encoded_pairs: float | None = None
    """Number of pairs that `encode` writes. Each segmentation of a pair counts."""
    source_tokens: float | None = None
    target_tokens: float | None = None
    source_vocab: float | None = None
    target_vocab: float | None = None
    weights: float | None = None
    """Number of weights of the model."""
    updates: float | None = None
    trained_tokens: float | None = None
    """Number of target tokens of all updates."""
    output_length: float | None = None
    """Mean number of tokens of a translation. An untrained model writes up to the limit."""
    tokens_per_second: float | None = None
    """Target tokens per second in training, without validations and checkpoints."""
    is_resumed: bool | None = None
    """True if the training has earlier attempts or continues another one: this run made only a part of it."""

    def with_report(self, stage: str, report: Mapping[str, Any]) -> "Sizes":
        """Return these sizes with those that a stage reports."""
        read = _REPORTED.get(stage)
        with suppress(KeyError):  # a report of another version
            return self.model_copy(update=read(report)) if read else self
        return self

    @property
    def tokens_per_pair(self) -> float:
        """Mean number of tokens of one side of a pair."""
        both = (self.source_tokens or 0) + (self.target_tokens or 0)
        return both / 2 / self.encoded_pairs if both and self.encoded_pairs else _TOKENS_PER_SENTENCE["bpe"]


_REPORTED: dict[str, Callable[[Mapping[str, Any]], dict[str, float]]] = {
    "download": lambda report: {"text_bytes": report["bytes"]},
    "clean": lambda report: {"pairs": report["items_in"], "clean_pairs": report["items_out"]},
    "split": lambda report: {
        "train_pairs": report["items_out"],
        "dev_pairs": report["dev"],
        "test_pairs": sum(report["tests"].values()),
    },
    "synthesise": lambda report: {"train_pairs": report["items_out"]},
    "augment": lambda report: {"train_pairs": report["items_out"]},
    "encode": lambda report: {
        "encoded_pairs": report["items_out"],
        "source_tokens": report["source_tokens"],
        "target_tokens": report["target_tokens"],
        "source_vocab": report["source_vocab_size"],
        "target_vocab": report["vocab_size"],
    },
    "train": lambda report: {
        "updates": report["updates"],
        "trained_tokens": report["tokens"],
        "tokens_per_second": report["target_tokens_per_second"],
        "is_resumed": report["attempts"] > 1 or bool(report["continued_from"]),
    },
    "export": lambda report: {"weights": report["items_out"]},
    "evaluate": lambda report: {"output_length": report["tokens"] / max(1, report["items_out"])},
}
"""Sizes in the report of each stage."""


def expected(config: PipelineConfig, known: Sizes, like: Sequence[Sizes] = ()) -> Sizes:
    """Return the sizes that a run of a recipe is expected to have.

    Args:
        config: the recipe.
        known: sizes that are known from artifacts.
        like: sizes of earlier runs of the same text, the most similar first.
    """
    before = next(iter(like), Sizes())
    values = dict[str, float | None]()
    values["text_bytes"] = text_bytes(config, stored=True) or before.text_bytes
    values["pairs"] = before.pairs or _pairs(config, values["text_bytes"])
    values |= _held_out(config, before)
    sizes = Sizes.model_validate(values | _given(known))
    kept = _share(before.clean_pairs, before.pairs, _SHARE_KEPT)
    clean = _times(sizes.pairs, kept)
    sizes = sizes.model_copy(update={"clean_pairs": clean} | _given(known))
    taken_out = _taken_out(config, sizes)
    rest = None if sizes.clean_pairs is None else max(1.0, sizes.clean_pairs - taken_out)
    if before.train_pairs and before.clean_pairs and config.mix.corpora:  # a mix repeats or leaves out pairs
        rest = _times(sizes.clean_pairs, before.train_pairs / before.clean_pairs)
    sizes = sizes.model_copy(update={"train_pairs": rest} | _given(known))
    tokens = before.tokens_per_pair if before.encoded_pairs else _TOKENS_PER_SENTENCE[config.tokenizer.kind]
    encoded = _times(sizes.train_pairs, config.encode.samples)
    vocab = config.tokenizer.vocab_size
    target_vocab = config.tokenizer.target_vocab_size or vocab
    own = vocab if config.tokenizer.vocabularies == "separate" else 0
    model = {
        "encoded_pairs": encoded,
        "source_tokens": _times(encoded, tokens),
        "target_tokens": _times(encoded, tokens),
        "source_vocab": vocab,
        "target_vocab": target_vocab,
        "weights": parameters(config.model, target_vocab, own),
        "updates": config.train.max_updates,
        "output_length": tokens if _is_untrained(before, tokens) else before.output_length,
    }
    return sizes.model_copy(update=model | _given(known))


def _is_untrained(sizes: Sizes, tokens: float) -> bool:
    """Return True if a model writes so little that it has learned nothing, or if it is not known what it writes."""
    return (sizes.output_length or 0) < tokens / 2


def _given(sizes: Sizes) -> dict[str, float]:
    return sizes.model_dump(exclude_none=True)


def _pairs(config: PipelineConfig, size: float | None) -> float | None:
    """Return the number of pairs to clean by the size of their files."""
    if config.corpus.toy:
        return config.corpus.toy.pairs
    train = bytes_of(config.corpus.train)
    total_bytes = train if train is not None else size
    return total_bytes and total_bytes / BYTES_PER_PAIR


def _held_out(config: PipelineConfig, before: Sizes) -> dict[str, float | None]:
    """Return the sizes of the dev and test sets."""
    corpus, sizes = config.corpus, dict[str, float | None]()
    sets = (("dev_pairs", corpus.dev, config.split.dev_pairs), ("test_pairs", corpus.test, config.split.test_pairs))
    for name, files, taken in sets:
        if corpus.toy:
            sizes[name] = corpus.toy.held_out
        elif not files:
            sizes[name] = taken
        else:
            size = bytes_of(files)
            sizes[name] = getattr(before, name) or (size / BYTES_PER_PAIR if size else _HELD_OUT_PAIRS * len(files))
    return sizes


def _taken_out(config: PipelineConfig, sizes: Sizes) -> float:
    """Return the number of pairs that `split` takes out of the training text."""
    if config.corpus.toy:
        return 0
    dev, test = config.corpus.dev, config.corpus.test
    return (0 if dev else sizes.dev_pairs or 0) + (0 if test else sizes.test_pairs or 0)


def _share(part: float | None, whole: float | None, usual: float) -> float:
    return part / whole if part and whole else usual


def _times(count: float | None, factor: float) -> float | None:
    return None if count is None else count * factor
