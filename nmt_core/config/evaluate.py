"""`evaluate`: scores and sample translations of the exported model."""

import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from nmt_core.config.section import Section


def _is_one_line(text: str) -> str:
    if not text.strip() or "\n" in text or "\r" in text:
        raise ValueError("must be one line of text that is not blank")
    return text


Sentence = Annotated[str, AfterValidator(_is_one_line)]


Kept = Literal["numbers", "addresses", "placeholders", "tags"]
"""Kind of content that a translation must copy unchanged."""


def _is_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression ({error}): correct it") from None
    return text


class MustTranslate(Section):
    """Sentence that a model must translate well enough to become champion."""

    source: Sentence
    """Sentence to translate."""
    contains: tuple[Sentence, ...] = ()
    """Texts, such as terms and names, all of which the translation must contain."""
    matches: Annotated[str, AfterValidator(_is_pattern)] = ""
    """Regular expression that must match somewhere in the translation. Empty means none."""
    not_contains: tuple[Sentence, ...] = ()
    """Texts, none of which the translation may contain."""
    keep: tuple[Kept, ...] = get_args(Kept)
    """Kinds of content that must be the same in the sentence and its translation: digits of numbers, web and e-mail
    addresses, placeholders such as %s or {name}, and mark-up tags."""


class EvaluateConfig(Section):
    """Scoring of the exported model."""

    samples: int = Field(3, ge=0, le=100)
    """Number of sentences of the first test set to show with their translations."""
    sentences: tuple[Sentence, ...] = ()
    """Additional sentences to translate and show."""
    must_translate: tuple[MustTranslate, ...] = ()
    """Sentences with conditions on their translations. A model that fails one never becomes champion automatically."""
    interval_samples: int = Field(1_000, ge=0)
    """Number of resamples of a test set from which the 95% confidence interval of each score is computed. 0 means no
    intervals."""
