"""Load a bundle and translate lines: onnxruntime, sentencepiece, numpy and pydantic; no torch, Prefect or MLflow.

A bundle is a folder that a machine without this pipeline can use: `encoder.onnx`, `step.onnx`, `spm.model` (or
`spm.source.model` and `spm.target.model`), and `config.json`, which names the sha256 of each of the others.
`search.json` beside them, if any, holds the settings of the search that the model was scored with.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice, repeat
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from nmt_core.config import LanguagesConfig, SearchConfig
from nmt_core.errors import ConfigError, ModelError
from nmt_core.search.beam import Hypothesis, beam_search
from nmt_core.search.long_lines import joiner, pieces_of
from nmt_core.search.onnx_step import ENCODER_FILE, STEP_FILE, Device, OnnxStepper, best_device, open_graph
from nmt_core.search.step import Stepper, batches_by_length
from nmt_core.spelling import AS_IT_IS, Punctuation, Spelling, UnicodeForm
from nmt_core.tokenizer.tokenizer import SOURCE_SPM_FILE, SPM_FILE, TARGET_SPM_FILE, Tokenizers

BUNDLE_FILE = "config.json"
SEARCH_FILE = "search.json"
BUNDLE_FORMAT: Literal[1] = 1

Status = Literal["ok", "empty", "split", "cut", "unfinished"]

# A window of `translate_stream`: long enough to fill batches with lines of one length, short enough for any memory.
_WINDOW_LINES = 8_192
_WINDOW_CHARACTERS = 4_000_000


class BundleConfig(BaseModel):
    """What `config.json` says of the files beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal[1] = BUNDLE_FORMAT
    languages: LanguagesConfig
    unicode_form: UnicodeForm
    """Form in which the training text was written."""
    punctuation: Punctuation = "as is"
    """Punctuation of the training text."""
    vocab_size: int
    """Pieces of the target's tokenizer and width of the output."""
    source_vocab_size: int | None = None
    """Pieces of the source's own tokenizer; None if one serves both languages."""
    special_ids: dict[Literal["pad", "unk", "bos", "eos"], int]
    d_model: int
    num_heads: int
    encoder_layers: int
    decoder_layers: int
    max_positions: int
    """Longest sequence, in tokens, on either side; end mark included."""
    sha256: dict[str, str]
    """Of every other file of the bundle, by name."""

    @property
    def tokenizer_sizes(self) -> dict[str, int]:
        """Pieces of each tokenizer, by the name of its file."""
        if self.source_vocab_size:
            return {SOURCE_SPM_FILE: self.source_vocab_size, TARGET_SPM_FILE: self.vocab_size}
        return {SPM_FILE: self.vocab_size}


@dataclass(frozen=True)
class Translation:
    """What became of one line."""

    text: str
    """One line, without a line break; empty if there was nothing to translate."""
    score: float
    """Log-probability in nats over the length penalty; 0 if there was nothing to translate. Of a line that was split,
    the mean over its sentences, weighted by their tokens."""
    status: Status
    """ok; empty: the line holds no text; split: it was longer than `max_source_tokens`, and its sentences were
    translated one by one; cut: it was longer, and its end was left out (`search.long_lines` chooses); unfinished: the
    translation, or that of a sentence, reached its greatest length before its end."""
    tokens: int = 0
    """Tokens of the translation, the end mark not counted."""


