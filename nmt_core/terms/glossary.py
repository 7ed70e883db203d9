"""Find the terms of a glossary in a text, and count those that a translation has.

Case is folded and offsets are kept: `STRASSE` is found in `Straße`. Of terms that overlap, the first one is taken, and
of those that begin at the same place the longest.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nmt_core.errors import ConfigError, DataError, shown
from nmt_core.spelling import Spelling
from nmt_core.terms.borders import begins_word, ends_word

ALTERNATIVES = "|"
"""Character between several forms of a term, or between several translations of it."""

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]|_")
Lemmatise = Callable[[str], str]


class Term(NamedTuple):
    """Term and its translations."""

    source: str
    targets: tuple[str, ...] = ()
    """Accepted translations. Empty means that the term stays as it is written in the text."""
    exact_case: bool = False
    """True if upper and lower case of the source matter, as in `IT` and `it`."""
    inflected: bool = False
    """True if inflected forms of the source are the same term."""

    @property
    def title(self) -> str:
        """The term for a message."""
        return f"{self.source} = {f' {ALTERNATIVES} '.join(self.targets)}" if self.targets else self.source


class Occurrence(NamedTuple):
    """Place of a term in a text."""

    start: int
    end: int
    targets: tuple[str, ...]
    """Accepted translations, as they are written."""


def has_inner_capitals(term: str) -> bool:
    """Return True for abbreviations and names such as `IT` or `macOS`, whose case matters."""
    return any(map(str.isupper, term[1:])) and not any(map(str.isspace, term))


def terms_from(
    source: str, target: str | None, *, exact_case: bool | None = None, inflected: bool = False
) -> list[Term]:
    """Return a term for each form of a source. Forms and translations are separated by `|`.

    Args:
        source: the source.
        target: its translations. None or empty keeps the term.
        exact_case: see `Term`. None means true for abbreviations and names with capitals inside.
        inflected: see `Term`.
    """
    targets = alternatives_of(target or "")
    return [
        Term(one, targets, has_inner_capitals(one) if exact_case is None else exact_case, inflected)
        for one in alternatives_of(source)
    ]


def alternatives_of(text: str) -> tuple[str, ...]:
    """Return the parts of a text between `|`, without spaces around them and without empty ones."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, text.split(ALTERNATIVES)))))


def terms_of(given: Mapping[str, str | None] | Sequence[Term] | Sequence[str]) -> tuple[Term, ...]:
    """Return terms from a mapping of sources to targets, from lines `source<tab>target`, or from terms.

    Raises:
        DataError: an item is no term, or two terms conflict.
    """
    terms: list[tuple[Term, str]] = []
    items: Iterable[Any] = given.items() if isinstance(given, Mapping) else [given] if isinstance(given, str) else given
    for number, item in enumerate(items, start=1):
        match item:
            case Term():
                own = [item] if item.source.strip() else []
            case str():
                source, _, target = item.partition("\t")
                own = terms_from(source, target)
            case (str(source), str() | None as target):
                own = terms_from(source, target)
            case _:
                raise DataError(
                    f"term {number:,} is {shown(item)}: give a text and its translation, or None to keep it"
                )
        if not own:
            raise DataError(f"term {number:,} has no source: remove it, or give the text to look for")
        terms += [(term, f"term {number:,}") for term in own]
    require_no_conflicts(terms)
    return tuple(dict.fromkeys(term for term, _ in terms))


def require_no_conflicts(terms: Iterable[tuple[Term, str]]) -> None:
    """Check that no term has two different translations.

    Args:
        terms: terms, each with its place for the message.

    Raises:
        DataError: a term has two different translations.
    """
    seen: dict[tuple[str, bool], tuple[Term, str]] = {}
    for term, place in terms:
        key = (term.source if term.exact_case else term.source.casefold(), term.exact_case)
        former, where = seen.setdefault(key, (term, place))
        if former.targets != term.targets:
            both = [f" {ALTERNATIVES} ".join(one.targets) or "no translation" for one in (former, term)]
            raise DataError(
                f"{place}: {term.source!r} has the translation {both[1]!r}, but {both[0]!r} at {where}: keep one of "
                f"them, or accept both with `{both[0]} {ALTERNATIVES} {both[1]}`"
            )


def identity_of(terms: Sequence[Term]) -> str:
    """Return a hash of terms, whatever their order."""
    rows = sorted([term.source, list(term.targets), term.exact_case, term.inflected] for term in terms)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


