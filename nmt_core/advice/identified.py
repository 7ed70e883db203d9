"""Identify the languages of text by the two identifiers of `clean`, with no language expected."""

import polars as pl

from nmt_core.corpus.cleaning import language_id

_SENTENCES = 400
_ANY_SCRIPT = r"\p{Latin}"  # letters of all scripts are then kept
_FLOOR = 0.01
_SURE = 0.6


def languages_of(text: pl.Series, seed: int) -> dict[str, float]:
    """Return the languages of a text with their shares of its letters, the most frequent one first.

    A few hundred sentences are examined, and each counts for one language. The result is empty for text without
    letters.
    """
    letters = text.to_frame("text").select(letters=language_id.letters_of(pl.col("text"), _ANY_SCRIPT))["letters"]
    letters = letters.filter(letters != "")
    if letters.len() > _SENTENCES:
        letters = letters.sample(_SENTENCES, seed=seed)
    weights: dict[str, int] = {}
    for line in letters.to_list():
        language = _most_probable(line)
        weights[language] = weights.get(language, 0) + len(line)
    total = sum(weights.values())
    ordered = sorted(weights, key=lambda language: (-weights[language], language))
    return {language: weights[language] / total for language in ordered}


def _most_probable(letters: str) -> str:
    first, second = language_id.probabilities(letters)
    scores: dict[str, float] = {}
    for language in first.keys() | second.keys():
        group = language_id.alike(language)
        joint = 1.0
        for one in (first, second):
            joint *= max(sum(one.get(code, 0.0) for code in group), _FLOOR)
        scores[language] = joint * (1 + first.get(language, 0.0))  # of languages that are alike, the likelier one
    return max(scores, key=lambda language: (scores[language], language), default=language_id.UNDETERMINED)


def contradicts(shares: dict[str, float], language: str) -> str | None:
    """Return the language that most of a text is clearly in, if it cannot pass for the given one, or None."""
    found = next(iter(shares), None)
    if found is None or shares[found] < _SURE or not language_id.is_known(language):
        return None
    passes = language_id.known_language(language).near | language_id.alike(language)
    return None if found in passes else found


def is_sure(shares: dict[str, float]) -> bool:
    """Return True if one language has most of the text."""
    return bool(shares) and next(iter(shares.values())) >= _SURE
