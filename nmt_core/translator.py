"""Translator: loads a bundle and translates lines.

It needs onnxruntime, sentencepiece, numpy and pydantic, but not torch, Prefect or MLflow. `bundle.py` describes
bundles.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from nmt_core.bundle import (
    ATTENTION_SET,
    BundleConfig,
    check_files,
    graph_files,
    hashed_or_there,
    precision_for,
    read_bundle,
    read_search,
    read_tokenizers,
    step_file,
)
from nmt_core.config import Precision, SearchConfig
from nmt_core.errors import ConfigError, DataError
from nmt_core.search.alignment import ALIGNMENT_FILE, Aligner, Alignment
from nmt_core.search.attention import ATTENTION_FILE
from nmt_core.search.batches import batches_by_length, most_sources
from nmt_core.search.constraints import check_positions
from nmt_core.search.denormals import denormals_as_zero
from nmt_core.search.hypothesis import Hypothesis
from nmt_core.search.long_lines import joiner, pieces_of
from nmt_core.search.methods import search_batch
from nmt_core.search.onnx_session import Device, device_for
from nmt_core.search.onnx_step import ENCODER_FILE, SHORTLIST_STEP_FILE, WEIGHTS_FILE, OnnxStepper
from nmt_core.search.shortlist import SHORTLIST_FILE, Shortlist, ShortlistStepper
from nmt_core.search.step import Stepper
from nmt_core.search.translation import Alternative, Status, Translation, whole
from nmt_core.spelling import AS_IT_IS, Punctuation, Spelling, UnicodeForm
from nmt_core.tokenizer.tokenizer import UNK_ID, Tokenizer, Tokenizers


class Translator:
    """Loaded bundle. Any number of threads may share it.

    Args:
        stepper: the model.
        tokenizers: tokenizers with which the model was trained.
        search: search method and its limits, prefixes of every source and target, and source tokens per batch.
        threads: number of batches that are translated at the same time, each on one CPU thread.
        spelling: Unicode form, punctuation and language of the source side of the training text.
        between_sentences: text that joins the sentences of a line that was split.

    Raises:
        ConfigError: `search` has a prefix that the tokenizer cannot encode, or that leaves no room for a source.
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
        self.device: Device = "cpu"
        """Device that computes the bundle's graphs."""
        self.precision: Precision = "fp32"
        """Precision of the bundle's graphs."""
        self.aligner: Aligner | None = None
        """Aligner that finds alignments. None means that there are none, whatever `search.alignments` is."""
        self._source_prefix = self._ids_of("source_prefix", tokenizers.source)
        self._target_prefix = self._ids_of("target_prefix", tokenizers.target)
        self._most_tokens = search.max_source_tokens - len(self._source_prefix)
        if self._most_tokens < 1:
            raise ConfigError(
                f"search.source_prefix={search.source_prefix!r} has {len(self._source_prefix)} tokens, and "
                f"search.max_source_tokens={search.max_source_tokens} leaves none for a line: raise max_source_tokens"
            )

    @classmethod
    def load(
        cls,
        folder: Path,
        search: SearchConfig | None = None,
        threads: int = 1,
        device: Device | None = None,
        *,
        scores: bool = True,
    ) -> "Translator":
        """Check and load the bundle in `folder`.

        Args:
            folder: the bundle.
            search: the search. None means the search in the bundle's `search.json`, or the defaults if it has none.
            threads: number of CPU threads to use.
            device: the device. None means an NVIDIA GPU if there is one and the precision is fp16, else the CPU. CUDA
                has not been tested.
            scores: False if scores are not needed. Greedy search is then faster, and the scores are NaN.

        Raises:
            ModelError: a file is missing or is not the one that was exported, or the format is unknown.
            ConfigError: the search needs longer sequences than the model has positions, the bundle lacks the precision
                or the shortlist, or a package is missing that cut the training text.
        """
        bundle, search = read_bundle(folder), search or read_search(folder)
        device = device or device_for(search.precision, bundle.precisions)
        precision = precision_for(search.precision, device, bundle)
        step = step_file(folder, bundle, precision, search, scores=scores)
        check_files(folder, bundle, graph_files(precision, step))
        tokenizers = read_tokenizers(folder, bundle)
        check_positions(search, bundle.max_positions, str(folder))
        stepper = open_stepper(folder / precision, bundle, device, step)
        spelling = Spelling(bundle.unicode_form, bundle.punctuation, bundle.languages.source)
        translator = cls(stepper, tokenizers, search, threads, spelling, joiner(bundle.languages.target))
        translator.device, translator.precision = device, precision
        if search.alignments != "none":
            translator.aligner = _load_aligner(folder, bundle, search, device)
        return translator

    def translate(self, lines: Sequence[str], target_prefixes: Sequence[str] = ()) -> list[Translation]:
        """Translate lines, and return one translation per line, in order.

        Any text is a line, even with line breaks and control characters.

        Args:
            lines: text to translate.
            target_prefixes: text with which the translation of each line begins, after `search.target_prefix`. Empty
                for a free translation, and no list at all if all are free. For a line that is split, the prefix applies
                to the first sentence. A prefix that the tokenizer cannot encode is left out, which the status shows.

        Raises:
            DataError: the number of prefixes differs from the number of lines.
        """
        tidied = [_tidied(line, *self.spelling) for line in lines]
        sources = self.tokenizers.source.encode(tidied)
        pieces = [self._pieces(line, ids) for line, ids in zip(tidied, sources, strict=True)]
        own = self._prefixes(target_prefixes, len(lines))
        translated = iter(
            self._translate_ids(
                [ids for of_line in pieces for ids in of_line],
                [
                    self._target_prefix + (first if number == 0 and first else [])
                    for of_line, first in zip(pieces, own, strict=True)
                    for number in range(len(of_line))
                ],
            )
        )
        how = self.search.long_lines
        wholes = [
            whole(list(islice(translated, len(of_line))), how if self._is_long(ids) else None, self.between_sentences)
            for of_line, ids in zip(pieces, sources, strict=True)
        ]
        wholes = [one.without_prefix() if first is None else one for one, first in zip(wholes, own, strict=True)]
        if self.aligner and self.search.alignments == "words":
            read = [self._read(line, ids) for line, ids in zip(lines, sources, strict=True)]
            return [one.aligned_by_words(text) for one, text in zip(wholes, read, strict=True)]
        return wholes

    def _ids_of(self, option: Literal["source_prefix", "target_prefix"], tokenizer: Tokenizer) -> list[int]:
        text = getattr(self.search, option)
        [ids] = tokenizer.encode([text])
        if UNK_ID in ids:
            raise ConfigError(
                f"search.{option}={text!r}: the tokenizer has no pieces for all of it: a tag must be in the "
                "tokenizer.user_symbols with which the model was trained"
            )
        return ids

    def _is_long(self, ids: Sequence[int]) -> bool:
        return len(ids) > self._most_tokens

    def _pieces(self, line: str, ids: list[int]) -> list[list[int]]:
        """Return the parts of a line that the model reads, one at a time: none, the whole line, or its sentences."""
        if self._is_long(ids) and self.search.long_lines == "split":
            return pieces_of(line, self.tokenizers.source, self._most_tokens)
        return [ids[: self._most_tokens]] if ids else []

    def _read(self, line: str, ids: list[int]) -> str:
        """Return the part of a line that the model reads: its beginning, if the line is cut."""
        if self._is_long(ids) and self.search.long_lines == "cut":
            return self.tokenizers.source.decode([ids[: self._most_tokens]])[0]
        return line

    def _prefixes(self, given: Sequence[str], lines: int) -> list[list[int] | None]:
        """Return the ids with which the target of each line begins.

        None if the tokenizer has no pieces for all of a prefix.
        """
        if given and len(given) != lines:
            raise DataError(
                f"{len(given):,} target prefixes for {lines:,} lines: give one for each line, empty for no prefix"
            )
        if not any(given):
            return [[]] * lines
        own = self.tokenizers.target.encode([_tidied(text, self.spelling.unicode_form) for text in given])
        return [None if UNK_ID in ids else ids for ids in own]

    def _translate_ids(self, pieces: Sequence[list[int]], prefixes: Sequence[list[int]]) -> list[Translation]:
        """Return one translation for each piece. No piece may be empty or too long."""
        found = self.search_ids([self._source_prefix + ids for ids in pieces], prefixes)
        texts = iter(self.tokenizers.target.decode([one.ids for hypotheses in found for one in hypotheses]))
        translations = []
        for piece, hypotheses in zip(pieces, found, strict=True):
            # With byte_fallback, a model can produce any character, even a line break.
            tidied = [_tidied(next(texts), self.spelling.unicode_form) for _ in hypotheses]
            scored = [
                Alternative(text, one.score, self._alignment(piece, one))
                for text, one in zip(tidied, hypotheses, strict=True)
            ]
            best, of_best = hypotheses[0], scored[0].alignment
            status: Status = "unfinished" if best.cut else "ok"
            translations.append(Translation(tidied[0], best.score, status, len(best.ids), tuple(scored[1:]), of_best))
        return translations

    def _alignment(self, source: Sequence[int], found: Hypothesis) -> Alignment | None:
        """Return the links between the pieces of a source, without its prefix, and the pieces of a hypothesis."""
        if not self.aligner:
            return None
        source_pieces = tuple(map(self.tokenizers.source.piece, source))
        return Alignment(found.links, source_pieces, tuple(map(self.tokenizers.target.piece, found.ids)))

    def search_ids(self, sources: Sequence[list[int]], prefixes: Sequence[list[int]]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, best first. This is the part of `translate` between reading and writing
        text.

        Args:
            sources: token ids, with `search.source_prefix` and without an end mark. None is empty or too long.
            prefixes: token ids with which the targets of each source begin.
        """
        if not sources:
            return []
        most = most_sources(self.search, self.stepper.vocab_size)
        batches = batches_by_length(list(map(len, sources)), self.search.batch_tokens, most)

        @denormals_as_zero()
        def search_one(batch: Sequence[int]) -> list[list[Hypothesis]]:
            own = [sources[place] for place in batch]
            found = search_batch(self.stepper, own, self.search, [prefixes[place] for place in batch])
            return self.aligner.align(own, found, len(self._source_prefix)) if self.aligner else found

        if self.threads == 1 or len(batches) < 2:
            results = list(map(search_one, batches))
        else:  # one thread per batch, not many per matrix product, because a step is too small to be divided
            with ThreadPoolExecutor(self.threads, thread_name_prefix="translate") as pool:
                results = list(pool.map(search_one, batches))
        places = chain.from_iterable(batches)
        found = dict(zip(places, chain.from_iterable(results), strict=True))
        return [found[place] for place in range(len(sources))]


def open_stepper(graphs: Path, bundle: BundleConfig, device: Device, step: str) -> Stepper:
    """Return the model in a bundle whose files (`graph_files`) have been checked.

    Args:
        graphs: folder of the graphs for a precision.
        bundle: contents of the bundle.
        device: device that computes the graphs.
        step: name of the step graph, from `step_file`.

    Raises:
        ModelError: onnxruntime cannot run the model, or the shortlist belongs to another model.
    """
    stepper = OnnxStepper(graphs, bundle.vocab_size, device, step)
    if step != SHORTLIST_STEP_FILE:
        return stepper
    source_pieces = bundle.source_vocab_size or bundle.vocab_size
    return ShortlistStepper(stepper, Shortlist.load(graphs.parent / SHORTLIST_FILE, source_pieces, bundle.vocab_size))


def _load_aligner(folder: Path, bundle: BundleConfig, search: SearchConfig, device: Device) -> Aligner:
    names = [f"{ATTENTION_SET}/{name}" for name in (ALIGNMENT_FILE, ATTENTION_FILE, ENCODER_FILE, WEIGHTS_FILE)]
    check_files(folder, bundle, hashed_or_there(folder, bundle, names))
    return Aligner(folder / ATTENTION_SET, search.batch_tokens, device)  # its error names the remedy if there is none


def _tidied(line: str, form: UnicodeForm, punctuation: Punctuation = "as_is", language: str = "") -> str:
    """Return the line as training text is written. Unpaired surrogates, which UTF-8 cannot hold, become "?"."""
    return Spelling(form, punctuation, language).tidy(line.encode("utf-8", "replace").decode("utf-8"))
