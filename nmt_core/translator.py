"""Translation in Python: load an exported model and translate lines with it.

    from nmt_core import Translator

    translator = Translator.load("models:/quickstart@champion", threads=2)
    print(translator.translate("a red house").text)

Needs onnxruntime, sentencepiece, sentencex, numpy and pydantic, but no torch, Prefect or MLflow. An address of the
registry needs MLflow, and a glossary needs ahocorasick-rs. `nmt_core.bundle.folder` describes the files of an exported
model.
"""

import copy
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args, overload

from nmt_core.bundle.folder import read_search, uses_shortlist
from nmt_core.bundle.opened import OpenBundle
from nmt_core.config import LanguagesConfig, Precision, SearchConfig
from nmt_core.config.faults import search_with
from nmt_core.errors import ConfigError, DataError, counted, shown
from nmt_core.search.alignment import Aligner, Alignment
from nmt_core.search.batches import batches_by_length, most_sources
from nmt_core.search.constraints import check_positions
from nmt_core.search.denormals import denormals_as_zero
from nmt_core.search.forced import forced_log_probabilities
from nmt_core.search.hypothesis import Hypothesis, length_penalty
from nmt_core.search.line_parts import LinePart
from nmt_core.search.long_lines import by_punctuation, joiner, parts_of
from nmt_core.search.methods import search_batch
from nmt_core.search.minimum_bayes_risk import ranked
from nmt_core.search.onnx_session import Device
from nmt_core.search.reranking import Rank, reranked
from nmt_core.search.sentences import layout_of, on_one_line
from nmt_core.search.step import Stepper
from nmt_core.search.term_search import Required, beam_size, search_with_terms
from nmt_core.search.translation import Alternative, Status, Translation, whole
from nmt_core.search.unknown import UnknownText, cut_at, filled
from nmt_core.spelling import AS_IT_IS, Punctuation, Spelling, UnicodeForm, is_visible
from nmt_core.terms.glossary import Term, TermFinder, missing, terms_of
from nmt_core.terms.pieces import TermPieces, faults_of
from nmt_core.text.long_runs import long_runs
from nmt_core.tokenizer.language_tokens import NO_TOKEN, language_token, pair_for
from nmt_core.tokenizer.tokenizer import EOS_ID, UNK_ID, Tokenizer, Tokenizers

_VARIANTS = 8  # searches of one translator that are kept ready
_LINES_AT_ONCE = 4_096  # of a stream: enough to sort by length, few enough to answer soon

