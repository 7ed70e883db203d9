"""`languages`: source and target language."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from nmt_core.config.language_codes import canonical
from nmt_core.config.section import Section

Side = Literal["source", "target"]
"""Side of a sentence pair."""

SIDES: tuple[Side, Side] = ("source", "target")


def is_shortest_code(codes: str) -> str:
    """Return a language code, or a pair such as `en-ko`, if it is the shortest code of its language.

    The tables of languages use the shortest codes, so filters would not recognise any other code.

    Raises:
        ValueError: a code is not the shortest one.
    """
    for code in filter(None, codes.split("-")):
        if canonical(code) != code:
            raise ValueError(f"{code!r} is not the shortest ISO 639 code of this language: write {canonical(code)!r}")
    return codes


Language = Annotated[str, Field(pattern="^[a-z]{2,3}$"), AfterValidator(is_shortest_code)]


class LanguagesConfig(Section):
    """Source and target language."""

    source: Language = "en"
    """Language of the source text: its shortest ISO 639 code, such as en (not eng)."""
    target: Language = "ko"
    """Language of the target text: its shortest ISO 639 code, such as ko (not kor)."""
