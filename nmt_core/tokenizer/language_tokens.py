"""Find the token that names the target language, in a model for many pairs of languages.

The token is a control symbol of the vocabulary, so no text can spell it: a sentence that holds `<2de>` is cut into
pieces as any other text.
"""

from typing import NamedTuple

from nmt_core.config import LanguagesConfig, tag_of
from nmt_core.config.language_codes import parse_tag
from nmt_core.errors import ConfigError
from nmt_core.tokenizer.tokenizer import Tokenizers


class LanguageToken(NamedTuple):
    """Ids with which each side of a sentence begins: one on the side of the token, and none on the other."""

    source: list[int]
    target: list[int]


NO_TOKEN = LanguageToken([], [])
"""Token of a model for one pair of languages, which has none."""


def pair_for(languages: LanguagesConfig, to: str) -> str:
    """Return the pair of languages that a request means. Empty means the only pair of a model for one pair.

    Args:
        languages: languages of the model.
        to: target language, such as de, or a pair, such as en-de. A pair also says which language the source is in,
            for the splitting of sentences and for checks. A language alone means its first pair in the recipe. Empty
            is enough for a model with one target language.

    Raises:
        ConfigError: the model does not know the language or the pair, or nothing is named and it knows several.
    """
    parsed = parse_tag(to)
    names = {to, str(parsed)} if parsed else {to}
    if not languages.pairs:
        if not to or names & {languages.pair, languages.target, languages.tag("target")}:
            return ""
        raise ConfigError(f"to={to!r}: the model translates {languages.pair} only: leave it out, or use another model")
    targets = ", ".join(languages.targets)
    if not to and len(languages.targets) > 1:
        raise ConfigError(
            f"no target language is named, and the model knows several: name one of {targets}, or a pair such as "
            f"{languages.pairs[0]}"
        )
    if to in languages.known_pairs:
        return to
    for pair in languages.pairs:
        if not to or pair.split("-")[1] in names:
            return pair
    raise ConfigError(
        f"to={to!r}: the model does not know it: name one of {targets}, or one of its pairs "
        f"({', '.join(languages.known_pairs)})"
    )


def language_token(languages: LanguagesConfig, pair: str, tokenizers: Tokenizers) -> LanguageToken:
    """Return the token that names the target language of a pair.

    Args:
        languages: languages of the model.
        pair: pair of languages, such as en-de.
        tokenizers: tokenizers of the model.

    Raises:
        ModelError: the vocabulary has no such token.
    """
    if not languages.pairs:
        return NO_TOKEN
    ids = [getattr(tokenizers, languages.tag_side).id_of(tag_of(pair.split("-")[1]))]
    return LanguageToken(ids, []) if languages.tag_side == "source" else LanguageToken([], ids)
