"""Report the filters that cannot check a language, so that the log does not suggest that its text has passed them."""

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus.cleaning import language_id
from nmt_core.corpus.cleaning.filters.base import languages_by_side
from nmt_core.corpus.cleaning.filters.scripts import SCRIPT_OF_LANGUAGE


def notes(clean: CleanConfig, pair: LanguagesConfig) -> list[str]:
    """Return a line for each side and each active filter that does not support the side's language."""
    found = []
    for side, code in languages_by_side(pair).items():
        if clean.limit("min_language_probability", side) and not language_id.is_known(code):
            found.append(
                f"{code}, the {side} side's language, is unknown to all identifiers: "
                "clean.min_language_probability checks only the other side"
            )
        if clean.limit("min_script_share", side) and code not in SCRIPT_OF_LANGUAGE:
            found.append(
                f"{code}, the {side} side's language, is written in several scripts or in an unknown one: "
                "clean.min_script_share checks only the other side"
            )
    return found
