"""Resolve the thresholds for one corpus in one pair of languages.

There are four levels. For each option, a later level wins:

1. the values of `clean` itself
2. entries of `clean.overrides` that name this pair of languages and no corpus
3. entries that name this corpus and no pair
4. entries that name both

If two entries are on the same level, the later one in the recipe wins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from nmt_core.config import SIDES, CleanConfig, FilterConfig, LanguagesConfig, Side
from nmt_core.config.faults import problem_of
from nmt_core.errors import ConfigError

# Number of characters that a language needs for one English character, weighed by their scripts (`corpus/scripts.py`).
# Measured: German 1.09 (newstest2014) to 1.20 (Debian), French 1.15 and Czech 0.86 (Multi30k; captions). For other
# languages 1 is close enough for a ratio that may be as large as 4.
_CHARACTERS = {"en": 1.0, "de": 1.15, "fr": 1.15, "cs": 0.9}


@dataclass(frozen=True)
class CleanRules:
    """Rules that decide whether a pair of one corpus is kept."""

    thresholds: FilterConfig
    """Thresholds of this corpus in this pair."""
    clean: CleanConfig
    """Section `clean` of the recipe, for the rules of all corpora: spelling, scores, external filters."""
    languages: LanguagesConfig
    """Source and target language."""
    selection: str = ""
    """Address of the models of `cross_entropy.py`, if a score needs them."""
    sides: tuple[Side, ...] = SIDES
    """Sides that are checked: both, or the one of monolingual text. Conditions on pairs need both."""
    word_lists: Mapping[str, str] = field(default_factory=dict)
    """Addresses of the phrases of `filters/word_lists.py`, by the side that has a list."""

    @property
    def codes(self) -> dict[Side, str]:
        """ISO 639 code of the language of each side that is checked."""
        return {side: getattr(self.languages, side) for side in self.sides}


def rules_for(config: CleanConfig, languages: LanguagesConfig, corpus: str) -> CleanRules:
    """Return the rules for the corpus of this name.

    Raises:
        ConfigError: thresholds from different levels contradict each other.
    """
    pair = f"{languages.source}-{languages.target}"
    values = {name: getattr(config, name) for name in FilterConfig.model_fields}
    for scope in ((pair, ""), ("", corpus), (pair, corpus)):
        for override in config.overrides:
            if (override.pair, override.corpus) == scope:
                values |= override.model_dump(exclude={"pair", "corpus"}, exclude_none=True)
    try:  # each value is within its bounds, but values of two levels may contradict each other
        thresholds = FilterConfig.model_validate(values)
    except ValidationError as error:
        message = problem_of(error.errors()[0])
        raise ConfigError(f"clean.overrides, for the corpus {corpus!r} in {pair}: {message}") from None
    return CleanRules(thresholds, config, languages)


def usual_length_ratio(languages: LanguagesConfig) -> float:
    """Return the usual number of source characters for one target character, both weighed by their scripts."""
    return _CHARACTERS.get(languages.source, 1.0) / _CHARACTERS.get(languages.target, 1.0)
