"""Make suites from a test set: smaller test sets, each of which shows one ability of a model.

A suite is chosen or changed by a rule, without a model: the same test set always gives the same suite.
Three rules choose sentences and leave them as they are (numbers, names, negation). Four change the source, and the
reference where a good translation would change too (upper case, typing errors, tags, long lines). No rule knows
grammar, so each is as good as its description in `Suite.kind` says, and no better.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from nmt_core.augmentation.letters import in_capitals
from nmt_core.augmentation.typing_errors import with_typing_errors
from nmt_core.config import LanguagesConfig, Suite
from nmt_core.corpus import scripts
from nmt_core.errors import counted
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.scoring import Score

_NEGATIONS = {
    "de": (
        "nicht nichts nie niemals niemand niemanden niemandem nirgends nirgendwo ohne weder kein keine keinen keinem "
        "keiner keines"
    ),
    "en": (
        "not no never nothing none nowhere neither nor without cannot don't doesn't didn't isn't aren't wasn't weren't "
        "won't wouldn't can't couldn't shouldn't haven't hasn't hadn't"
        " nobody"
    ),
    "es": "no nunca jamás nada nadie ningún ninguno ninguna ningunos ningunas sin tampoco ni",
    "fr": "ne pas jamais rien aucun aucune sans ni",
    "it": "non mai niente nulla nessun nessuno nessuna senza né neanche nemmeno neppure",
    "nl": "niet niets nooit niemand nergens geen zonder noch",
    "pt": "não nunca jamais nada ninguém nenhum nenhuma nenhuns nenhumas sem nem tampouco",
}
"""Words of negation by language. Apostrophes are compared as if all were straight."""
_NEGATIONS_IN_WORDS = {"ko": ("않", "못", "없", "아니", "안 ", "말라", "말아")}
"""Parts of words that negate, for languages whose words take endings."""

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_ELIDED = re.compile(r"\bn'(?=\w)", re.IGNORECASE)
"""French `ne` before a vowel."""
_AFTER_AN_END = re.compile(r"(^|[.!?:;…。])[\W_]*$")
_MARKUP = re.compile(r"[<>]")


@dataclass(frozen=True)
class MadeSuite:
    """Suite of a test set, with the places of its sentences."""

    config: Suite
    test: TestSet
    """Sentences of the suite. Its name is the name of the test set, a plus and the kind."""
    places: tuple[int, ...]
    """Index in the test set of each sentence, or of the first one in each long line."""
    total: int
    """Number of sentences, or of whole long lines, in the test set."""
    problem: str = ""
    """Reason why the suite is not scored. Empty means that it is."""

    @property
    def is_selection(self) -> bool:
        """True if the sentences are unchanged, so that the test set's translations serve for the suite too."""
        return self.config.kind in _CHOOSE

    def comparable(self, texts: Sequence[str]) -> list[str]:
        """Return texts as they are scored: in lower case for the suite in capitals, and otherwise unchanged."""
        return [text.lower() for text in texts] if self.config.kind == "upper_case" else list(texts)

    @property
    def scored(self) -> TestSet:
        """Return the test set with its references as they are scored."""
        return replace(self.test, references=self.comparable(self.test.references))

    def signed(self, score: Score) -> Score:
        """Return a score whose signature says that case was ignored, as sacreBLEU's does, if it was."""
        if self.config.kind != "upper_case":
            return score
        signature = score.signature.replace("|case:mixed", "|case:lc")
        signature += "|case:lc" if "|case:lc" not in signature else ""
        return score.model_copy(update={"signature": signature})


def make_suites(test: TestSet, suites: Sequence[Suite], languages: LanguagesConfig) -> list[MadeSuite]:
    """Make the suites of a test set, in the order of the recipe."""
    return [_made(test, suite, languages) for suite in suites]


def _made(test: TestSet, suite: Suite, languages: LanguagesConfig) -> MadeSuite:
    name = f"{test.name}+{suite.kind}"
    if suite.kind == "negation" and not suite.words and languages.source not in _NEGATIONS | _NEGATIONS_IN_WORDS:
        problem = f"there are no built-in words of negation in {languages.source}: list some in `words` of the suite"
        return MadeSuite(suite, replace(test, name=name, sources=[], references=[]), (), len(test.sources), problem)
    if suite.kind == "long_lines":
        pairs = _joined(test, suite.joined)
        total = len(pairs)
    else:
        rule, total = _rule(suite, languages.source), len(test.sources)
        found = map(rule, test.sources, test.references)
        pairs = {place: pair for place, pair in enumerate(found) if pair is not None}
    sources, references = [source for source, _ in pairs.values()], [reference for _, reference in pairs.values()]
    problem = ""
    if len(pairs) < suite.min_sentences:
        what = "long line" if suite.kind == "long_lines" else "sentence"
        problem = (
            f"{test.name} has {counted(len(pairs), what)} for it, fewer than min_sentences={suite.min_sentences}: "
            "lower that, use a larger test set, or remove the suite"
        )
    return MadeSuite(
        suite, replace(test, name=name, sources=sources, references=references), tuple(pairs), total, problem
    )


