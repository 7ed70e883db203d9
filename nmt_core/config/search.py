"""`search`: search for translations."""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from nmt_core.config.section import Command, Section, Seed, later

Fault = Literal[
    "too_short",
    "too_long",
    "repeats",
    "copied",
    "wrong_language",
    "placeholders_differ",
    "tags_differ",
    "numbers_differ",
]
"""Status of a translation with a fault that a comparison with its source shows. Of several, the first one counts."""


_SAMPLED_CANDIDATES = 32


class RerankingJudge(Section):
    """Program that chooses among the candidates of a line, without a reference translation."""

    name: str = Field("judge", pattern="^[A-Za-z0-9][A-Za-z0-9._+ -]*$", max_length=60)
    """Name for messages and reports, such as CometKiwi-22."""
    command: Command = Field(min_length=1)
    """Program that judges candidates. It reads one JSON object a line, with `source` and `translation`, and writes one
    number a line. It runs without a shell, once for all lines that are translated together. The contents of the files
    that the command names, including the program, are part of the fingerprint."""
    version: str = Field("", max_length=60)
    """Version of the program. Empty means that it is not named."""
    checkpoint: str = ""
    """Path of the model that the program uses, a file or a folder. Its hash is part of the fingerprint. The command
    must name the model itself. Empty means that no model is hashed."""
    max_seconds: float = Field(600, gt=0)
    """Longest time for the lines that are translated together, in seconds, after which the program is ended. These
    lines keep the first candidate."""
    lower_is_better: bool = False
    """True if a lower number of the program is better, as for MetricX."""


