"""Report the filters that cannot check a language, so that the log does not suggest that its text has passed them."""

from nmt_core.config import SIDES, CleanConfig, LanguagesConfig
from nmt_core.corpus.cleaning import language_id
from nmt_core.corpus.cleaning.filters.scripts import letters_of


def notes(clean: CleanConfig, pair: LanguagesConfig) -> list[str]:
    """Return a line for each side and each active filter that does not support the side's language."""
    found = []
    for side in SIDES:
        code = getattr(pair, side)
        if clean.min_language_probability and not language_id.is_known(code):
            found.append(
                f"{code}, the {side} side's language, is unknown to all identifiers: "
                "clean.min_language_probability checks only the other side"
            )
        if clean.min_script_share and letters_of(code, pair.script(side)) is None:
            found.append(
                f"{code}, the {side} side's language, is written in a script that is not listed: "
                "clean.min_script_share checks only the other side"
            )
    return found
