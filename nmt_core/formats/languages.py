"""Names of languages in files: `de`, `deu`, `ger`, `DE-at` and `de_CH` are all German."""

from typing import Literal

from nmt_core.config.language_codes import canonical
from nmt_core.formats.layout import Layout

__all__ = ["Direction", "canonical", "direction", "same_language"]


def same_language(tag: str, code: str) -> bool:
    """Whether two tags name the same language, whatever the region, the case and the length of the code."""
    return canonical(tag) == canonical(code)


Direction = Literal["forward", "backward", "other"]


def direction(source_tag: str, target_tag: str, layout: Layout) -> Direction:
    """How a file that says what it translates from and to lies to the corpus; a tag that is empty fits any language."""
    forward = layout.source_language, layout.target_language
    if _fits(source_tag, forward[0]) and _fits(target_tag, forward[1]):
        return "forward"
    if _fits(source_tag, forward[1]) and _fits(target_tag, forward[0]):
        return "backward"
    return "other"


def _fits(tag: str, language: str) -> bool:
    return not tag or same_language(tag, language)