class SearchConfig(Section):
    """Search for translations, by beam search or by sampling."""

    method: Literal["beam", "sample"] = "beam"
    """Search method. `beam`: the likeliest translation that a beam finds. `sample`: a random translation, as for
    back-translation."""
    beam_size: int = Field(4, ge=1, le=64)
    """Number of hypotheses kept at each step. 1 is greedy search."""
    n_best: int = Field(1, ge=1, le=64)
    """Number of translations of each line, with their scores: the best of a beam, or independent samples."""
    length_penalty: float = Field(0.6, ge=0, le=10)
    """Alpha of the length penalty ((5 + length) / 6)^alpha (Wu et al. 2016, section 7)."""
    max_length_factor: float = Field(1.0, ge=0, le=100)
    """Factor of the maximum number of target tokens: source tokens times this, plus `max_length_offset`, plus the
    tokens of a prefix (Vaswani et al. 2017, section 6.1: 1)."""
    max_length_offset: int = Field(50, ge=1)
    """Offset of the maximum number of target tokens, added to the product of `max_length_factor` (Vaswani et al. 2017,
    section 6.1: 50)."""
    min_length: int = Field(0, ge=0)
    """Minimum number of target tokens."""
    allow_unknown: bool = True
    """True if a translation may contain <unk>. Otherwise the next likeliest piece takes its place."""
    source_prefix: str = ""
    """Text put before each source, such as the tag of a language: <2de>. Empty means none."""
    target_prefix: str = ""
    """Text with which every translation begins. Its tokens do not count in the score. Empty means none."""
    temperature: float = Field(1.0, ge=1e-6, le=100)
    """Sampling temperature, by which log-probabilities are divided. Below 1, likely tokens become more likely. The
    minimum always draws the likeliest token."""
    top_k: int = Field(0, ge=0)
    """Number of likeliest tokens from which sampling draws. 0 means all."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Total probability of the likeliest tokens from which sampling draws, after `temperature` and `top_k`."""
    seed: Seed = 1
    """Random seed of sampling. The sample of a line depends only on this and on the line's text, so equal lines get the
    same sample."""
    max_source_tokens: int = Field(1_024, ge=4)
    """Maximum number of source tokens that the model reads at a time."""
    long_lines: Literal["split", "cut"] = "split"
    """Treatment of a line with more than `max_source_tokens` tokens: its sentences are translated one by one, or its
    end is cut off. The status of the line shows which."""
    split_sentences: Literal["auto", "always", "never"] = later("auto")
    """Translate a line sentence by sentence, and keep its line breaks. `auto`: if fewer than a tenth of the training
    rows had several sentences, because such a model leaves sentences out. A model of an earlier version has no record
    of its rows, and `auto` then means `never`."""
    copy_unknown: Literal["auto", "always", "never"] = later("auto")
    """Copy what the vocabulary cannot spell, such as emoji, from the source into the translation. `auto`: if the
    vocabulary consists of pieces of words, without pieces for single bytes. Runs of more than 500 characters without a
    space, such as base64, are copied unless it is `never`."""
    retry: int = later(0, ge=0, le=64)
    """Number of translations among which `nmt translate` looks for one without a fault, if the best one repeats words,
    loses numbers, is in the wrong language... 0 keeps the best one. Its status names the fault."""
    no_repeat_ngram_size: int = later(0, ge=0, le=100)
    """Length of the sequences of target tokens that may occur only once in a translation. 0 allows any repetition."""
    repetition_penalty: float = later(1.0, ge=1, le=100)
    """Factor by which the log-probabilities of tokens that the translation already has are multiplied (Keskar et al.
    2019). 1 means no penalty."""
    rerank: Literal["none", "mbr", "judge"] = later("none")
    """Choice among the candidates of a line. `none`: by the method of the search. `mbr`: minimum Bayes risk, the
    candidate with the highest mean chrF against all candidates (Kumar and Byrne 2004, Eikema and Aziz 2020). It suits
    samples. `judge`: the candidate to which the program of `judge` gives the best number (Fernandes et al. 2022).
    Scores stay the model's own. chrF, or the judge, then no longer judges the translations impartially. A
    registered model never runs a program: it translates as with `none`."""
    judge: RerankingJudge | None = later(None)
    """Program that chooses with rerank=judge."""
    candidates: int = later(0, ge=0, le=64)
    """Number of candidates with rerank=mbr and rerank=judge: the best of a beam, or independent samples. 0 means
    `beam_size` with method=beam, and 32 with method=sample."""
    batch_tokens: int = Field(2_048, ge=16)
    """Number of source tokens translated together, padding included."""
    precision: Literal["fastest", "fp32", "int8", "fp16"] = "fastest"
    """Precision of the model's graphs. `fastest` means fp16 on a GPU and int8 on a CPU, or fp32 on a CPU if the model
    lacks int8."""
    shortlist: Literal["auto", "always", "never"] = "auto"
    """Choose only from the model's shortlist: the most frequent target pieces, and likely translations of the source
    pieces. This is faster with a large vocabulary. Scores are log-probabilities within the shortlist. `always` needs a
    model with `export.shortlist`. `auto` uses the shortlist in beam search if the export found it safe: a vocabulary of
    8,000 pieces or more, and at most 0.1 BLEU less in every precision. `true` means `always`, and `false` means
    `never`."""
    alignments: Literal["none", "words", "pieces"] = "none"
    """Alignments to return with each translation, from the model's attention: between words (separated by white space),
    between pieces of the vocabulary, or none. They take more time, and the memory of the fp32 graphs."""

    @field_validator("shortlist", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """Return the name for a truth value, as in recipes and models of earlier versions."""
        return {True: "always", False: "never"}[value] if isinstance(value, bool) else value

    @property
    def of_candidates(self) -> "SearchConfig":
        """Search that returns all candidates of a line, if they are reranked. Otherwise this search."""
        if self.rerank == "none":
            return self
        usual = self.beam_size if self.method == "beam" else _SAMPLED_CANDIDATES
        return self.model_copy(update={"n_best": max(self.candidates or usual, self.n_best)})

    @property
    def without_judge(self) -> "SearchConfig":
        """Return the search without a program that chooses, as models are registered and timed."""
        if self.rerank != "judge":
            return self
        return self.model_copy(update={"rerank": "none", "judge": None, "candidates": 0})

    @property
    def limits_repetition(self) -> bool:
        """True if the tokens of a translation so far change what may follow."""
        return self.no_repeat_ngram_size > 0 or self.repetition_penalty > 1

    @property
    def most_positions(self) -> int:
        """Number of positions that the longest source or its longest translation takes.

        This includes a start or end mark.
        """
        longest_target = int(self.max_length_factor * self.max_source_tokens) + self.max_length_offset
        return max(self.max_source_tokens, longest_target) + 1

    @model_validator(mode="after")
    def _fits_together(self) -> "SearchConfig":
        if self.method == "beam" and self.n_best > self.beam_size:
            raise ValueError(f"n_best={self.n_best} is more than beam_size={self.beam_size}: raise beam_size")
        if self.candidates and self.rerank == "none":
            raise ValueError(f"candidates={self.candidates} has no effect with rerank=none: set rerank to mbr or judge")
        if self.rerank == "judge" and not self.judge:
            raise ValueError("rerank=judge needs a program that chooses: set judge.command, and judge.name")
        if self.judge and self.rerank != "judge":
            raise ValueError(f"judge has no effect with rerank={self.rerank}: set rerank to judge, or remove judge")
        if self.rerank != "none" and self.method == "beam" and not 1 < self.of_candidates.n_best <= self.beam_size:
            raise ValueError(
                f"rerank={self.rerank} chooses among {self.of_candidates.n_best} candidates of a beam of "
                f"{self.beam_size}: set beam_size to 2 or more, and to candidates or more, or set method to sample"
            )
        if self.min_length > self.max_length_offset:
            raise ValueError(
                f"min_length={self.min_length} is more than max_length_offset={self.max_length_offset}, which is the "
                "limit for very short lines: raise max_length_offset"
            )
        return self
