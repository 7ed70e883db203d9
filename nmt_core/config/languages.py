"""`languages`: what is translated into what."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from nmt_core.config.language_codes import canonical
from nmt_core.config.section import Section

Side = Literal["source", "target"]
"""One side of a sentence pair."""

SIDES: tuple[Side, Side] = ("source", "target")


def is_shortest_code(codes: str) -> str:
    """Tables of languages go by the shortest code: under another one, filters would find nothing to check."""
    for code in filter(None, codes.split("-")):
        if canonical(code) != code:
            raise ValueError(f"{code!r} is not the shortest ISO 639 code of this language: write {canonical(code)!r}")
    return codes


Language = Annotated[str, Field(pattern="^[a-z]{2,3}$"), AfterValidator(is_shortest_code)]


class LanguagesConfig(Section):
    """What is translated into what."""

    source: Language = "en"
    """Language of the source text, by its shortest ISO 639 code: en, and not eng."""
    target: Language = "ko"
    """Language of the target text, by its shortest ISO 639 code: ko, and not kor."""
