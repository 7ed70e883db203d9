"""Which filters find nothing to look at in a language: who reads the log should not take them for passed."""

from nmt_core.config import CleanConfig, LanguagesConfig
from nmt_core.corpus.cleaning import language_id
from nmt_core.corpus.cleaning.filters.base import languages_by_side
from nmt_core.corpus.cleaning.filters.scripts import SCRIPT_OF_LANGUAGE


def notes(clean: CleanConfig, pair: LanguagesConfig) -> list[str]:
    """A line for each side and each filter that is switched on and does not know the side's language."""
    found = []
    for side, code in languages_by_side(pair).items():
        if clean.min_language_probability and not language_id.is_known(code):
            found.append(
                f"{code}, the {side} side's language, is not identified: no identifier knows it, and "
                "clean.min_language_probability looks at the other side alone"
            )
        if clean.min_script_share and code not in SCRIPT_OF_LANGUAGE:
            found.append(
                f"{code}, the {side} side's language, is written in several scripts or in one that is not known here: "
                "clean.min_script_share looks at the other side alone"
            )
    return found
