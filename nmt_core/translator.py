"""Translation in Python: load an exported model and translate lines with it.

    from nmt_core import Translator

    translator = Translator.load("models:/quickstart@champion", threads=2)
    print(translator.translate("a red house").text)

Needs onnxruntime, sentencepiece, numpy and pydantic, but no torch, Prefect or MLflow; an address of the registry needs
MLflow. `nmt_core.bundle` describes the files of an exported model.
"""

import difflib
import importlib.metadata
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, overload

from pydantic import ValidationError

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
from nmt_core.errors import ConfigError, DataError, ModelError
from nmt_core.search.alignment import ALIGNMENT_FILE, Aligner, Alignment
from nmt_core.search.attention import ATTENTION_FILE
from nmt_core.search.batches import batches_by_length, most_sources
from nmt_core.search.constraints import check_positions
from nmt_core.search.denormals import denormals_as_zero
from nmt_core.search.forced import forced_log_probabilities
from nmt_core.search.hypothesis import Hypothesis
from nmt_core.search.long_lines import joiner, pieces_of
from nmt_core.search.methods import search_batch
from nmt_core.search.onnx_session import Device, device_for
from nmt_core.search.onnx_step import (
    ENCODER_FILE,
    SHORTLIST_STEP_FILE,
    STEP_FILE,
    WEIGHTS_FILE,
    WHOLE_STEP_FILE,
    OnnxStepper,
)
from nmt_core.search.shortlist import SHORTLIST_FILE, Shortlist, ShortlistStepper
from nmt_core.search.step import Stepper
from nmt_core.search.translation import Alternative, Status, Translation, whole
from nmt_core.spelling import AS_IT_IS, Punctuation, Spelling, UnicodeForm
from nmt_core.tokenizer.tokenizer import UNK_ID, Tokenizer, Tokenizers

MODEL_SOURCES = "nmt_pipeline.models"
"""Group of entry points that fetch models by address: `models` is a function of an address such as
`models:/NAME@champion` that returns a context manager, whose value is the folder of the model while it lasts."""

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/")
_VARIANTS = 8  # searches of one translator that are kept ready
_LONGEST_SHOWN = 60  # characters of a value in a message
_LINES_AT_ONCE = 4_096  # of a stream: enough to sort by length, few enough to answer soon


class PairScore(NamedTuple):
    """Log-probability that a model gives to a translation."""

    log_probability: float
    """Sum over the target tokens and the end mark, in nats."""
    tokens: int
    """Number of these tokens, the end mark included."""


@dataclass
class _Bundle:
    """An open bundle, which translators with different searches share."""

    folder: Path
    config: BundleConfig
    device: Device | None
    scores: bool
    tokenizers: Tokenizers
    steppers: dict[tuple[Precision, Device, str], Stepper] = field(default_factory=dict)
    """Open graphs, by precision, device and the file of their step."""

    def stepper(self, precision: Precision, device: Device, step: str) -> Stepper:
        """Check and open graphs, unless they are open."""
        key = precision, device, step
        if key not in self.steppers:
            check_files(self.folder, self.config, graph_files(precision, step))
            self.steppers[key] = open_stepper(self.folder / precision, self.config, device, step)
        return self.steppers[key]

    def translator(self, search: SearchConfig, threads: int) -> "Translator":
        """Return a translator that searches in this way."""
        config = self.config
        device = self.device or device_for(search.precision, config.precisions)
        precision = precision_for(search.precision, device, config)
        step = step_file(self.folder, config, precision, search, scores=self.scores)
        check_positions(search, config.max_positions, str(self.folder))
        spelling = Spelling(config.unicode_form, config.punctuation, config.languages.source)
        stepper, between = self.stepper(precision, device, step), joiner(config.languages.target)
        translator = Translator(stepper, self.tokenizers, search, threads, spelling, between)
        translator.device, translator.precision, translator._bundle = device, precision, self
        if search.alignments != "none":
            translator.aligner = _load_aligner(self.folder, config, search, device)
        return translator


