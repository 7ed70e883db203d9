"""Compare language tags in files: `de`, `deu`, `ger`, `DE-at` and `de_CH` are all German, and `no` may be `nb`."""

from typing import Literal

from nmt_core.config.language_codes import canonical, fit
from nmt_core.formats.layout import Layout

__all__ = ["Direction", "canonical", "direction", "fit", "same_language"]


def same_language(tag: str, code: str) -> bool:
    """Return True if the tag of a text fits the language of a recipe, regardless of letter case and code length.

    See `fit` for scripts, regions and macro-languages.
    """
    return fit(tag, code) > 0


Direction = Literal["forward", "backward", "other"]


def direction(source_tag: str, target_tag: str, layout: Layout) -> Direction:
    """Return the direction of a file relative to the corpus: `forward`, `backward` or `other`.

    An empty tag matches any language.
    """
    forward = layout.source_language, layout.target_language
    if _fits(source_tag, forward[0]) and _fits(target_tag, forward[1]):
        return "forward"
    if _fits(source_tag, forward[1]) and _fits(target_tag, forward[0]):
        return "backward"
    return "other"


def _fits(tag: str, language: str) -> bool:
    return not tag or same_language(tag, language)