class Translator:
    """A loaded bundle. Any number of threads may share it.

    Args:
        stepper: the model.
        tokenizers: the tokenizers that it was trained with.
        search: beam size, lengths, and source tokens per batch.
        threads: batches that are translated at the same time, each on one CPU thread.
        spelling: how the training text of the source side was spelt.
        between_sentences: what joins the sentences of a line that was split.
    """

    def __init__(
        self,
        stepper: Stepper,
        tokenizers: Tokenizers,
        search: SearchConfig,
        threads: int = 1,
        spelling: Spelling = AS_IT_IS,
        between_sentences: str = " ",
    ) -> None:
        self.stepper = stepper
        self.tokenizers = tokenizers
        self.search = search
        self.threads = threads
        self.spelling = spelling
        self.between_sentences = between_sentences

    @classmethod
    def load(
        cls, folder: Path, search: SearchConfig | None = None, threads: int = 1, device: Device | None = None
    ) -> "Translator":
        """Check and load the bundle in `folder`.

        Args:
            folder: the bundle.
            search: None: what the bundle's `search.json` says, or the defaults if it has none.
            threads: CPU threads to use.
            device: None: the NVIDIA GPU if there is one, else the CPU. CUDA has not been run yet.

        Raises:
            ModelError: a file is missing or is not the one that was exported, or the format is unknown.
            ConfigError: the search asks for longer sequences than the model has positions.
        """
        bundle = read_bundle(folder)
        tokenizers = Tokenizers.load(folder)
        both = (tokenizers.source, tokenizers.target)  # one and the same, if there is one file
        for (name, size), tokenizer in zip(bundle.tokenizer_sizes.items(), both, strict=False):
            if tokenizer.vocab_size != size:
                raise ModelError(
                    f"{folder / name}: has {tokenizer.vocab_size:,} pieces, but the model has {size:,}: "
                    "it belongs to another model; fetch or export the bundle again"
                )
        search = search or _read_search(folder / SEARCH_FILE)
        longest = search.max_source_tokens + search.max_length_offset + 1
        if longest > bundle.max_positions:
            raise ConfigError(
                f"search.max_source_tokens={search.max_source_tokens} and search.max_length_offset="
                f"{search.max_length_offset} need {longest:,} positions, but the model in {folder} has "
                f"{bundle.max_positions:,}: lower either"
            )
        device = device or best_device()
        encoder, step = open_graph(folder / ENCODER_FILE, device), open_graph(folder / STEP_FILE, device)
        stepper = OnnxStepper(encoder, step, bundle.vocab_size, device)
        spelling = Spelling(bundle.unicode_form, bundle.punctuation, bundle.languages.source)
        return cls(stepper, tokenizers, search, threads, spelling, joiner(bundle.languages.target))

    def translate(self, lines: Sequence[str]) -> list[Translation]:
        """One translation per line, in order. Any text is a line, line breaks and control characters included."""
        tidied = [_tidied(line, *self.spelling) for line in lines]
        sources = self.tokenizers.source.encode(tidied)
        pieces = [self._pieces(line, ids) for line, ids in zip(tidied, sources, strict=True)]
        translated = iter(self._translate_ids([ids for of_line in pieces for ids in of_line]))
        limit = self.search.max_source_tokens
        return [
            self._whole(list(islice(translated, len(of_line))), is_long=len(ids) > limit)
            for of_line, ids in zip(pieces, sources, strict=True)
        ]

    def _pieces(self, line: str, ids: list[int]) -> list[list[int]]:
        """What of a line the model reads in one go each: nothing, or all of it, or its sentences."""
        limit = self.search.max_source_tokens
        if len(ids) > limit and self.search.long_lines == "split":
            return pieces_of(line, self.tokenizers.source, limit)
        return [ids[:limit]] if ids else []

    def _whole(self, pieces: list[Translation], *, is_long: bool) -> Translation:
        """The translation of a line from those of its pieces."""
        if not pieces:
            return Translation("", 0.0, "empty")
        if not is_long:
            return pieces[0]
        if self.search.long_lines == "cut":
            return replace(pieces[0], status="cut")
        tokens = sum(piece.tokens for piece in pieces)
        score = sum(piece.score * piece.tokens for piece in pieces) / max(tokens, 1)
        status: Status = "unfinished" if any(piece.status == "unfinished" for piece in pieces) else "split"
        text = self.between_sentences.join(piece.text for piece in pieces if piece.text)
        return Translation(text, score, status, tokens)

    def _translate_ids(self, sources: Sequence[list[int]]) -> list[Translation]:
        """One translation for each source, none of which is empty or too long."""
        translations = [Translation("", 0.0, "empty") for _ in sources]
        batches = batches_by_length([len(ids) for ids in sources], self.search.batch_tokens)
        results = self._search([[sources[place] for place in batch] for batch in batches])
        for batch, hypotheses in zip(batches, results, strict=True):
            texts = self.tokenizers.target.decode([hypothesis.ids for hypothesis in hypotheses])
            for place, hypothesis, text in zip(batch, hypotheses, texts, strict=True):
                # With byte_fallback a model can spell anything, a line break too.
                text = _tidied(text, self.spelling.unicode_form)
                status: Status = "unfinished" if hypothesis.cut else "ok"
                translations[place] = Translation(text, hypothesis.score, status, len(hypothesis.ids))
        return translations

    def translate_stream(self, lines: Iterable[str]) -> Iterator[Translation]:
        """The same for any number of lines, in bounded memory: they are read as translations are taken."""
        for window in _windows(lines):
            yield from self.translate(window)

    def _search(self, batches: Sequence[Sequence[Sequence[int]]]) -> Iterable[list[Hypothesis]]:
        if self.threads == 1 or len(batches) < 2:
            return [beam_search(self.stepper, batch, self.search) for batch in batches]
        # One thread per batch rather than many per matrix product: a step is too small a task to be divided.
        with ThreadPoolExecutor(self.threads, thread_name_prefix="translate") as pool:
            return list(pool.map(beam_search, repeat(self.stepper), batches, repeat(self.search)))


