"""Sentences that a model must get right: those of the recipe, and a few that are the same in every language.

What has to be kept - numbers, addresses, placeholders, tags - is found as the filters of `clean` find it.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, get_args

import polars as pl
from pydantic import BaseModel, ConfigDict

from nmt_core.config import CleanConfig, EvaluateConfig, Kept, LanguagesConfig, MustTranslate
from nmt_core.corpus.cleaning.filters import agreement
from nmt_core.corpus.cleaning.thresholds import rules_for

SentenceKind = Literal["recipe", "numbers", "addresses", "placeholders"]
"""Whose sentence it is: the recipe's, or which of the built-in ones."""

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
"""No word of any language is in them, so that they serve every pair."""

_EVERYTHING = CleanConfig(
    numbers_must_match=True, addresses_must_match=True, placeholders_must_match=True, tags_must_match=True
)


class SentenceCheck(BaseModel):
    """How a model translates one of the sentences."""

    model_config = ConfigDict(frozen=True)
    kind: SentenceKind
    source: str
    translation: str
    problem: str
    """What is wrong with the translation; empty: nothing."""


def sentences(config: EvaluateConfig) -> list[tuple[SentenceKind, MustTranslate]]:
    """Those of the recipe, then the built-in ones."""
    own: list[tuple[SentenceKind, MustTranslate]] = [("recipe", sentence) for sentence in config.must_translate]
    return own + [
        (kind, MustTranslate(source=source, keep=(kept,)))
        for kind, (kept, sources) in _BUILT_IN.items()
        for source in sources
    ]


def check(config: EvaluateConfig, translations: Sequence[str], languages: LanguagesConfig) -> list[SentenceCheck]:
    """Look at the translations of `sentences(config)`, one for each."""
    asked = sentences(config)
    unlike = _unlike([sentence.source for _, sentence in asked], translations, languages)
    return [
        SentenceCheck(
            kind=kind,
            source=sentence.source,
            translation=translation,
            problem="; ".join(
                [*_missing(sentence, translation), *(found[kept] for kept in sentence.keep if kept in found)]
            ),
        )
        for (kind, sentence), translation, found in zip(asked, translations, unlike, strict=True)
    ]


def _missing(sentence: MustTranslate, translation: str) -> list[str]:
    text = unicodedata.normalize("NFC", translation)
    problems = [f"{part!r} is missing" for part in sentence.contains if unicodedata.normalize("NFC", part) not in text]
    problems += [f"{part!r} is in it" for part in sentence.not_contains if unicodedata.normalize("NFC", part) in text]
    if sentence.matches and not re.search(sentence.matches, text):
        problems.append(f"{sentence.matches!r} is not found")
    return problems


def _unlike(sources: Sequence[str], translations: Sequence[str], languages: LanguagesConfig) -> list[dict[Kept, str]]:
    """For each pair what of it is not kept, by its kind, in words."""
    digits = [[_western_digits(text) for text in side] for side in (sources, translations)]
    pairs = pl.DataFrame(dict(zip(("source", "target"), digits, strict=True)))
    found: list[dict[Kept, str]] = [{} for _ in sources]
    for rule in agreement.filters(rules_for(_EVERYTHING, languages, "")):
        kept = next(kind for kind in get_args(Kept) if rule.reason.startswith(kind))
        judged = pairs.select(drop=rule.drop, value=rule.value)
        for place, (drop, value) in enumerate(judged.iter_rows()):
            if drop:
                found[place][kept] = f"{kept} differ: {value}"
    return found


def _western_digits(text: str) -> str:
    """The text with the digits of every script as 0 to 9: a number is kept in whichever of them it is written."""
    return "".join(str(unicodedata.decimal(character, character)) for character in text)
