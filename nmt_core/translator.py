"""Translation in Python: load an exported model and translate lines with it.

    from nmt_core import Translator

    translator = Translator.load("models:/quickstart@champion", threads=2)
    print(translator.translate("a red house").text)

Needs onnxruntime, sentencepiece, numpy and pydantic, but no torch, Prefect or MLflow; an address of the registry needs
MLflow. `nmt_core.bundle` describes the files of an exported model.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args, overload

from nmt_core.bundle import read_search
from nmt_core.config import Precision, SearchConfig
from nmt_core.config.faults import search_with
from nmt_core.errors import ConfigError, DataError
from nmt_core.open_bundle import OpenBundle
from nmt_core.search.alignment import Aligner, Alignment
from nmt_core.search.batches import batches_by_length, most_sources
from nmt_core.search.constraints import check_positions
from nmt_core.search.denormals import denormals_as_zero
from nmt_core.search.forced import forced_log_probabilities
from nmt_core.search.hypothesis import Hypothesis
from nmt_core.search.long_lines import joiner, pieces_of
from nmt_core.search.methods import search_batch
from nmt_core.search.onnx_session import Device
from nmt_core.search.step import Stepper
from nmt_core.search.translation import Alternative, Status, Translation, whole
from nmt_core.spelling import AS_IT_IS, Punctuation, Spelling, UnicodeForm
from nmt_core.tokenizer.tokenizer import UNK_ID, Tokenizer, Tokenizers

_VARIANTS = 8  # searches of one translator that are kept ready
_LONGEST_SHOWN = 60  # characters of a value in a message
_LINES_AT_ONCE = 4_096  # of a stream: enough to sort by length, few enough to answer soon

Result = TypeVar("Result")


class PairScore(NamedTuple):
    """Log-probability that a model gives to a translation."""

    log_probability: float
    """Sum over the target tokens and the end mark, in nats."""
    tokens: int
    """Number of these tokens, the end mark included."""


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
        self._bundle: OpenBundle | None = None
        self._has_scores = True
        self._variants: dict[tuple[SearchConfig, bool], Translator] = {}
        self._lock = threading.Lock()
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
        bundle = OpenBundle(model, device)
        return cls._of(bundle, search or read_search(bundle.folder), threads, scores=scores)

    @classmethod
    def _of(cls, bundle: OpenBundle, search: SearchConfig, threads: int, *, scores: bool) -> "Translator":
        """Return a translator that searches a bundle in a way of its own."""
        config = bundle.config
        check_positions(search, config.max_positions, str(bundle.folder))
        stepper = bundle.stepper(search, scores=scores)
        spelling = Spelling(config.unicode_form, config.punctuation, config.languages.source)
        translator = cls(stepper, bundle.tokenizers, search, threads, spelling, joiner(config.languages.target))
        translator.precision, translator.device = bundle.place_of(search)
        translator.aligner = bundle.aligner(search)
        translator._bundle, translator._has_scores = bundle, scores
        return translator

    def with_search(self, *, scores: bool | None = None, **options: Any) -> "Translator":
        """Return a translator of the same model that searches with other options.

        The two share the model. Graphs that the other search needs are opened if they are not yet.

        Args:
            scores: whether translations have scores, see `load`. None means as here.
            options: options of the section `search` of a recipe, such as `beam_size=1`. The others stay.

        Raises:
            ConfigError: there is no such option, a value is wrong, or the model cannot be searched like that.
        """
        wanted = search_with(self.search, options), self._has_scores if scores is None else scores
        if wanted == (self.search, self._has_scores):
            return self
        with self._lock:
            if wanted not in self._variants:
                while len(self._variants) >= _VARIANTS:
                    self._variants.pop(next(iter(self._variants)))
                self._variants[wanted] = self._like(*wanted)
            return self._variants[wanted]

    def _like(self, search: SearchConfig, scores: bool) -> "Translator":
        """Return a translator of the same model with another search."""
        if self._bundle:
            return Translator._of(self._bundle, search, self.threads, scores=scores)
        return Translator(self.stepper, self.tokenizers, search, self.threads, self.spelling, self.between_sentences)

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
            prefixes = [target_prefixes] if isinstance(target_prefixes, str) else target_prefixes
            return translator._translate([lines], prefixes)[0]
        if isinstance(target_prefixes, str) and target_prefixes:
            raise DataError(f"target_prefixes={_shown(target_prefixes)}: give a list with a prefix for each line")
        return translator._translate(list(_checked(lines)), list(target_prefixes))

    def translate_iterable(
        self, lines: Iterable[str], *, lines_at_once: int = _LINES_AT_ONCE, **search: Any
    ) -> Iterator[Translation]:
        """Translate a stream of lines of any length, of which memory holds one part at a time.

        Args:
            lines: an iterable of lines, which is read as the translations are taken.
            lines_at_once: number of lines that are read, sorted by length and translated together.
            search: options of the search, see `with_search`.

        Returns:
            An iterator over the translations, in the order of the lines. A `str` is one line.

        Raises:
            DataError: a line is no text.
            ConfigError: an option of the search is wrong, or `lines_at_once` is less than 1.
        """
        if lines_at_once < 1:
            raise ConfigError(f"lines_at_once={lines_at_once}: must be 1 or more")
        return self.with_search(**search)._stream([lines] if isinstance(lines, str) else lines, lines_at_once)

    def _stream(self, lines: Iterable[str], lines_at_once: int) -> Iterator[Translation]:
        checked = _checked(lines)
        while part := list(islice(checked, lines_at_once)):
            yield from self._translate(part, ())

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
        stepper = self._bundle.whole_stepper(self.search) if self._bundle else self.stepper
        skipped = len(self._target_prefix)

        def score_batch(batch: Sequence[int]) -> list[PairScore]:
            own = [source_ids[place] for place in batch], [target_ids[place] for place in batch]
            found = (log_probs[skipped:] for log_probs in forced_log_probabilities(stepper, *own))
            return [PairScore(sum(log_probs), len(log_probs)) for log_probs in found]

        lengths = [1 + max(len(source), len(target)) for source, target in zip(source_ids, target_ids, strict=True)]
        return self._in_batches(lengths, score_batch)

    def _check_lengths(self, source_ids: Sequence[Sequence[int]], target_ids: Sequence[Sequence[int]]) -> None:
        positions = self._bundle.config.max_positions if self._bundle else self.search.max_source_tokens + 1
        for number, ids in enumerate(zip(source_ids, target_ids, strict=True), start=1):
            if (tokens := max(map(len, ids)) + 1) > positions:
                raise DataError(
                    f"pair {number:,} has {tokens:,} tokens on a side, and the model reads {positions:,}: split it"
                )

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

        def search_one(batch: Sequence[int]) -> list[list[Hypothesis]]:
            own = [sources[place] for place in batch]
            found = search_batch(self.stepper, own, self.search, [prefixes[place] for place in batch])
            return self.aligner.align(own, found, len(self._source_prefix)) if self.aligner else found

        return self._in_batches(list(map(len, sources)), search_one)

    def _in_batches(self, lengths: Sequence[int], compute: Callable[[Sequence[int]], list[Result]]) -> list[Result]:
        """Compute batches of items of similar length on the threads, and return the results in the order of the items.

        Args:
            lengths: tokens of each item, 1 or more.
            compute: function of the places of a batch that returns their results.
        """
        if not lengths:
            return []
        most = most_sources(self.search, self.stepper.vocab_size)
        batches = batches_by_length(lengths, self.search.batch_tokens, most)
        compute = denormals_as_zero()(compute)
        if self.threads == 1 or len(batches) < 2:
            results = list(map(compute, batches))
        else:  # one thread per batch, not many per matrix product, because a step is too small to be divided
            with ThreadPoolExecutor(self.threads, thread_name_prefix="translate") as pool:
                results = list(pool.map(compute, batches))
        by_place = dict(zip(chain.from_iterable(batches), chain.from_iterable(results), strict=True))
        return [by_place[place] for place in range(len(lengths))]


def _tidied(line: str, form: UnicodeForm, punctuation: Punctuation = "as_is", language: str = "") -> str:
    """Return the line as training text is written. Unpaired surrogates, which UTF-8 cannot hold, become "?"."""
    return Spelling(form, punctuation, language).tidy(line.encode("utf-8", "replace").decode("utf-8"))


def _checked(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines, and raise a DataError at the first that is not text."""
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise DataError(f"line {number:,} is {_shown(line)}, not text: give a str for each line")
        yield line


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
