"""`clean`: normalisation, filters, deduplication and decontamination of the training text."""

import shlex
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from nmt_core.config.filters import FilterConfig, FilterOverride, Share
from nmt_core.config.section import Section


def _is_command(text: str) -> str:
    if text and not shlex.split(text):
        raise ValueError("names no program: write the command, or leave it empty")
    return text


CROSS_ENTROPY_DIFFERENCE = "cross-entropy-difference"
"""The score that the package has itself."""


class ScoreRule(Section):
    """A score of each pair, and the scores that a pair is kept with."""

    scorer: str = Field(min_length=1)
    """`cross-entropy-difference` (see `clean.in_domain`; 0 and more is more like the domain than not), or an entry
    point of the group `nmt_pipeline.scorers`, or module:function; it gets pairs and returns a number each. With
    `command`, any name for the score."""
    command: Annotated[str, AfterValidator(_is_command)] = ""
    """Program that reads lines of source, tab, target and writes one number for each, such as
    `bicleaner-ai-classify --score_only --scol 1 --tcol 2 -q - - MODEL`; no shell reads it. Files that it names, its
    program too, count by their content. Empty: `scorer` is a function."""
    min_score: float | None = None
    """Least score to keep; empty: any."""
    max_score: float | None = None
    """Largest score to keep; empty: any."""


class CleanConfig(FilterConfig):
    """Normalisation, filters, deduplication and decontamination of the training text."""

    unicode_form: Literal["NFC", "NFKC"] = "NFC"
    """Unicode normalisation form."""
    punctuation: Literal["as_is", "moses"] = "as_is"
    """Whether quotes, dashes and the spaces at punctuation are made one, as Moses' normalize-punctuation does."""
    overrides: tuple[FilterOverride, ...] = ()
    """Other thresholds for some corpora or pairs of languages."""
    source_word_list: str = ""
    """Path of a file of words or phrases, one a line; a pair whose source side holds one is dropped."""
    target_word_list: str = ""
    """The same for the target side."""
    scores: tuple[ScoreRule, ...] = ()
    """Scores of each pair: `cross-entropy-difference`, which comes with the package and says how much more like the
    text of `in_domain` than like all of the text a pair is; functions of others, such as embedding similarity; or
    programs that are started, such as bicleaner-ai."""
    in_domain: str = Field("", pattern="^[A-Za-z0-9._-]*$")
    """Text of the domain that is wanted, for `cross-entropy-difference`: the name of a corpus of `corpus`, a training
    corpus or a dev set, but no test set."""
    in_domain_pairs: int = Field(100_000, ge=1_000)
    """Most pairs of `in_domain` that language models are learnt from; as many are drawn from all training corpora."""
    filters: tuple[str, ...] = ()
    """Further filters: entry points of the group `nmt_pipeline.filters`, or module:function."""
    deduplicate: Literal["none", "exact", "normalised"] = "normalised"
    """Which copies of a pair to drop: none, equal ones, or those equal but for case, punctuation and spaces."""
    max_per_source: int = Field(0, ge=0)
    """Most pairs with the same source side; 0: any number."""
    max_per_target: int = Field(0, ge=0)
    """Most pairs with the same target side; 0: any number."""
    prefer: Literal["first", "best"] = "first"
    """Which of several copies stay: the first, or those that the first rule of `scores` gives most."""
    near_duplicates: Share = 0.0
    """Drop a pair whose words are like an earlier pair's to at least this share (Jaccard, by MinHash); 0: keep it."""
    decontaminate: bool = True
    """Drop a training pair that shares a sentence, or a run of `ngram_words` words, with a dev or test set."""
    ngram_words: int = Field(13, ge=3)
    """Length of the run of words that betrays a held-out sentence."""
    short_ngram_words: int = Field(9, ge=3)
    """The same for held-out sentences of fewer than `ngram_words` words; still shorter ones count only as a whole."""
    max_swapped_share: Share = 0.5
    """A corpus of which a larger share of pairs, by a sample, has the languages the wrong way round is refused; 1: none
    is. See `min_language_probability`."""
    max_line_bytes: int = Field(100_000, ge=1_000)
    """Longest line that is read; a longer one is dropped unread."""
    shard_pairs: int = Field(250_000, ge=1_000)
    """Pairs that are read, and cleaned by one worker, at a time."""

    @model_validator(mode="after")
    def _fits_together(self) -> "CleanConfig":
        if self.short_ngram_words > self.ngram_words:
            raise ValueError(
                f"short_ngram_words={self.short_ngram_words} is more than ngram_words={self.ngram_words}: swap them"
            )
        is_asked = any(rule.scorer == CROSS_ENTROPY_DIFFERENCE and not rule.command for rule in self.scores)
        if is_asked and not self.in_domain:
            raise ValueError(
                f"the score {CROSS_ENTROPY_DIFFERENCE} compares with text of a domain: name its corpus as in_domain"
            )
        if self.in_domain and not is_asked:
            raise ValueError(
                f"in_domain={self.in_domain!r} is for the score {CROSS_ENTROPY_DIFFERENCE}: add it to scores, with the "
                "least score to keep"
            )
        if self.prefer == "best" and not self.scores:
            raise ValueError("prefer=best needs a score: name a scorer in clean.scores")
        return self
