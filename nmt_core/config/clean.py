"""`clean`: normalisation, filters, deduplication and decontamination of the training text."""

from typing import Literal

from pydantic import Field, model_validator

from nmt_core.config.filters import FilterConfig, FilterOverride, Share
from nmt_core.config.section import Command, Section, later

CROSS_ENTROPY_DIFFERENCE = "cross-entropy-difference"
"""Name of the scorer that is built into the package."""


class ScoreRule(Section):
    """Score of each pair, and the range of scores with which a pair is kept."""

    scorer: str = Field(min_length=1)
    """Scorer: `cross-entropy-difference` (see `clean.in_domain`), an entry point of the group `nmt_pipeline.scorers`,
    or module:function. A function gets pairs and returns a number for each. A cross-entropy difference of 0 or more
    means that a pair is more like the domain than like the text as a whole. With `command`, this is any name for the
    score."""
    command: Command = ""
    """Program that reads lines of source, tab, target, and writes one number for each, such as `bicleaner-ai-classify
    --score_only --scol 1 --tcol 2 -q - - MODEL`. It runs without a shell. The contents of the files that the command
    names, including the program, are part of the fingerprint. Empty means that `scorer` is a function."""
    min_score: float | None = None
    """Lowest score with which a pair is kept. Empty means no limit."""
    max_score: float | None = None
    """Highest score with which a pair is kept. Empty means no limit."""


class CleanConfig(FilterConfig):
    """Normalisation, filters, deduplication and decontamination of the training text."""

    unicode_form: Literal["NFC", "NFKC"] = "NFC"
    """Unicode normalisation form."""
    punctuation: Literal["as_is", "moses", "half_width", "full_width"] = "as_is"
    """Normalisation of punctuation and the spaces around it. `moses`: quotes and dashes are unified as Moses'
    normalize-punctuation does. `half_width` turns the wide marks of Chinese and Japanese into ASCII ones. `full_width`
    turns ASCII marks beside Han or Kana into wide ones. Both turn wide letters and digits into ASCII ones."""
    overrides: tuple[FilterOverride, ...] = ()
    """Different thresholds for some corpora or language pairs."""
    source_word_list: str = ""
    """Path of a file of words or phrases, one a line. A pair whose source side contains one is dropped.
    Empty means none."""
    target_word_list: str = ""
    """Path of a file of words or phrases, one a line. A pair whose target side contains one is dropped.
    Empty means none."""
    scores: tuple[ScoreRule, ...] = ()
    """Scores of each pair, from three kinds of scorers: the built-in `cross-entropy-difference`, which measures how
    much more a pair is like the text of `in_domain` than like the text as a whole; functions, such as embedding
    similarity; and programs, such as bicleaner-ai."""
    in_domain: str = Field("", pattern="^[A-Za-z0-9._-]*$")
    """Text of the desired domain, for `cross-entropy-difference`: the name of a training corpus or of a dev set, but
    not of a test set. Empty means that there is none."""
    in_domain_pairs: int = Field(100_000, ge=1_000)
    """Maximum number of pairs of `in_domain` from which language models are learned. As many are drawn from all
    training corpora."""
    filters: tuple[str, ...] = ()
    """Additional filters: entry points of the group `nmt_pipeline.filters`, or module:function."""
    identifier: str = later("", pattern=r"^([\w.-]+(:[\w.]+)?)?$")
    """Identifier of languages in place of the built-in ones: `fasttext`, which reads a model file such as GlotLID's, an
    entry point of the group `nmt_pipeline.identifiers`, or module:function. Empty means the built-in identifiers."""
    identifier_model: str = later("")
    """Path of the model file that `identifier` reads. The contents of the file are part of the fingerprint. Empty means
    that it reads none."""
    max_other_language_share: Share = later(0.5)
    """Refuse a corpus if more than this share of its pairs, of those whose language was identified, has a side in one
    and the same other language. Then `languages` is wrong, or identification is. 1 refuses none."""
    deduplicate: Literal["none", "exact", "normalised"] = "normalised"
    """Copies of a pair to drop: none, exact copies, or copies that differ only in case, punctuation and spaces."""
    max_per_source: int = Field(0, ge=0)
    """Maximum number of pairs with the same source side. 0 means no limit."""
    max_per_target: int = Field(0, ge=0)
    """Maximum number of pairs with the same target side. 0 means no limit."""
    prefer: Literal["first", "best"] = "first"
    """Copies to keep when there are several: the first ones, or those with the best score by the first rule of
    `scores`."""
    near_duplicates: Share = 0.0
    """Drop a pair that shares at least this much of its words with an earlier pair (Jaccard similarity, estimated by
    MinHash). 0 keeps near-duplicates."""
    decontaminate: bool = True
    """Drop a training pair that shares a sentence, or a run of `ngram_words` words, with a dev or test set."""
    ngram_words: int = Field(13, ge=3)
    """Length, in words, of a run that identifies a held-out sentence."""
    short_ngram_words: int = Field(9, ge=3)
    """Length, in words, of a run that identifies a held-out sentence of fewer than `ngram_words` words. Sentences
    shorter than this are compared only as a whole."""
    max_swapped_share: Share = 0.5
    """Refuse a corpus if more than this share of a sample of its pairs has source and target swapped. 1 refuses none.
    The check needs language identification (see `min_language_probability`)."""
    max_line_bytes: int = Field(100_000, ge=1_000)
    """Longest line to read, in bytes. A longer one is dropped unread."""
    shard_pairs: int = Field(250_000, ge=1_000)
    """Number of pairs in a shard, which one worker reads and cleans at a time."""

    @model_validator(mode="after")
    def _fits_together(self) -> "CleanConfig":
        if self.short_ngram_words > self.ngram_words:
            raise ValueError(
                f"short_ngram_words={self.short_ngram_words} is more than ngram_words={self.ngram_words}: swap them"
            )
        if self.punctuation == "full_width" and self.unicode_form == "NFKC":
            raise ValueError("NFKC turns wide marks into ASCII ones again: set unicode_form to NFC")
        is_asked = any(rule.scorer == CROSS_ENTROPY_DIFFERENCE and not rule.command for rule in self.scores)
        if is_asked and not self.in_domain:
            raise ValueError(
                f"the score {CROSS_ENTROPY_DIFFERENCE} needs text of a domain: set in_domain to the name of its corpus"
            )
        if self.in_domain and not is_asked:
            raise ValueError(
                f"in_domain={self.in_domain!r} is only for the score {CROSS_ENTROPY_DIFFERENCE}: add that to scores, "
                "with a min_score"
            )
        if self.identifier_model and not self.identifier:
            raise ValueError(
                f"identifier_model={self.identifier_model!r} has no identifier to read it: set identifier to fasttext"
            )
        if self.identifier == "fasttext" and not self.identifier_model:
            raise ValueError("identifier=fasttext reads a model file: set identifier_model to its path")
        if self.prefer == "best" and not self.scores:
            raise ValueError("prefer=best needs a score: name a scorer in clean.scores")
        return self
