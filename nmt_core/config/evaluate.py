"""`evaluate`: what the exported model is scored and looked at with."""

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
"""What a translation takes over as it is."""


def _is_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression ({error}): correct it") from None
    return text


class MustTranslate(Section):
    """A sentence that a model has to translate well enough to become champion."""

    source: Sentence
    """The sentence."""
    contains: tuple[Sentence, ...] = ()
    """Text that the translation must hold, each of it: terms, names."""
    matches: Annotated[str, AfterValidator(_is_pattern)] = ""
    """Regular expression that must be found in the translation; empty: none."""
    not_contains: tuple[Sentence, ...] = ()
    """Text that the translation must not hold, none of it."""
    keep: tuple[Kept, ...] = get_args(Kept)
    """What of the sentence must stand in the translation as well, and nothing else of the kind: digits of numbers, web
    and mail addresses, placeholders such as %s or {name}, mark-up tags."""


class EvaluateConfig(Section):
    """Scoring of the exported model."""

    samples: int = Field(3, ge=0, le=100)
    """Sentences of the first test set that are shown with their translations."""
    sentences: tuple[Sentence, ...] = ()
    """Further sentences to translate and to show."""
    must_translate: tuple[MustTranslate, ...] = ()
    """Sentences that a model has to translate as they say; one that does not is never champion by itself."""
    interval_samples: int = Field(1_000, ge=0)
    """Resamples of a test set from which the 95% confidence interval of each score is taken; 0: no intervals."""
