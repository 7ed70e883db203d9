"""`languages`: source and target language."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    field_validator,
    model_validator,
)

from nmt_core.config.language_codes import canonical, parse_tag
from nmt_core.config.section import Section, later

Side = Literal["source", "target"]
"""Side of a sentence pair."""

SIDES: tuple[Side, Side] = ("source", "target")
OTHER_SIDE: dict[Side, Side] = {"source": "target", "target": "source"}


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


_PATTERN = "^[A-Za-z]{2,3}([-_@.][A-Za-z0-9]+)*$"  # a form shows it: a tag is taken apart before it is stored
_VARIANT = "^([A-Z][a-z]{3})?(_?([A-Z]{2}|[0-9]{3}))?$"

Language = Annotated[str, Field(pattern=_PATTERN), AfterValidator(is_shortest_code)]


class LanguagesConfig(Section):
    """Source and target language."""

    source: Language = "en"
    """Language of the source text: its shortest ISO 639 code, such as en (not eng). A script, a region, or both may
    follow where a corpus distinguishes them, as in zh_Hant, sr_Latn and pt_BR. Without them, text in any script and
    from any region is accepted."""
    target: Language = "ko"
    """Language of the target text: its shortest ISO 639 code, such as ko (not kor). A script, a region, or both may
    follow, as in zh_Hant, sr_Latn and pt_BR."""
    source_variant: str = later("", pattern=_VARIANT)
    """Script and region of the source text, if `source` names them: Hant, BR or Hant_TW. Empty means any."""
    target_variant: str = later("", pattern=_VARIANT)
    """Script and region of the target text, if `target` names them: Hant, BR or Hant_TW. Empty means any."""

    def tag(self, side: Side) -> str:
        """Return the language of a side with its script and region, such as `zh_Hant`."""
        return "_".join(filter(None, (getattr(self, side), getattr(self, f"{side}_variant"))))

    def script(self, side: Side) -> str:
        """Return the ISO 15924 code of the script that the recipe names for a side. Empty means any script."""
        tag = parse_tag(self.tag(side))
        return tag.known_script if tag else ""

    @model_validator(mode="before")
    @classmethod
    def _take_tags_apart(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        parts: dict[str, str] = {}
        for side in SIDES:
            tag = values.get(side)
            parsed = parse_tag(tag) if isinstance(tag, str) else None
            if not parsed or not parsed.variant:
                continue
            if values.get(f"{side}_variant") not in (None, "", parsed.variant):
                raise ValueError(
                    f"{side}={tag!r} and {side}_variant={values[f'{side}_variant']!r}: give one of the two"
                )
            parts |= {side: parsed.language, f"{side}_variant": parsed.variant}
        return values | parts

    @field_validator(*SIDES)
    @classmethod
    def _is_a_code(cls, code: str) -> str:
        if not code.islower() or not code.isalpha():
            raise ValueError(
                f"{code!r} is not the tag of a language: write an ISO 639 code, with a script or a region behind it if "
                "need be, as in en, zh_Hant or pt_BR"
            )
        return code
