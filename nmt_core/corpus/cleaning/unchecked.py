"""Report the filters that cannot check a language, so that the log does not suggest that its text has passed them."""

from collections.abc import Iterator

from nmt_core.config import SIDES, CleanConfig, LanguagesConfig
from nmt_core.corpus.cleaning import language_id
from nmt_core.corpus.cleaning.filters.language_scripts import letters_of


def notes(clean: CleanConfig, pair: LanguagesConfig) -> list[str]:
    """Return a line for each side and each active filter that does not support the side's language."""
    lines: list[str] = []
    for side in SIDES:
        code = getattr(pair, side)
        other = pair.target if side == "source" else pair.source
        place = f"{code}, the {side} side's language,"
        if clean.limit("min_language_probability", side) and not clean.identifier:
            lines += _of_identification(place, code, other)
        if clean.limit("min_script_share", side) and letters_of(code, pair.script(side)) is None:
            lines.append(f"{place} is written in an unknown script: clean.min_script_share checks only the other side")
    return lines


def _of_identification(place: str, code: str, other: str) -> Iterator[str]:
    if not language_id.is_known(code):
        yield (
            f"{place} was not measured, or its text is taken for other languages too often: "
            "clean.min_language_probability checks only the other side (clean.identifier may name an identifier that "
            "knows it)"
        )
        return
    near = language_id.known_language(code).near
    if near & language_id.alike(other):
        yield (
            f"{place} is too near to {other} for the identifiers: clean.min_language_probability keeps text in {other} "
            "on that side"
        )
    elif further := sorted(near - language_id.alike(code)):
        yield (
            f"{place} is taken for {', '.join(further)} by the identifiers: clean.min_language_probability keeps text "
            "in these too"
        )