class Translator:
    """A loaded model. Any number of threads may share it.

    Most programs call `Translator.load`. The constructor takes the parts of a model that is no bundle.

    Args:
        stepper: the model.
        tokenizers: the tokenizers that it was trained with.
        search: options of the search, and what every source and target begins with.
        threads: number of batches that are translated at the same time, each on one CPU thread.
        spelling: spelling of the source side of the training text.
        between_sentences: text that joins the sentences of a line that was split.

    Raises:
        ConfigError: `threads` is less than 1, or `search` has a prefix that the tokenizer cannot spell or that leaves
            no room for a source.
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
        if not isinstance(threads, int) or threads < 1:
            raise ConfigError(f"threads={threads!r}: must be a whole number of 1 or more")
        self.stepper = stepper
        self.tokenizers = tokenizers
        self.search = search
        self.threads = threads
        self.spelling = spelling
        self.between_sentences = between_sentences
        self.device: Device = "cpu"
        """Device that computes a bundle's graphs."""
        self.precision: Precision = "fp32"
        """Precision of a bundle's graphs."""
        self.aligner: Aligner | None = None
        """Finds alignments. None means that there are none, whatever `search` says."""
        self._bundle: _Bundle | None = None
        self._variants: dict[SearchConfig, Translator] = {}
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
        model: str | Path,
        search: SearchConfig | None = None,
        threads: int = 1,
        device: Device | None = None,
        *,
        scores: bool = True,
    ) -> "Translator":
        """Check and load a model.

        Args:
            model: folder of an exported model, or an address of the registry such as `models:/NAME@champion`. An
                address is looked up once; its files are removed when the last translator of the model is gone.
            search: options of the search. None means those that the model was registered with.
            threads: number of CPU threads to use.
            device: "cpu" or "cuda". None means an NVIDIA GPU if there is one and the precision is fp16, else the CPU.
            scores: False lets greedy search skip the scores, which are then NaN. It is faster.

        Raises:
            ModelError: there is no such model, a file is missing or is not the one that was exported, or the format is
                unknown.
            ConfigError: an argument is wrong, the search needs longer sequences than the model has positions, the
                model has no such precision or no shortlist, or a package is missing that segments its text.
        """
        if device not in (None, *get_args(Device)):
            raise ConfigError(f"device={device!r}: must be {' or '.join(map(repr, get_args(Device)))}, or None")
        with ExitStack() as stack:
            folder = stack.enter_context(_folder_of(model))
            config = read_bundle(folder)
            bundle = _Bundle(folder, config, device, scores, read_tokenizers(folder, config))
            translator = bundle.translator(search or read_search(folder), threads)
            weakref.finalize(bundle, stack.pop_all().close)
            return translator

    def with_search(self, **options: Any) -> "Translator":
        """Return a translator of the same model that searches with other options.

        The two share the model. Graphs that the other search needs are opened if they are not yet.

        Args:
            options: options of the section `search` of a recipe, such as `beam_size=1`. The others stay.

        Raises:
            ConfigError: there is no such option, a value is wrong, or the model cannot be searched like that.
        """
        search = _search_with(self.search, options)
        if search == self.search:
            return self
        if search not in self._variants:
            while len(self._variants) >= _VARIANTS:
                self._variants.pop(next(iter(self._variants)))
            self._variants[search] = (
                self._bundle.translator(search, self.threads)
                if self._bundle
                else Translator(
                    self.stepper, self.tokenizers, search, self.threads, self.spelling, self.between_sentences
                )
            )
        return self._variants[search]

    @overload
    def translate(self, lines: str, target_prefixes: str = "", **search: Any) -> Translation: ...

    @overload
    def translate(
        self, lines: Iterable[str], target_prefixes: Sequence[str] = (), **search: Any
    ) -> list[Translation]: ...

    def translate(
        self, lines: str | Iterable[str], target_prefixes: str | Sequence[str] = (), **search: Any
    ) -> Translation | list[Translation]:
        """Translate one line or many. Any text is a line, line breaks and control characters included.

        Args:
            lines: a line, or an iterable of lines.
            target_prefixes: text with which the translation of each line begins, after `search.target_prefix`. It is
                empty where the translation is free, and left out if all are. If a line is split, its first sentence
                gets the prefix. A prefix that the tokenizer cannot spell is left out, and the status says so.
            search: options of the search for this call, see `with_search`.

        Returns:
            The translation of a line, or a list of translations in the order of the lines.

        Raises:
            DataError: a line is no text, or there are not as many prefixes as lines.
            ConfigError: an option of the search is wrong.
        """
        translator = self.with_search(**search) if search else self
        if isinstance(lines, str):
            return translator._translate([lines], [str(target_prefixes)] if target_prefixes else ())[0]
        return translator._translate(_checked(lines), target_prefixes)

    def translate_iterable(
        self, lines: Iterable[str], *, lines_at_once: int = _LINES_AT_ONCE, **search: Any
    ) -> Iterator[Translation]:
        """Translate a stream of lines of any length, of which memory holds one part at a time.

        Args:
            lines: an iterable of lines, which is read as the translations are taken.
            lines_at_once: number of lines that are read, sorted by length and translated together.
            search: options of the search, see `with_search`.

        Yields:
            The translation of each line, in order.

        Raises:
            DataError: a line is no text.
            ConfigError: an option of the search is wrong, or `lines_at_once` is less than 1.
        """
        if lines_at_once < 1:
            raise ConfigError(f"lines_at_once={lines_at_once}: must be 1 or more")
        translator = self.with_search(**search)
        checked = iter(_iter_checked(lines))
        while part := list(islice(checked, lines_at_once)):
            yield from translator._translate(part, ())

    def score(self, pairs: Iterable[tuple[str, str]]) -> list[PairScore]:
        """Return the log-probabilities that the model gives to translations, by forced decoding.

        The search plays no part, except for its prefixes: `search.source_prefix` comes before each source, and
        `search.target_prefix` before each target, where it does not count.

        Args:
            pairs: a source line and its translation each.

        Raises:
            DataError: a line is no text, or has more tokens than the model reads.
        """
        sources, targets = [], []
        for number, pair in enumerate(pairs, start=1):
            if isinstance(pair, str) or len(pair) != 2:
                raise DataError(f"pair {number:,} is {_shown(pair)}: give a source and its translation")
            source, target = _checked(pair)
            sources.append(_tidied(source, *self.spelling))
            targets.append(_tidied(target, self.spelling.unicode_form))
        source_ids = [self._source_prefix + ids for ids in self.tokenizers.source.encode(sources)]
        target_ids = [self._target_prefix + ids for ids in self.tokenizers.target.encode(targets)]
        self._check_lengths(source_ids, target_ids)
        stepper, skipped = self._whole_stepper(), len(self._target_prefix)
        scores: dict[int, PairScore] = {}
        lengths = [1 + max(len(source), len(target)) for source, target in zip(source_ids, target_ids, strict=True)]
        for batch in batches_by_length(
            lengths, self.search.batch_tokens, most_sources(self.search, stepper.vocab_size)
        ):
            found = forced_log_probabilities(
                stepper, [source_ids[place] for place in batch], [target_ids[place] for place in batch]
            )
            for place, log_probs in zip(batch, found, strict=True):
                scores[place] = PairScore(sum(log_probs[skipped:]), len(log_probs) - skipped)
        return [scores[place] for place in range(len(sources))]

    def _check_lengths(self, source_ids: Sequence[Sequence[int]], target_ids: Sequence[Sequence[int]]) -> None:
        positions = self._bundle.config.max_positions if self._bundle else self.search.max_source_tokens + 1
        for number, ids in enumerate(zip(source_ids, target_ids, strict=True), start=1):
            if (tokens := max(map(len, ids)) + 1) > positions:
                raise DataError(
                    f"pair {number:,} has {tokens:,} tokens on a side, and the model reads {positions:,}: split it"
                )

    def _whole_stepper(self) -> Stepper:
        """Return a stepper that gives the log-probabilities of the whole vocabulary."""
        if not self._bundle:
            return self.stepper
        has_graph = f"{self.precision}/{WHOLE_STEP_FILE}" in self._bundle.config.sha256  # earlier versions had none
        return self._bundle.stepper(self.precision, self.device, WHOLE_STEP_FILE if has_graph else STEP_FILE)

    def _translate(self, lines: Sequence[str], target_prefixes: Sequence[str]) -> list[Translation]:
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


