"""Options of `clean`: which pairs are kept, and which of these options may differ from corpus to corpus.

A number that decides what is dropped is an option if a user may want another value. The other numbers are parts of a
method and were chosen together with it, so they are constants in the code: what the two language identifiers are asked
and when the second overrules the first (`corpus/cleaning/language_id.py`, with the figures that a change has to beat);
how many pairs of a shard are examined for swapped languages and how clear the result must be (`corpus/shard.py`); how
few pairs are too few to judge a corpus (`corpus/clean.py`); the functions and bands of MinHash
(`corpus/duplicates/minhash.py`); the order and the vocabulary of the language models
(`corpus/cleaning/cross_entropy.py`).
"""

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, create_model, model_validator

from nmt_core.config.languages import is_shortest_code
from nmt_core.config.section import Section

Share = Annotated[float, Field(ge=0, le=1)]


class FilterConfig(Section):
    """What a pair must be like to be kept; it may differ from corpus to corpus and between pairs of languages."""

    min_words: int = Field(1, ge=1)
    """Fewest words a side may have."""
    max_words: int = Field(150, ge=1)
    """Most words a side may have."""
    min_characters: int = Field(1, ge=1)
    """Fewest characters a side may have."""
    max_characters: int = Field(1_500, ge=1)
    """Most characters a side may have."""
    max_word_characters: int = Field(40, ge=1, le=1_000)
    """Longest word, in characters; a longer one is an address, a table or a broken encoding."""
    max_length_ratio: float = Field(4.0, gt=1)
    """Longest side over shortest side, in characters weighted by `expected_length_ratio`."""
    expected_length_ratio: float = Field(0.0, ge=0)
    """Source characters that say as much as one target character (about 2 from English to Korean); 0: what is usual
    between the languages."""
    min_letter_share: Share = 0.4
    """Least share of letters among the characters other than spaces."""
    min_script_share: Share = 0.25
    """Least share of the language's own script among the letters of a side."""
    min_language_probability: Share = 0.2
    """Least probability that a side is in its language; 0: languages are not identified, nor is it looked whether a
    corpus has them swapped."""
    drop_copies: bool = True
    """Drop a pair whose sides are equal but for case, punctuation and spaces."""
    max_copied_share: Share = 0.8
    """Largest share of the words of a side that stand on the other side as well; 1: any."""
    min_copied_words: int = Field(5, ge=1)
    """Fewest words of a side of which `max_copied_share` is asked: names and numbers are often most of a shorter one,
    and stay as they are."""
    numbers_must_match: bool = False
    """Drop a pair whose sides hold different numbers."""
    addresses_must_match: bool = False
    """Drop a pair whose sides hold different web or mail addresses."""
    placeholders_must_match: bool = True
    """Drop a pair whose sides hold different placeholders, such as %s, {name} or ${path}."""
    tags_must_match: bool = True
    """Drop a pair whose sides hold different mark-up tags, such as <b>."""
    max_repeated_characters: int = Field(20, ge=0)
    """Longest run of one character; 0: any."""
    max_repeated_words: int = Field(3, ge=0)
    """Most times that a run of words may stand in a row; 0: any."""
    longest_repeated_run: int = Field(4, ge=2, le=20)
    """Longest run, in words, that `max_repeated_words` looks for; each length takes its time."""
    end_marks_must_match: bool = False
    """Drop a pair of which one side ends as a sentence or a question does, and the other does not."""
    brackets_must_match: bool = False
    """Drop a pair of which one side has a bracket without its partner."""

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> "FilterConfig":
        for unit in ("words", "characters"):
            least, most = getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}")
            if least is not None and most is not None and least > most:
                raise ValueError(f"min_{unit}={least} is more than max_{unit}={most}: swap them")
        return self


class _OverrideScope(Section):
    """Other thresholds for a pair of languages, for a corpus, or for a corpus in a pair of languages.

    The narrower scope wins: the defaults, the pair, the corpus, the corpus in the pair.
    """

    pair: Annotated[str, AfterValidator(is_shortest_code)] = Field("", pattern="^([a-z]{2,3}-[a-z]{2,3})?$")
    """Languages, as in en-ko; empty: all."""
    corpus: str = ""
    """Name of the corpus; empty: all."""

    @model_validator(mode="after")
    def _has_a_scope(self) -> "_OverrideScope":
        if not self.pair and not self.corpus:
            raise ValueError("names neither a pair nor a corpus: set one, or change the values in `clean` itself")
        return self


if TYPE_CHECKING:

    class FilterOverride(_OverrideScope):
        """Thresholds of `FilterConfig`, any of which may be left out."""

else:  # every threshold with its own bounds and meaning, but no default: written once, in FilterConfig
    FilterOverride = create_model(
        "FilterOverride",
        __base__=_OverrideScope,
        __doc__=_OverrideScope.__doc__,
        __module__=__name__,
        **{
            name: (
                Annotated[knob.annotation, Field(), *knob.metadata] | None,
                Field(None, description=knob.description),
            )
            for name, knob in FilterConfig.model_fields.items()
        },
    )