Result = TypeVar("Result")
Glossary = Mapping[str, str | None] | Sequence[Term] | Sequence[str]
"""Terms, as a mapping of sources to translations (None keeps the source as it is), as lines
`source<tab>translation`, or as `Term`s. Several translations that are accepted are separated by `|`."""


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
        languages: languages of the model. None means that they are not known.
        splits_sentences: meaning of `search.split_sentences=auto`.
        copies_unknown: meaning of `search.copy_unknown=auto`.

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
        *,
        languages: LanguagesConfig | None = None,
        splits_sentences: bool = False,
        copies_unknown: bool = False,
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
        self.languages = languages
        """Languages of the model, or of the pair that it translates, see `into`. None if they are not known."""
        self.all_languages = languages
        """Languages of the model with all its pairs, whichever of them it translates. None if they are not known."""
        self._pair = ""
        self._token = NO_TOKEN
        self._bundle: OpenBundle | None = None
        self._has_scores = True
        self._variants: dict[tuple[SearchConfig, bool] | tuple[Term, ...], Translator] = {}
        self._directions: dict[str, Translator] = {}
        self._lock = threading.Lock()
        self._rank: Rank | None = None
        self._finder: TermFinder | None = None
        self._term_pieces: TermPieces | None = None
        self._automatic = splits_sentences, copies_unknown
        self._splits_sentences = _chosen(search.split_sentences, splits_sentences)
        self._copies_unknown = _chosen(search.copy_unknown, copies_unknown)
        self._unknown = UnknownText(tokenizers.source)
        if languages and len(languages.targets) == 1:
            self._direct(languages.pairs[0])
        self._read_prefixes()

    def _read_prefixes(self) -> None:
        """Find what every source and target begins with: the language token, and then the prefix of the search."""
        search = self.search
        source, target = self.tokenizers.source, self.tokenizers.target
        self._source_prefix = source.start_ids + self._token.source + self._ids_of("source_prefix", source)
        self._target_start = target.start_ids + self._token.target
        self._target_prefix = self._target_start + self._ids_of("target_prefix", target)
        self._most_tokens = search.max_source_tokens - len(self._source_prefix)
        if self._most_tokens < 1:
            raise ConfigError(
                f"search.source_prefix={search.source_prefix!r} has {counted(len(self._source_prefix), 'token')}, and "
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
        translator = cls(
            stepper,
            bundle.tokenizers,
            search,
            threads,
            spelling,
            joiner(config.languages.target),
            languages=config.languages,
            splits_sentences=config.has_one_sentence_a_row,
            copies_unknown=bundle.tokenizers.source.spells_characters,
        )
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
            ConfigError: there is no such option, a value is wrong, the model cannot be searched like that, or a judge
                is named that `with_judge` did not give.
        """
        wanted = search_with(self.search, options), self._has_scores if scores is None else scores
        if wanted == (self.search, self._has_scores):
            return self
        _require_judge(wanted[0], self._rank if wanted[0].judge == self.search.judge else None)

        def make() -> Translator:
            other = self._like(*wanted)
            other._rank = self._rank
            return other._with_finder(self._finder, self._term_pieces)

        return self._variant(wanted, make)

    def with_judge(self, rank: Rank) -> "Translator":
        """Return a translator of the same model whose candidates a judge orders, as `search.rerank=judge` needs.

        Args:
            rank: the judge. It is called once for all lines of a call of `translate`. If it raises an `NmtError`, each
                line keeps its first candidate, and `Translation.judge_problem` is the message.
        """
        other = copy.copy(self)
        other._rank = rank
        other._variants, other._directions, other._lock = {}, {}, threading.Lock()
        return other

    def into(self, to: str) -> "Translator":
        """Return a translator of the same model for one of its target languages.

        Args:
            to: target language, such as de, or a pair, such as en-de. See `pair_for`.

        Raises:
            ConfigError: the model does not know the language or the pair, or nothing is named and it knows several.
        """
        if self.all_languages is None:
            raise ConfigError(f"to={to!r}: the languages of this model are not known: leave it out")
        pair = pair_for(self.all_languages, to) if to or not self._pair else self._pair
        if pair == self._pair:
            return self
        with self._lock:
            if pair not in self._directions:
                self._directions[pair] = self._directed(pair)
            return self._directions[pair]

    def _directed(self, pair: str) -> "Translator":
        """Return a translator that shares everything with this one but the pair of languages."""
        other = copy.copy(self)
        other._variants, other._directions, other._lock = {}, {}, threading.Lock()
        other._direct(pair)
        other._read_prefixes()
        return other

    def _direct(self, pair: str) -> None:
        """Translate one of the pairs of the model from now on."""
        assert self.all_languages
        self._pair, self._token = pair, language_token(self.all_languages, pair, self.tokenizers)
        self.languages = self.all_languages.of(pair)
        self.spelling = self.spelling._replace(language=self.languages.source)
        self.between_sentences = joiner(self.languages.target)

    @property
    def needs_language(self) -> bool:
        """True if the model knows several target languages, and none of them is chosen by `into` yet."""
        return bool(self.all_languages and self.all_languages.pairs and not self._pair)

    def _require_a_pair(self) -> None:
        """Raise an error if the model knows several target languages, and none is named."""
        if self.all_languages and self.needs_language:
            pair_for(self.all_languages, "")

    def with_glossary(self, glossary: Glossary) -> "Translator":
        """Return a translator of the same model whose translations contain the translations of terms.

        A line is translated again if a term is missing in its translation, by a beam search that requires all terms.
        The status `terms_missing` marks lines for which there is no such translation.

        Args:
            glossary: the terms. They replace the terms of this translator. Empty means none.

        Raises:
            DataError: an item is no term, or two terms conflict.
            ConfigError: a package is missing, or inflected forms of the language are not known.
        """
        terms = terms_of(glossary)
        if terms == (self._finder.terms if self._finder else ()):
            return self
        if not terms:
            return self._with_finder(None, self._term_pieces)

        def make() -> Translator:
            pieces = self._term_pieces or TermPieces(self.tokenizers.target)
            return self._with_finder(TermFinder(terms, self.spelling), pieces)

        return self._variant(terms, make)

    @property
    def uses_shortlist(self) -> bool:
        """True if translations are chosen from a shortlist."""
        if self._bundle is None:
            return self.search.shortlist == "always"
        return uses_shortlist(self._bundle.config, self.search)

    @property
    def has_terms(self) -> bool:
        """True if there is a glossary."""
        return self._finder is not None

    def faults_of_terms(self) -> list[str]:
        """Return a line about each term of the glossary that no translation can have, such as a term that is too long.

        It names the term and the remedy.
        """
        if not self._finder or not self._term_pieces:
            return []
        return faults_of(self._finder.terms, self._term_pieces, self.tokenizers.source, self._most_tokens)

    def _variant(
        self, key: "tuple[SearchConfig, bool] | tuple[Term, ...]", make: "Callable[[], Translator]"
    ) -> "Translator":
        """Return the variant of this translator that is kept under a key, and make it if there is none."""
        with self._lock:
            if key not in self._variants:
                while len(self._variants) >= _VARIANTS:
                    self._variants.pop(next(iter(self._variants)))
                self._variants[key] = make()
            return self._variants[key]

    def _with_finder(self, finder: TermFinder | None, pieces: TermPieces | None) -> "Translator":
        """Return a translator that shares everything with this one but the terms."""
        if finder is self._finder:
            return self
        other = copy.copy(self)
        other._finder, other._term_pieces = finder, pieces
        other._variants, other._directions, other._lock = {}, {}, threading.Lock()
        return other

    def _like(self, search: SearchConfig, scores: bool) -> "Translator":
        """Return a translator of the same model with another search."""
        if self._bundle:
            other = Translator._of(self._bundle, search, self.threads, scores=scores)
            return other.into(self._pair) if self._pair else other
        other = Translator(
            self.stepper,
            self.tokenizers,
            search,
            self.threads,
            self.spelling,
            self.between_sentences,
            languages=self.all_languages,
            splits_sentences=self._automatic[0],
            copies_unknown=self._automatic[1],
        )
        return other.into(self._pair) if self._pair else other

    @overload
    def translate(
        self,
        lines: str,
        target_prefixes: str = "",
        *,
        to: str | Sequence[str] = "",
        glossary: Glossary | None = None,
        **search: Any,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        lines: Iterable[str],
        target_prefixes: Sequence[str] = (),
        *,
        to: str | Sequence[str] = "",
        glossary: Glossary | None = None,
        **search: Any,
    ) -> list[Translation]: ...

    def translate(
        self,
        lines: str | Iterable[str],
        target_prefixes: str | Sequence[str] = (),
        *,
        to: str | Sequence[str] = "",
        glossary: Glossary | None = None,
        **search: Any,
    ) -> Translation | list[Translation]:
        """Translate one line or many. Any text is a line, line breaks and control characters included.

        A line of several sentences is translated sentence by sentence, and its line breaks stay where they are, if the
        model was trained on single sentences (`search.split_sentences`).

        Args:
            lines: a line, or an iterable of lines.
            target_prefixes: text with which the translation of each line begins, after `search.target_prefix`. It is
                empty where the translation is free, and left out if all are. If a line is split, its first sentence
                gets the prefix. A prefix that the tokenizer cannot spell is left out, and the status says so.
            to: target language or pair of all lines, or a list with one for each line, see `into`. A model for one pair
                needs none.
            glossary: terms and their translations for this call, see `with_glossary`. None means the terms
                of this translator.
            search: options of the search for this call, see `with_search`.

        Returns:
            The translation of a line, or a list of translations in the order of the lines.

        Raises:
            DataError: a line is no text, there are not as many prefixes as lines, or terms conflict.
            ConfigError: an option of the search is wrong.
        """
        translator = self.with_search(**search) if search else self
        if glossary is not None:
            translator = translator.with_glossary(glossary)
        if to and isinstance(to, str):
            translator, to = translator.into(to), ()
        if isinstance(lines, str):
            prefixes = [target_prefixes] if isinstance(target_prefixes, str) else target_prefixes
            return translator._translate_each([lines], prefixes, to)[0]
        if isinstance(target_prefixes, str) and target_prefixes:
            raise DataError(f"target_prefixes={shown(target_prefixes)}: give a list with a prefix for each line")
        return translator._translate_each(list(_checked(lines)), list(target_prefixes), to)

    def _translate_each(
        self, lines: Sequence[str], target_prefixes: Sequence[str], to: Sequence[str]
    ) -> list[Translation]:
        """Translate each line into its own language. An empty `to` means that all have the language of this one."""
        if not to:
            return self._translate(lines, target_prefixes)
        if len(to) != len(lines):
            raise DataError(f"{len(to):,} target languages for {counted(len(lines), 'line')}: give one for each line")
        places: dict[str, list[int]] = {}
        for place, language in enumerate(to):
            places.setdefault(language, []).append(place)
        translators = {language: self.into(language) for language in places}
        found: dict[int, Translation] = {}
        for language, own in places.items():
            prefixes = [target_prefixes[place] for place in own] if target_prefixes else ()
            found |= zip(own, translators[language]._translate([lines[place] for place in own], prefixes), strict=True)
        return [found[place] for place in range(len(lines))]

    def translate_iterable(
        self,
        lines: Iterable[str],
        *,
        lines_at_once: int = _LINES_AT_ONCE,
        to: str = "",
        glossary: Glossary | None = None,
        **search: Any,
    ) -> Iterator[Translation]:
        """Translate a stream of lines of any length, of which memory holds one part at a time.

        Args:
            lines: an iterable of lines, which is read as the translations are taken.
            lines_at_once: number of lines that are read, sorted by length and translated together.
            to: target language or pair, see `into`. A model for one pair needs none.
            glossary: terms and their translations, see `with_glossary`. None means the terms of this translator.
            search: options of the search, see `with_search`.

        Returns:
            An iterator over the translations, in the order of the lines. A `str` is one line.

        Raises:
            DataError: a line is no text, or terms conflict.
            ConfigError: an option of the search is wrong, or `lines_at_once` is less than 1.
        """
        if lines_at_once < 1:
            raise ConfigError(f"lines_at_once={lines_at_once}: must be 1 or more")
        translator = self.with_search(**search)
        if glossary is not None:
            translator = translator.with_glossary(glossary)
        translator = translator.into(to) if to else translator
        return translator._stream([lines] if isinstance(lines, str) else lines, lines_at_once)

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
        self._require_a_pair()
        sources, targets = [], []
        for number, pair in enumerate(pairs, start=1):
            if isinstance(pair, str) or len(pair) != 2:
                raise DataError(f"pair {number:,} is {shown(pair)}: give a source and its translation")
            source, target = _checked(pair)
            sources.append(_tidied(source, *self.spelling))
            targets.append(_tidied(target, self.spelling.unicode_form))
        source_ids = [self._source_prefix + ids for ids in self.tokenizers.source.encode(sources)]
        target_ids = [self._target_prefix + ids for ids in self.tokenizers.target.encode(targets)]
        self._check_lengths(source_ids, target_ids)
        stepper = self._whole_stepper()
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
        self._require_a_pair()
        _require_judge(self.search, self._rank)
        own = self._prefixes(target_prefixes, len(lines))
        laid_out = [self._laid_out(line) for line in lines]
        for parts, first in zip(laid_out, own, strict=True):
            begin = next((inner for part in parts for inner in part.without_runs if inner.text), None)
            if begin and first:
                begin.prefix = first
        ahead = [part for parts in laid_out for part in parts]
        while ahead:
            self._find(ahead)
            ahead = [part for whole_part in ahead for part in whole_part.cut]
        found = [self._whole(parts) for parts in laid_out]
        if self._rank and self.search.rerank == "judge":
            found = reranked([_as_unicode(line) for line in lines], found, self._rank, self.search.n_best)
        return [
            self._finished(one, line, parts, has_prefix=first is not None)
            for one, line, parts, first in zip(found, lines, laid_out, own, strict=True)
        ]

    def _laid_out(self, line: str) -> list[LinePart]:
        """Return the parts of a line that are translated one by one: its sentences, or the whole line.

        Runs that are no language are never read, because their length would cost minutes.
        """
        runs = long_runs(line) if self.search.copy_unknown != "never" else []
        runs = [(start, end) for start, end in runs if is_visible(line[start:end])]
        if not runs:
            return self._sentences(line)
        clean = _as_unicode(line)
        between: list[LinePart] = []
        for text, copied in cut_at(clean if self._splits_sentences else on_one_line(clean), runs):
            parts = self._sentences(text) or [LinePart("")]
            parts[-1].after += copied
            between += parts
        return [LinePart.between(between)]

    def _sentences(self, line: str) -> list[LinePart]:
        def tidy(text: str) -> str:
            tidied = _tidied(text, *self.spelling)
            return tidied if is_visible(tidied) else ""

        if self._splits_sentences:
            clean = _as_unicode(line)
            return [LinePart(text, after) for text, after in layout_of(clean, self.spelling.language, tidy)]
        text = tidy(line)
        return [LinePart(text)] if text else []

    def _find(self, parts: Sequence[LinePart]) -> None:
        """Translate parts. What a vocabulary cannot spell is copied, or the part is cut there."""
        for part, ids in zip(parts, self.tokenizers.source.encode([part.text for part in parts]), strict=True):
            part.read(ids, self._pieces(part.text, ids), is_long=self._is_long(ids))
            if self._finder:
                part.terms = self._finder.find(part.text)
            if part.has_unknown and self._copies_unknown:
                part.spans = self._unknown.spans(part.text) or None
                part.is_known = self._has_known_words(ids)
            if len(part.pieces) > 1 and part.is_known:
                part.cut_into(by_punctuation(part.text))
        searched = [(part, piece) for part in parts if part.is_known and not part.cut for piece in part.pieces]
        target = self._target_prefix
        found = self._translate_ids(
            [piece for _, piece in searched],
            [target + (part.prefix if piece is part.pieces[0] else []) for part, piece in searched],
            [part.copies for part, _ in searched],
        )
        if self._finder:
            self._require_terms(searched, found)
        for (part, _), translation in zip(searched, found, strict=True):
            part.take(translation)

    def _require_terms(self, searched: Sequence[tuple[LinePart, list[int]]], found: list[Translation | None]) -> None:
        """Replace translations that lack a term by translations that have it, where there are any."""
        assert self._term_pieces
        lacking = [
            place
            for place, ((part, _), one) in enumerate(zip(searched, found, strict=True))
            if one and part.terms and any(missing(part.terms, choice.text) for choice in one.choices)
        ]
        required = {
            place: [forms for term in searched[place][0].terms if (forms := self._term_pieces.forms(term.targets))]
            for place in lacking
            if len(searched[place][0].pieces) == 1
        }
        places = [place for place, terms in required.items() if terms]
        again = self._translate_ids(
            [searched[place][1] for place in places],
            [self._target_prefix + searched[place][0].prefix for place in places],
            [searched[place][0].copies for place in places],
            [required[place] for place in places],
        )
        for place, better in zip(places, again, strict=True):
            former, terms = found[place], searched[place][0].terms
            left = missing(terms, better.text) if better else len(terms)
            if better and former and (not left or left < missing(terms, former.text)):
                found[place] = better

    def _has_known_words(self, ids: Sequence[int]) -> bool:
        """Return True if a part of a text with letters can be spelled."""
        source = self.tokenizers.source
        return any(map(str.isalpha, chain.from_iterable(source.piece(index) for index in ids if index > EOS_ID)))

    def _whole(self, parts: Sequence[LinePart]) -> Translation:
        """Return the translation of a line from the translations of its parts, with all candidates for a judge."""
        return whole(
            list(chain.from_iterable(part.groups() for part in parts)),
            self.between_sentences,
            self._status(parts)[0],
            self.search.of_candidates.n_best if self.search.rerank == "judge" else self.search.n_best,
            samples=self.search.method == "sample" or self.search.rerank == "mbr",
        )

    def _finished(self, found: Translation, line: str, parts: Sequence[LinePart], *, has_prefix: bool) -> Translation:
        """Return the translation of a line with its terms, and with its alignment between words."""
        if self._finder and (terms := [term for part in parts for term in part.all_terms()]):
            found = found.with_terms(len(terms), len(terms) - missing(terms, found.text))
        if not has_prefix:
            found = found.without_prefix()
        if self.aligner and self.search.alignments == "words":
            return found.aligned_by_words(self._read(parts) if self._status(parts)[1] else line)
        return found

    def _status(self, parts: Sequence[LinePart]) -> tuple[Status, bool]:
        """Return the status of a line by its parts, and whether its end was left out."""
        read = [inner for part in parts for inner in part.without_runs]
        has_runs = any(part.has_runs for part in parts)
        is_long = any(part.is_long for part in read)
        if is_long and self.search.long_lines == "cut":
            return "cut", True
        if has_runs and not any(part.text for part in read):
            return "no_language", False
        has_unknown = any(part.has_unknown for part in read)
        if has_unknown and not any(self._has_known_words(ids) for part in read for ids in part.pieces):
            return "unknown", False
        if has_runs:
            return "partly_no_language", False
        if has_unknown:
            return "partly_unknown", False
        return "split" if is_long else "ok", False

    def _ids_of(self, option: Literal["source_prefix", "target_prefix"], tokenizer: Tokenizer) -> list[int]:
        text = getattr(self.search, option)
        is_writable = text == text.encode("utf-8", "ignore").decode()  # half of a surrogate pair is not
        [ids] = tokenizer.encode([text]) if is_writable else [[UNK_ID]]
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
            return parts_of(line, self.tokenizers.source, self._most_tokens)
        return [ids[: self._most_tokens]] if ids else []

    def _read(self, parts: Sequence[LinePart]) -> str:
        """Return what the model reads of a line whose long sentences are cut."""
        source = self.tokenizers.source
        text = ""
        for part in (inner for outer in parts for inner in outer.without_runs):
            text += source.decode(part.pieces)[0] if part.is_long else part.text
            text += part.after or " "
        return text.rstrip(" ")

    def _prefixes(self, given: Sequence[str], lines: int) -> list[list[int] | None]:
        """Return the ids with which the target of each line begins.

        None if the tokenizer has no pieces for all of a prefix.
        """
        if given and len(given) != lines:
            raise DataError(
                f"{len(given):,} target prefixes for {counted(lines, 'line')}: give one for each line, "
                "empty for no prefix"
            )
        if not any(given):
            return [[]] * lines
        own = self.tokenizers.target.encode([_tidied(text, self.spelling.unicode_form) for text in given])
        return [None if UNK_ID in ids else ids for ids in own]

    def _translate_ids(
        self,
        pieces: Sequence[list[int]],
        prefixes: Sequence[list[int]],
        copies: Sequence[Sequence[str] | None],
        required: Sequence[Required] | None = None,
    ) -> list[Translation | None]:
        """Return one translation for each piece.

        Args:
            pieces: ids, of which none is empty or too long.
            prefixes: ids with which each target begins.
            copies: text for each <unk> of a piece, in order. None leaves them as they are. A hypothesis without a place
                for each copy is left out, and a piece without hypotheses has no translation.
            required: terms that the translations of each piece must contain. None means that there are none.
        """
        sources = [self._source_prefix + ids for ids in pieces]
        found = (
            self.search_ids(sources, prefixes) if required is None else self._with_terms(sources, prefixes, required)
        )
        texts = iter(self.tokenizers.target.decode([one.ids for hypotheses in found for one in hypotheses]))
        translations: list[Translation | None] = []
        for piece, prefix, hypotheses, copied in zip(pieces, prefixes, found, copies, strict=True):
            kept = [
                (text, one)
                for one, decoded in zip(hypotheses, islice(texts, len(hypotheses)), strict=True)
                if (text := decoded if copied is None else filled(decoded, copied)) is not None
            ]
            if kept and self.search.rerank == "mbr":
                order = ranked([text for text, _ in kept], self._log_probabilities([one for _, one in kept], prefix))
                kept = [kept[place] for place in order[: self.search.n_best]]
            # With byte_fallback, a model can produce any character, even a line break.
            scored = [
                Alternative(
                    _tidied(text, self.spelling.unicode_form),
                    one.score,
                    self._alignment(piece, one),
                    len(one.ids) - len(self._target_start),
                )
                for text, one in kept
            ]
            if not scored:
                translations.append(None)
                continue
            best = scored[0]
            status: Status = "unfinished" if kept[0][1].cut else "ok"
            translations.append(
                Translation(best.text, best.score, status, best.tokens, tuple(scored[1:]), best.alignment)
            )
        return translations

    def _log_probabilities(self, candidates: Sequence[Hypothesis], prefix: Sequence[int]) -> list[float] | None:
        """Return the log-probability of each candidate of a beam in nats, without its prefix.

        Samples have None: each one counts once, however probable it is.
        """
        if self.search.method == "sample":
            return None
        alpha = self.search.length_penalty
        return [one.score * length_penalty(len(one.ids) - len(prefix) + (not one.cut), alpha) for one in candidates]

    def _alignment(self, source: Sequence[int], found: Hypothesis) -> Alignment | None:
        """Return the links between the pieces of a source, without its prefix, and the pieces of a hypothesis."""
        if not self.aligner:
            return None
        first = len(self._target_start)
        links = tuple((one, other - first) for one, other in found.links if other >= first)
        pieces = self.tokenizers.source.piece, self.tokenizers.target.piece
        return Alignment(links, tuple(map(pieces[0], source)), tuple(map(pieces[1], found.ids[first:])))

    def search_ids(self, sources: Sequence[list[int]], prefixes: Sequence[list[int]]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, best first. This is the part of `translate` between reading and writing
        text. Where candidates are reranked by their text, it returns all of them.

        Args:
            sources: token ids, with `search.source_prefix` and without an end mark. None is empty or too long.
            prefixes: token ids with which the targets of each source begin.
        """

        def search_one(batch: Sequence[int]) -> list[list[Hypothesis]]:
            own = [sources[place] for place in batch]
            found = search_batch(self.stepper, own, self.search.of_candidates, [prefixes[place] for place in batch])
            return self.aligner.align(own, found, len(self._source_prefix)) if self.aligner else found

        return self._in_batches(list(map(len, sources)), search_one)

    def _with_terms(
        self, sources: Sequence[list[int]], prefixes: Sequence[list[int]], required: Sequence[Required]
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source that contain its terms, best first. There may be none."""
        assert self._term_pieces
        pieces, stepper = self._term_pieces, self._whole_stepper()

        def search_one(batch: Sequence[int]) -> list[list[Hypothesis]]:
            own = [sources[place] for place in batch]
            given = [prefixes[place] for place in batch]
            terms = [required[place] for place in batch]
            found = search_with_terms(stepper, own, self.search.of_candidates, given, terms, pieces)
            return self.aligner.align(own, found, len(self._source_prefix)) if self.aligner else found

        size = max((beam_size(self.search.of_candidates, one) for one in required), default=1)
        return self._in_batches(list(map(len, sources)), search_one, size)

    def _whole_stepper(self) -> Stepper:
        """Return the graphs that give the log-probability of each piece of the vocabulary."""
        return self._bundle.whole_stepper(self.search) if self._bundle else self.stepper

    def _in_batches(
        self, lengths: Sequence[int], compute: Callable[[Sequence[int]], list[Result]], rows: int = 0
    ) -> list[Result]:
        """Compute batches of items of similar length on the threads, and return the results in the order of the items.

        Args:
            lengths: tokens of each item, 1 or more.
            compute: function of the places of a batch that returns their results.
            rows: hypotheses of each item. 0 means as many as `search` needs.
        """
        if not lengths:
            return []
        most = most_sources(self.search.of_candidates, self.stepper.vocab_size, rows)
        batches = batches_by_length(lengths, self.search.batch_tokens, most)
        compute = denormals_as_zero()(compute)
        if self.threads == 1 or len(batches) < 2:
            results = list(map(compute, batches))
        else:  # one thread per batch, not many per matrix product, because a step is too small to be divided
            with ThreadPoolExecutor(self.threads, thread_name_prefix="translate") as pool:
                results = list(pool.map(compute, batches))
        by_place = dict(zip(chain.from_iterable(batches), chain.from_iterable(results), strict=True))
        return [by_place[place] for place in range(len(lengths))]


def _require_judge(search: SearchConfig, rank: Rank | None) -> None:
    """Raise an error if a search needs a judge and has none: a model by itself runs no program."""
    if search.rerank == "judge" and rank is None:
        name = search.judge.name if search.judge else ""
        raise ConfigError(
            f"search.rerank=judge: a model does not run the program of the judge {name!r} by itself: translate with "
            "`nmt translate`, or give the judge with Translator.with_judge, or set search.rerank to mbr or none"
        )


def _as_unicode(line: str) -> str:
    """Return the line with "?" in place of unpaired surrogates, which UTF-8 cannot hold."""
    return line.encode("utf-8", "replace").decode("utf-8")


def _chosen(option: Literal["auto", "always", "never"], automatic: bool) -> bool:
    return automatic if option == "auto" else option == "always"


def _tidied(line: str, form: UnicodeForm, punctuation: Punctuation = "as_is", language: str = "") -> str:
    """Return the line as training text is written. Unpaired surrogates, which UTF-8 cannot hold, become "?"."""
    return Spelling(form, punctuation, language).tidy(_as_unicode(line))


def _checked(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines, and raise a DataError at the first that is not text."""
    if isinstance(lines, bytes) or not isinstance(lines, Iterable):
        raise DataError(f"lines={shown(lines)}: give a str, or an iterable of str")
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise DataError(f"line {number:,} is {shown(line)}, not text: give a str for each line")
        yield line