Rule = Callable[[str, str], tuple[str, str] | None]
"""Function that returns a pair of the suite, or None if the rule does not apply to a source and its reference."""


def _rule(suite: Suite, language: str) -> Rule:
    """Return the rule of a suite, except for long lines, which consist of several pairs."""
    if suite.kind in _CHOOSE:
        applies = _CHOOSE[suite.kind](suite, language)
        return lambda source, reference: (source, reference) if applies(source, reference) else None
    if suite.kind == "typos":
        return lambda source, reference: _unless_same(source, _mistyped(source, suite, language), reference)
    if suite.kind == "upper_case":
        return lambda source, reference: _unless_same(source, in_capitals(source, language), reference)
    return _tagged


def _mistyped(source: str, suite: Suite, language: str) -> str:
    """Put typing errors into a source. They depend on nothing but the seed and the source."""
    return with_typing_errors(source, language, suite.rate, random.Random(f"{suite.seed}:{source}"))


def _unless_same(source: str, changed: str, reference: str) -> tuple[str, str] | None:
    return None if changed == source else (changed, reference)


def _has_number(source: str, reference: str) -> bool:
    return any(character.isdecimal() for character in source)


def _has_name(source: str, reference: str) -> bool:
    """Return True if a capitalised word, not at the beginning of a sentence, is in the reference too.

    Names that are spelt differently in the two languages, or in scripts without capitals, are not found.
    """
    known = set(_WORD.findall(reference))
    for match in _WORD.finditer(source):
        word = match[0]
        is_capitalised = len(word) > 1 and word[0].isupper() and word[1].islower()
        if is_capitalised and word in known and not _AFTER_AN_END.search(source[: match.start()]):
            return True
    return False


def _negates(suite: Suite, language: str) -> Callable[[str, str], bool]:
    words = set(map(_folded, suite.words)) or set(_NEGATIONS.get(language, "").split())
    phrases = [word for word in words if not _WORD.fullmatch(word)]
    parts = () if suite.words else _NEGATIONS_IN_WORDS.get(language, ())

    def applies(source: str, reference: str) -> bool:
        text = _folded(source)
        if language == "fr":
            text = _ELIDED.sub("ne ", text)
        is_listed = not words.isdisjoint(_WORD.findall(text)) or any(phrase in text for phrase in phrases)
        return is_listed or any(part in text for part in parts)

    return applies


def _folded(text: str) -> str:
    return text.lower().replace("\u2019", "'")


_CHOOSE: dict[str, Callable[[Suite, str], Callable[[str, str], bool]]] = {
    "numbers": lambda suite, language: _has_number,
    "names": lambda suite, language: _has_name,
    "negation": _negates,
}
"""Rules that choose sentences, by the kind of the suite."""


def _tagged(source: str, reference: str) -> tuple[str, str] | None:
    """Put the longest word that both sides have exactly once in tags, or else the whole line."""
    if _MARKUP.search(source) or _MARKUP.search(reference):
        return None
    words = _WORD.findall(source), _WORD.findall(reference)
    shared = [word for word in words[0] if all(side.count(word) == 1 for side in words)]
    if not shared:
        return f"<b>{source}</b>", f"<b>{reference}</b>"
    pattern = re.compile(rf"(?<![^\W_]){re.escape(max(shared, key=len))}(?![^\W_])")
    return pattern.sub(r"<b>\g<0></b>", source, count=1), pattern.sub(r"<b>\g<0></b>", reference, count=1)


def _joined(test: TestSet, number: int) -> dict[int, tuple[str, str]]:
    """Return lines of consecutive sentences by the index of their first one. A rest with fewer is left out."""
    between = ["" if scripts.is_mostly_unspaced(pl.Series(side)) else " " for side in (test.sources, test.references)]
    return {
        place: (
            between[0].join(test.sources[place : place + number]),
            between[1].join(test.references[place : place + number]),
        )
        for place in range(0, len(test.sources) - number + 1, number)
    }
