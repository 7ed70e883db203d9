"""Options of `clean` that decide which pairs are kept, and that may differ between corpora.

A number that decides what is dropped is an option if a user may want to change it. The other numbers belong to a method
and were chosen together with it, so they are constants in the code:

corpus/cleaning/language_id.py    limits of the two language identifiers, with the figures that a change has to beat
corpus/shard.py                   sample size and margin of the check for swapped languages
corpus/clean.py                   fewest pairs by which a corpus is judged
corpus/duplicates/minhash.py      functions and bands of MinHash
corpus/cleaning/cross_entropy.py  order and vocabulary of the language models
"""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, create_model, model_validator

from nmt_core.config.languages import SIDES, Side, is_shortest_code
from nmt_core.config.section import Section, later

Share = Annotated[float, Field(ge=0, le=1)]


ONE_SIDED = (
    *("min_words", "max_words", "min_characters", "max_characters", "max_word_characters"),
    *("min_letter_share", "min_script_share", "min_language_probability"),
    *("max_repeated_characters", "max_repeated_words"),
)
"""Options that may be set for one side alone, as `source_min_words` and `target_min_words`."""


class _BothSides(Section):
    """Conditions that both sides of a pair, or their relation, must meet."""

    min_words: int = Field(1, ge=1)
    """Minimum number of words on each side."""
    max_words: int = Field(150, ge=1)
    """Maximum number of words on each side."""
    min_characters: int = Field(1, ge=1)
    """Minimum number of characters on each side."""
    max_characters: int = Field(1_500, ge=1)
    """Maximum number of characters on each side."""
    max_word_characters: int = Field(40, ge=1, le=1_000)
    """Length of the longest accepted word, in characters. Longer ones are addresses, tables or broken encodings."""
    max_length_ratio: float = Field(4.0, gt=1)
    """Maximum ratio of the longer side to the shorter one, in characters weighted by `expected_length_ratio`."""
    expected_length_ratio: float = Field(0.0, ge=0)
    """Expected number of source characters per target character (about 2 from English to Korean). 0 means the usual
    ratio of the two languages."""
    min_letter_share: Share = 0.4
    """Minimum share of letters among the characters of a side, not counting spaces."""
    min_script_share: Share = 0.25
    """Minimum share of the language's own script among the letters of a side."""
    min_language_probability: Share = 0.2
    """Minimum probability that a side is in its language. 0 turns language identification off, and with it the check
    for swapped languages."""
    drop_copies: bool = True
    """Drop a pair of more than one word whose sides differ only in case, punctuation and spaces."""
    max_copied_share: Share = 0.8
    """Maximum share of the words of a side that are also on the other side. 1 accepts any share."""
    min_copied_words: int = Field(5, ge=1)
    """Fewest words of a side to which `max_copied_share` applies. Shorter sides often consist of names and numbers,
    which stay the same in translation."""
    numbers_must_match: bool = False
    """Drop a pair whose sides contain different numbers."""
    addresses_must_match: bool = False
    """Drop a pair whose sides contain different web or e-mail addresses."""
    placeholders_must_match: bool = True
    """Drop a pair whose sides contain different placeholders, such as %s, {name} or ${path}."""
    tags_must_match: bool = True
    """Drop a pair whose sides contain different mark-up tags, such as <b>."""
    max_repeated_characters: int = Field(20, ge=0)
    """Length of the longest accepted run of one character. 0 accepts any length."""
    max_repeated_words: int = Field(3, ge=0)
    """Maximum number of times that a run of words may occur in succession. 0 accepts any number."""
    longest_repeated_run: int = Field(4, ge=2, le=20)
    """Length, in words, of the longest run that `max_repeated_words` looks for. Each length adds to the time."""
    end_marks_must_match: bool = False
    """Drop a pair if one side ends like a sentence or a question and the other does not."""
    brackets_must_match: bool = False
    """Drop a pair if a bracket on one side has no partner."""

    def limit(self, name: str, side: Side) -> Any:
        """Return the value of an option of `ONE_SIDED` for a side: the side's own, or else the one of both sides."""
        own = getattr(self, f"{side}_{name}", None)
        return getattr(self, name) if own is None else own

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> "_BothSides":
        for unit in ("words", "characters"):
            for side in SIDES:
                least, most = self.limit(f"min_{unit}", side), self.limit(f"max_{unit}", side)
                if least > most:
                    raise ValueError(
                        f"{self._set_as(f'min_{unit}', side)}={least} is more than "
                        f"{self._set_as(f'max_{unit}', side)}={most}: swap them"
                    )
        return self

    def _set_as(self, name: str, side: Side) -> str:
        """Return the name of the option that decides for a side."""
        return name if getattr(self, f"{side}_{name}", None) is None else f"{side}_{name}"


def _one_sided(side: Side, name: str) -> tuple[Any, Any]:
    """Return the type and the field of an option for one side. None is left out of stored recipes."""
    option = _BothSides.model_fields[name]
    about = f"`{name}` of the {side} side alone. Empty means the value of `{name}`."
    return Annotated[option.annotation, Field(), *option.metadata] | None, later(None, description=about)


if TYPE_CHECKING:

    class FilterConfig(_BothSides):
        """Conditions that a pair must meet to be kept. They may differ between corpora and between language pairs."""

else:
    FilterConfig = create_model(
        "FilterConfig",
        __base__=_BothSides,
        __doc__="Conditions that a pair must meet to be kept. They may differ between corpora and language pairs.",
        __module__=__name__,
        **{f"{side}_{name}": _one_sided(side, name) for name in ONE_SIDED for side in SIDES},
    )


class _OverrideScope(Section):
    """Different thresholds for a language pair, for a corpus, or for a corpus in a language pair.

    The narrowest scope wins. From widest to narrowest: the defaults, the pair, the corpus, the corpus in the pair.
    """

    pair: Annotated[str, AfterValidator(is_shortest_code)] = Field("", pattern="^([a-z]{2,3}-[a-z]{2,3})?$")
    """Language pair to which the thresholds apply, such as en-ko. Empty means all pairs."""
    corpus: str = ""
    """Name of the corpus to which the thresholds apply. Empty means all corpora."""

    @model_validator(mode="after")
    def _has_a_scope(self) -> "_OverrideScope":
        if not self.pair and not self.corpus:
            raise ValueError("names neither a pair nor a corpus: set one, or change the values in `clean` itself")
        return self


if TYPE_CHECKING:

    class FilterOverride(_OverrideScope):
        """Thresholds of `FilterConfig`, any of which may be left out."""

else:  # every threshold of FilterConfig with its bounds and its description, but without a default
    FilterOverride = create_model(
        "FilterOverride",
        __base__=_OverrideScope,
        __doc__=_OverrideScope.__doc__,
        __module__=__name__,
        **{
            name: (
                Annotated[option.annotation, Field(), *option.metadata] | None,
                Field(None, description=option.description),
            )
            for name, option in _BothSides.model_fields.items()
        },
        **{f"{side}_{name}": _one_sided(side, name) for name in ONE_SIDED for side in SIDES},
    )