def _folder_of(model: str | Path) -> AbstractContextManager[Path]:
    """Return a context in which the files of a model are in a folder."""
    address = _ADDRESS.match(str(model)) if isinstance(model, str) else None
    if not address or Path(model).is_dir():
        return nullcontext(Path(model))
    sources = importlib.metadata.entry_points(group=MODEL_SOURCES, name=address[1])
    if not sources:
        raise ModelError(
            f"model {model}: nothing that is installed here reads {address[1]}:/ addresses: install nmt-pipeline, or "
            "give the folder of an exported model"
        )
    fetched: AbstractContextManager[Path] = next(iter(sources)).load()(model)
    return fetched


def _search_with(search: SearchConfig, options: dict[str, Any]) -> SearchConfig:
    for name in options:
        if name not in SearchConfig.model_fields:
            close = difflib.get_close_matches(name, SearchConfig.model_fields, n=1)
            hint = f"did you mean {close[0]}?" if close else f"the options are {', '.join(SearchConfig.model_fields)}"
            raise ConfigError(f"search.{name} is no option of the search: {hint}")
    try:
        return SearchConfig.model_validate(search.model_dump() | options)
    except ValidationError as error:
        faults = [
            f"search.{'.'.join(map(str, detail['loc']))}={_shown(detail['input'])}: {detail['msg']}"
            for detail in error.errors()
        ]
        raise ConfigError("; ".join(faults)) from None


def _checked(lines: Iterable[str]) -> list[str]:
    return list(_iter_checked(lines))


def _iter_checked(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise DataError(f"line {number:,} is {_shown(line)}, not text: give a str for each line")
        yield line


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
