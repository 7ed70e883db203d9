"""`languages`: source and target language, or the pairs of a model for many languages."""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    field_validator,
    model_validator,
)

from nmt_core.config.language_codes import canonical, parse_tag
from nmt_core.config.section import Section, first_repeated, later

Side = Literal["source", "target"]
"""Side of a sentence pair."""

SIDES: tuple[Side, Side] = ("source", "target")
OTHER_SIDE: dict[Side, Side] = {"source": "target", "target": "source"}


TOKEN_COLUMNS: dict[Side, str] = {"source": "source_token", "target": "target_token"}
"""Column of text with the token that names the target language of each pair, by the side that begins with it. Text in
one pair of languages has none."""


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
_TAG = "[a-z]{2,3}(_[A-Z][a-z]{3})?(_([A-Z]{2}|[0-9]{3}))?"

Language = Annotated[str, Field(pattern=_PATTERN), AfterValidator(is_shortest_code)]


def _is_pair(pair: str) -> str:
    if not re.fullmatch(f"{_TAG}-{_TAG}", pair):
        raise ValueError(
            f"{pair!r} is not a pair of languages: write two ISO 639 codes, the source first, as in en-de or en-pt_BR"
        )
    source, target = pair.split("-")
    if source == target:
        raise ValueError(f"{pair!r} names one language twice: name a source and a target")
    for tag in (source, target):
        is_shortest_code(tag.partition("_")[0])
    return pair


Pair = Annotated[str, AfterValidator(_is_pair)]
"""Pair of languages, the source first: `en-de`, or `en-pt_BR` with a script or a region."""


def reverse_of(pair: str) -> str:
    """Return the pair of the other direction: `de-en` for `en-de`."""
    source, target = pair.split("-")
    return f"{target}-{source}"


def tag_of(language: str) -> str:
    """Return the piece that names a target language, such as `<2de>` (Johnson et al. 2017, section 3)."""
    return f"<2{language}>"


class LanguagesConfig(Section):
    """Source and target language, or the pairs of a model for many languages."""

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

    pairs: tuple[Pair, ...] = later(())
    """Pairs that one model translates, the source first, such as [en-de, de-en, en-fr]. The first pair is the main one:
    `source` and `target` are its languages and need not be written. Each corpus of `corpus` then names its pair. Empty
    means that the model translates `source` into `target` alone."""
    tag_side: Side = later("source")
    """Side on which a token such as <2de> names the target language, with `pairs`. `source`: before each source
    sentence (Johnson et al. 2017, section 3). `target`: as the first token that the decoder reads after <s>. No text
    can spell this token."""

    def tag(self, side: Side) -> str:
        """Return the language of a side with its script and region, such as `zh_Hant`."""
        return "_".join(filter(None, (getattr(self, side), getattr(self, f"{side}_variant"))))

    def script(self, side: Side) -> str:
        """Return the ISO 15924 code of the script that the recipe names for a side. Empty means any script."""
        tag = parse_tag(self.tag(side))
        return tag.known_script if tag else ""

    @property
    def pair(self) -> str:
        """Pair of `source` and `target`, such as `en-zh_Hant`."""
        return f"{self.tag('source')}-{self.tag('target')}"

    @property
    def known_pairs(self) -> tuple[str, ...]:
        """Pairs that can be made of the source and target languages of `pairs`, the trained pairs first."""
        sources = dict.fromkeys(pair.split("-")[0] for pair in self.pairs)
        others = (f"{source}-{target}" for source in sources for target in self.targets if source != target)
        return tuple(dict.fromkeys([*self.pairs, *others]))

    @property
    def targets(self) -> tuple[str, ...]:
        """Target languages of `pairs`, in their order."""
        return tuple(dict.fromkeys(pair.split("-")[1] for pair in self.pairs))

    @property
    def tags(self) -> tuple[str, ...]:
        """Tokens that name the target languages of `pairs`, such as `<2de>`."""
        return tuple(map(tag_of, self.targets))

    def place_of(self, language: str) -> tuple[str, Side] | None:
        """Return the pair and the side of a language: the first pair that is translated into it, or else out of it.

        None means that no pair has the language.
        """
        for side in reversed(SIDES):
            for pair in self.pairs or (self.pair,):
                if pair.split("-")[SIDES.index(side)] == language:
                    return pair, side
        return None

    def of(self, pair: str) -> "LanguagesConfig":
        """Return the source and the target language of one pair, without other pairs.

        Args:
            pair: a pair such as `en-de`. Empty means the main pair.
        """
        source, target = (pair or self.pair).split("-")
        return LanguagesConfig.model_validate({"source": source, "target": target})

    def could_translate(self, pair: str) -> bool:
        """Return True if a model for `pairs` has learned to read the source and to write the target of a pair."""
        return pair in self.known_pairs

    @model_validator(mode="after")
    def _has_one_main_pair(self) -> "LanguagesConfig":
        if twice := first_repeated(self.pairs):
            raise ValueError(f"pairs has {twice} twice: remove one of the two")
        if self.pairs and self.pair != self.pairs[0]:
            raise ValueError(
                f"source={self.tag('source')} and target={self.tag('target')} are not the first pair of pairs "
                f"({self.pairs[0]}): remove source and target, or put {self.pair} first"
            )
        if self.tag_side != "source" and not self.pairs:
            raise ValueError(f"tag_side={self.tag_side} has no effect without pairs: remove it, or set pairs")
        return self

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

    @model_validator(mode="before")
    @classmethod
    def _take_the_main_pair(cls, values: Any) -> Any:
        # Runs before the tags are taken apart: pydantic runs the last validator of this mode first.
        pairs = values.get("pairs") if isinstance(values, dict) else None
        if not pairs or not isinstance(pairs, (list, tuple)):
            return values
        main = str(pairs[0]).split("-")
        return {side: language for side, language in zip(SIDES, main, strict=False) if side not in values} | values

    @field_validator(*SIDES)
    @classmethod
    def _is_a_code(cls, code: str) -> str:
        if not code.islower() or not code.isalpha():
            raise ValueError(
                f"{code!r} is not the tag of a language: write an ISO 639 code, with a script or a region behind it if "
                "need be, as in en, zh_Hant or pt_BR"
            )
        return code