class TermFinder:
    """Finder of terms. Threads may share it.

    Args:
        terms: the terms.
        spelling: spelling of the text in which they are looked for. The terms are spelled like it.

    Raises:
        ConfigError: a package is missing, or inflected forms of the language are not known.
    """

    def __init__(self, terms: Sequence[Term], spelling: Spelling) -> None:
        target_spelling = Spelling(spelling.unicode_form)
        self.terms = tuple(terms)
        self._by_key: dict[str, list[Term]] = {}
        self._by_lemmas: dict[str, list[Term]] = {}
        self._lemmatise = lemmatiser(spelling.language) if any(term.inflected for term in terms) else None
        for term in terms:
            tidied = term._replace(
                source=spelling.tidy(term.source), targets=tuple(map(target_spelling.tidy, term.targets))
            )
            if tidied.source:
                self._by_key.setdefault(tidied.source.casefold(), []).append(tidied)
            if tidied.source and term.inflected and self._lemmatise:
                key, _ = _lemmas_of(tidied.source, self._lemmatise)
                self._by_lemmas.setdefault(key, []).append(tidied)
        self._keys, self._find_keys = _automaton(self._by_key)
        self._lemma_keys, self._find_lemmas = _automaton(self._by_lemmas)

    def find(self, text: str) -> list[Occurrence]:
        """Return the places of the terms in a text, which is spelled as the finder expects. None overlap."""
        candidates = list(self._as_written(text))
        if self._by_lemmas:
            candidates += self._inflected(text)
        occurrences: list[Occurrence] = []
        end = 0
        for start, negative_end, _, term in sorted(candidates, key=lambda one: one[:3]):
            if start >= end:
                end = -negative_end
                occurrences.append(Occurrence(start, end, term.targets or (text[start:end],)))
        return occurrences

    def _as_written(self, text: str) -> Iterator[tuple[int, int, bool, Term]]:
        folded, place = _folded(text)
        for number, first, last in self._find_keys(folded, overlapping=True):
            if place:
                if (first and place[first] == place[first - 1]) or (
                    last < len(folded) and place[last] == place[last - 1]
                ):
                    continue  # within a letter, such as one s of ß
                first, last = place[first], place[last - 1] + 1
            if not _is_whole(text, first, last):
                continue
            for term in self._by_key[self._keys[number]]:
                if not term.exact_case or text[first:last] == term.source:
                    yield first, -last, not term.exact_case, term

    def _inflected(self, text: str) -> Iterator[tuple[int, int, bool, Term]]:
        assert self._lemmatise
        lemmas, places = _lemmas_of(text, self._lemmatise)
        starts = {begin: number for number, (begin, _, _) in enumerate(places)}
        for number, first, _ in self._find_lemmas(lemmas, overlapping=True):
            key = self._lemma_keys[number]
            begin = starts.get(first)
            if begin is not None:
                start, end = places[begin][1], places[begin + key.count("\n") - 2][2]
                yield from ((start, -end, True, term) for term in self._by_lemmas[key])


def missing(occurrences: Sequence[Occurrence], translation: str) -> int:
    """Return the number of occurrences whose translations are not in a text.

    A translation counts if it is written as it is given, or with a capital at its beginning.
    """
    needed = Counter(one.targets for one in occurrences)
    return sum(max(0, count - _count(targets, translation)) for targets, count in needed.items())


def with_capital(text: str) -> str:
    """Return a text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def lemmatiser(language: str) -> Lemmatise:
    """Return a function that returns the dictionary form of a word.

    Raises:
        ConfigError: the package `simplemma` is missing, or does not know the language.
    """
    try:
        import simplemma
    except ImportError:
        raise ConfigError(
            "inflected forms of terms need the package simplemma: pip install 'nmt-pipeline[forms]', or give the "
            "forms in the glossary"
        ) from None
    code = re.split("[-_]", language)[0]
    try:
        simplemma.lemmatize("a", lang=code)
    except ValueError:
        raise ConfigError(
            f"inflected forms of terms are not known for the language {language!r}: give the forms in the glossary, "
            f"separated by {ALTERNATIVES!r}"
        ) from None
    return lambda word: str(simplemma.lemmatize(word, lang=code)).casefold()


def _automaton(keys: Mapping[str, Any]) -> tuple[list[str], Callable[..., list[tuple[int, int, int]]]]:
    """Return patterns, and a function that finds all of them in a text, with character offsets."""
    patterns = list(keys)
    if not patterns:
        return [], lambda text, overlapping: []
    try:
        from ahocorasick_rs import AhoCorasick
    except ImportError:
        raise ConfigError("a glossary needs the package ahocorasick-rs: pip install ahocorasick-rs") from None
    return patterns, AhoCorasick(patterns).find_matches_as_indexes


def _folded(text: str) -> tuple[str, list[int] | None]:
    """Return a text with folded case, and the place in the text of each of its characters if they differ."""
    folded = text.casefold()
    if len(folded) == len(text):
        return folded, None
    return folded, [place for place, character in enumerate(text) for _ in character.casefold()]


def _is_whole(text: str, start: int, end: int) -> bool:
    return begins_word(text[start - 1 : start], text[start]) and ends_word(text[end - 1], text[end : end + 1])


def _lemmas_of(text: str, lemmatise: Lemmatise) -> tuple[str, list[tuple[int, int, int]]]:
    """Return the dictionary forms of the words of a text, each between line feeds.

    Also return for each word the place of the line feed before its form, and the place of the word in the text.
    """
    lemmas, places = "\n", []
    for match in _WORD.finditer(text):
        places.append((len(lemmas) - 1, *match.span()))
        lemmas += f"{lemmatise(match[0])}\n"
    return lemmas, places


def _count(targets: Sequence[str], text: str) -> int:
    """Return how often one of the translations is in a text, without overlaps."""
    spans = set[tuple[int, int]]()
    for form in {other for target in targets for other in (target, with_capital(target))}:
        start = text.find(form)
        while start >= 0:
            if form and _is_whole(text, start, start + len(form)):
                spans.add((start, -start - len(form)))
            start = text.find(form, start + 1)
    count = end = 0
    for start, negative_end in sorted(spans):
        if start >= end:
            count, end = count + 1, -negative_end
    return count
