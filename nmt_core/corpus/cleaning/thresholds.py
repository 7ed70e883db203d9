"""The thresholds that hold for one corpus in one pair of languages.

They are found on four levels, of which a later one wins, knob by knob:

1. the values of `clean` itself,
2. those of `clean.overrides` that name this pair of languages and no corpus,
3. those that name this corpus and no pair,
4. those that name both.

Of two overrides on one level the later in the recipe wins. What is then still 0 and means "what is usual between the
languages" - `expected_length_ratio` - comes from the built-in table of languages below.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from nmt_core.config import CleanConfig, FilterConfig, LanguagesConfig
from nmt_core.errors import ConfigError

# Characters that a language needs for what English says in one. Measured: German 1.09 (newstest2014) to 1.20 (Debian),
# French 1.15 and Czech 0.86 (Multi30k; captions), Korean 0.49 (news, talks) to 0.55 (Debian, essays). Japanese and
# Chinese are rounded from what is usual in news text, not measured. For other languages 1 is near enough for a ratio
# that may be as large as 4.
_CHARACTERS = {"en": 1.0, "de": 1.15, "fr": 1.15, "cs": 0.9, "ko": 0.5, "ja": 0.45, "zh": 0.33, "yue": 0.33}


@dataclass(frozen=True)
class CleanRules:
    """All that decides whether a pair of one corpus is kept."""

    thresholds: FilterConfig
    """The thresholds of this corpus in this pair; `expected_length_ratio` is never 0."""
    clean: CleanConfig
    """The recipe's section, for what holds for all corpora: spelling, scores, further filters."""
    languages: LanguagesConfig
    """What is translated into what."""
    selection: str = ""
    """Where the models of `selection.py` are, if a score asks for them."""
    word_lists: Mapping[str, str] = field(default_factory=dict)
    """Where the phrases of `filters/word_lists.py` are, by the side that has a list."""


def rules_for(config: CleanConfig, languages: LanguagesConfig, corpus: str) -> CleanRules:
    """The rules for the corpus of this name.

    Raises:
        ConfigError: the thresholds that meet here contradict each other.
    """
    pair = f"{languages.source}-{languages.target}"
    values = {name: getattr(config, name) for name in FilterConfig.model_fields}
    for scope in ((pair, ""), ("", corpus), (pair, corpus)):
        for override in config.overrides:
            if (override.pair, override.corpus) == scope:
                values |= override.model_dump(exclude={"pair", "corpus"}, exclude_none=True)
    if not values["expected_length_ratio"]:
        values["expected_length_ratio"] = expected_length_ratio(languages)
    try:  # each value is within its bounds, but those of two levels may not fit together
        thresholds = FilterConfig.model_validate(values)
    except ValidationError as error:
        message = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(f"clean.overrides, for the corpus {corpus!r} in {pair}: {message}") from None
    return CleanRules(thresholds, config, languages)


def expected_length_ratio(languages: LanguagesConfig) -> float:
    """How many source characters say as much as one target character, as a rule."""
    return _CHARACTERS.get(languages.source, 1.0) / _CHARACTERS.get(languages.target, 1.0)