def read_bundle(folder: Path) -> BundleConfig:
    """Read `config.json` and compare every file with the hash that it names.

    Raises:
        ModelError: the folder is not a whole bundle of a known format.
    """
    file, remedy = folder / BUNDLE_FILE, "fetch or export the bundle again"
    if not file.is_file():
        raise ModelError(f"{folder}: no bundle, for it has no {BUNDLE_FILE}: name the folder that `export` made")
    try:
        bundle = BundleConfig.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "whole file"
        if where == "format":
            raise ModelError(
                f"{file}: format {first['input']!r} is unknown here, where {BUNDLE_FORMAT} is read: install the "
                "nmt-pipeline that made the bundle"
            ) from None
        raise ModelError(f"{file}: damaged ({where}: {first['msg']}): {remedy}") from None
    for name in (ENCODER_FILE, STEP_FILE, *bundle.tokenizer_sizes):
        if not (folder / name).is_file():
            raise ModelError(f"{folder / name}: missing from the bundle: {remedy}")
        found = sha256_of(folder / name)
        if found != bundle.sha256.get(name):
            raise ModelError(
                f"{folder / name}: sha256 is {found}, but {BUNDLE_FILE} says {bundle.sha256.get(name)}: "
                f"damaged, or of another model; {remedy}"
            )
    return bundle


def sha256_of(file: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal. (`artifacts.py` has the same, but needs more than a translator has.)"""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _read_search(file: Path) -> SearchConfig:
    if not file.exists():
        return SearchConfig()
    try:
        return SearchConfig.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelError(
            f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}: correct it, or remove it for the defaults"
        ) from None


def _tidied(line: str, form: UnicodeForm, punctuation: Punctuation = "as is", language: str = "") -> str:
    """The line as training text is written; halves of surrogate pairs, which no UTF-8 can hold, become "?"."""
    return Spelling(form, punctuation, language).tidy(line.encode("utf-8", "replace").decode("utf-8"))


def _windows(lines: Iterable[str]) -> Iterator[list[str]]:
    window: list[str] = []
    characters = 0
    for line in lines:
        window.append(line)
        characters += len(line)
        if len(window) == _WINDOW_LINES or characters >= _WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window
