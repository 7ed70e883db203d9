"""Check sentences that a model must translate correctly: the recipe's, and built-in ones for every language.

Numbers, addresses, placeholders and tags that have to be kept are found by the filters of `clean`.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, get_args

import polars as pl
from pydantic import BaseModel, ConfigDict

from nmt_core.config import SIDES, CleanConfig, EvaluateConfig, Kept, LanguagesConfig, MustTranslate
from nmt_core.config.section import later
from nmt_core.corpus import normalize
from nmt_core.corpus.cleaning.filters import agreement
from nmt_core.corpus.cleaning.thresholds import rules_for

SentenceKind = Literal["recipe", "numbers", "addresses", "placeholders"]
"""Origin of a sentence: the recipe, or a kind of the built-in ones."""

_BUILT_IN: dict[SentenceKind, tuple[Kept, tuple[str, ...]]] = {
    "numbers": ("numbers", ("7", "1984", "12:45", "3.14", "2,500")),
    "addresses": (
        "addresses",
        (
            "https://example.org/",
            "https://example.org/a/b?id=7&lang=en#top",
            "www.example.com/index.html",
            "user@example.org",
        ),
    ),
    "placeholders": ("placeholders", ("%s", "{name}", "${path}", "%1$s: %2$d", "{0} / {1}")),
}
"""Built-in sentences by kind. They contain no words of a language, so that they fit every language pair."""

_EVERYTHING = CleanConfig(
    numbers_must_match=True, addresses_must_match=True, placeholders_must_match=True, tags_must_match=True
)


class SentenceCheck(BaseModel):
    """Translation of one of the sentences by a model."""

    model_config = ConfigDict(frozen=True)
    kind: SentenceKind
    source: str
    translation: str
    pair: str = later("")
    """Pair of languages. Empty means the only pair of the recipe."""
    problem: str
    """Problem of the translation. Empty means that it is right."""


def sentences(config: EvaluateConfig, pairs: Sequence[str] = ()) -> list[tuple[SentenceKind, MustTranslate]]:
    """Return the sentences of the recipe, followed by the built-in ones in each of its pairs of languages."""
    main = pairs[0] if pairs else ""
    own: list[tuple[SentenceKind, MustTranslate]] = [
        ("recipe", sentence.model_copy(update={"pair": sentence.pair or main})) for sentence in config.must_translate
    ]
    return own + [
        (kind, MustTranslate(source=source, pair=pair, keep=(kept,)))
        for pair in pairs or ("",)
        for kind, (kept, sources) in _BUILT_IN.items()
        for source in sources
    ]


def check(config: EvaluateConfig, translations: Sequence[str], languages: LanguagesConfig) -> list[SentenceCheck]:
    """Check the translations of `sentences(config, languages.pairs)`, one for each sentence."""
    expected = sentences(config, languages.pairs)
    unlike: list[dict[Kept, str]] = [{} for _ in expected]
    for pair in dict.fromkeys(sentence.pair for _, sentence in expected):
        places = [place for place, (_, sentence) in enumerate(expected) if sentence.pair == pair]
        texts = [expected[place][1].source for place in places], [translations[place] for place in places]
        for place, changed in zip(places, _unlike(*texts, languages.of(pair) if pair else languages), strict=True):
            unlike[place] = changed
    return [
        SentenceCheck(
            kind=kind,
            source=sentence.source,
            translation=translation,
            pair=sentence.pair,
            problem="; ".join(
                [*_missing(sentence, translation), *(changed[kept] for kept in sentence.keep if kept in changed)]
            ),
        )
        for (kind, sentence), translation, changed in zip(expected, translations, unlike, strict=True)
    ]


def _missing(sentence: MustTranslate, translation: str) -> list[str]:
    text = unicodedata.normalize("NFC", translation)
    problems = [f"{part!r} is missing" for part in sentence.contains if unicodedata.normalize("NFC", part) not in text]
    problems += [f"{part!r} is in it" for part in sentence.not_contains if unicodedata.normalize("NFC", part) in text]
    if sentence.matches and not re.search(sentence.matches, text):
        problems.append(f"{sentence.matches!r} is not found")
    return problems


def _unlike(sources: Sequence[str], translations: Sequence[str], languages: LanguagesConfig) -> list[dict[Kept, str]]:
    """Return a message for each kind of text that a pair does not keep, by pair."""
    pairs = pl.DataFrame({"source": sources, "target": translations}, schema=dict.fromkeys(SIDES, pl.String))
    pairs = pairs.with_columns(normalize.with_western_digits(pl.col(SIDES)))  # in addresses and placeholders as well
    unlike: list[dict[Kept, str]] = [{} for _ in sources]
    for rule in agreement.filters(rules_for(_EVERYTHING, languages, "")):
        kept = next(kind for kind in get_args(Kept) if rule.reason.startswith(kind))
        judged = pairs.select(drop=rule.drop, value=rule.value)
        for place, (drop, value) in enumerate(judged.iter_rows()):
            if drop:
                unlike[place][kept] = f"{kept} differ: {value}"
    return unlike
