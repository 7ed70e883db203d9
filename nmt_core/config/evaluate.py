"""`evaluate`: scores and sample translations of the exported model."""

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from nmt_core.config.section import Command, Section, Seed, first_repeated, later
from nmt_core.config.systems import System

BuiltInMetric = Literal["TER", "chrF++", "spBLEU"]
"""Metric of sacreBLEU that `evaluate.metrics` adds to BLEU and chrF."""
BUILT_IN_METRICS: tuple[BuiltInMetric, ...] = get_args(BuiltInMetric)
_OF_COMMANDS = ("version", "checkpoint", "factor", "max_seconds", "lower_is_better")
_ALWAYS = ("BLEU", "chrF", "BLEU ko-mecab", "BLEU no UNK")


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
    pair: str = later("", pattern="^([A-Za-z_0-9]+-[A-Za-z_0-9]+)?$")
    """Pair of `languages.pairs` in which it is translated, such as en-de. Empty means the main pair."""
    contains: tuple[Sentence, ...] = ()
    """Texts, such as terms and names, all of which the translation must contain."""
    matches: Annotated[str, AfterValidator(_is_pattern)] = ""
    """Regular expression that must match somewhere in the translation. Empty means none."""
    not_contains: tuple[Sentence, ...] = ()
    """Texts, none of which the translation may contain."""
    keep: tuple[Kept, ...] = get_args(Kept)
    """Kinds of content that must be the same in the sentence and its translation: digits of numbers, web and e-mail
    addresses, placeholders such as %s or {name}, and mark-up tags."""


class Metric(Section):
    """Score of the test sets beside BLEU and chrF: a metric of sacreBLEU, or a program.

    A recipe may give the name of a metric of sacreBLEU alone, as in `- TER`.
    """

    name: str = Field(pattern="^[A-Za-z0-9][A-Za-z0-9._+ -]*$", max_length=60)
    """Name: TER (Snover et al. 2006, lower is better), chrF++ (Popović 2017) or spBLEU (Goyal et al. 2022). With
    `command`, any other name, such as COMET-22."""
    vocabulary: str = ""
    """Path of the SentencePiece model by which spBLEU finds words. Empty means the vocabulary of FLORES-200, if
    sacreBLEU has downloaded it on this machine before. Evaluation downloads nothing."""
    command: Command = ""
    """Program that judges translations. It reads one JSON object a line, with `source`, `translation` and `reference`,
    and writes one number a line. It runs without a shell, once for each test set. The score is the mean of its numbers.
    The contents of the files that the command names, including the program, are part of the fingerprint. A program
    that fails is left out of the scores with its reason, and stops nothing else. Empty means a metric of sacreBLEU."""
    version: str = Field("", max_length=60)
    """Version of the program, for the signature of its score. A new version evaluates anew. Empty means
    that it is not named."""
    checkpoint: str = ""
    """Path of the model that the program uses, a file or a folder. Its hash is in the signature and in the fingerprint.
    The command must name the model itself. Empty means that no model is hashed."""
    factor: float = Field(1.0, gt=0)
    """Factor by which the numbers of the program are multiplied, such as 100 for numbers from 0 to 1."""
    max_seconds: float = Field(3_600, gt=0)
    """Longest time for one test set, in seconds, after which the program is ended and left out of the scores."""
    lower_is_better: bool = later(False)
    """True if a lower number of the program is better, as for MetricX. The gate needs to know."""

    @model_validator(mode="before")
    @classmethod
    def _take_a_name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fits_together(self) -> "Metric":
        if self.name in _ALWAYS:
            raise ValueError(f"name={self.name}: every evaluation has this score: remove it, or choose another name")
        if self.command and self.name in BUILT_IN_METRICS:
            raise ValueError(f"name={self.name} is a metric of sacreBLEU: remove command, or choose another name")
        if not self.command and self.name not in BUILT_IN_METRICS:
            raise ValueError(
                f"name={self.name!r} is none of {', '.join(BUILT_IN_METRICS)}: write one of these, or the command of a "
                "program that judges"
            )
        if self.vocabulary and self.name != "spBLEU":
            raise ValueError(f"vocabulary has no effect on {self.name}, only on spBLEU: remove it")
        options = [name for name in _OF_COMMANDS if name in self.changed]
        if options and not self.command:
            raise ValueError(f"{options[0]} has no effect without command: remove it, or write the command")
        return self


SuiteKind = Literal["numbers", "names", "negation", "upper_case", "typos", "tags", "long_lines"]
"""Rule by which a suite is made from a test set."""

_OPTIONS_OF_SUITES = {"words": "negation", "rate": "typos", "seed": "typos", "joined": "long_lines"}
"""Kind of suite that each option is for. All other options are for every kind."""


class Suite(Section):
    """Test set made from the main test set by a rule, to judge one ability of a model.

    A recipe may give the kind alone, as in `- typos`.
    """

    kind: SuiteKind
    """Rule. Three kinds choose sentences and change nothing. `numbers`: the source has a digit. `names`: the source has
    a capitalised word, not at its beginning, that the reference has too. `negation`: the source has one of `words`.
    Four kinds change sentences. `upper_case`: the source is in capitals, and scores ignore case. `typos`: some words of
    the source have a typing error. `tags`: a word that both sides share, or else the whole line, is in tags.
    `long_lines`: consecutive sentences are one line."""
    words: tuple[Sentence, ...] = ()
    """Words of negation in the source language. Empty means the built-in words, which exist for German, English,
    Spanish, French, Italian, Dutch, Portuguese and Korean."""
    rate: float = Field(0.1, gt=0, le=1)
    """Share of the words of a sentence that get a typing error, at least one. Only words of four letters or more, or of
    Hangul, get one."""
    seed: Seed = 1
    """Random seed of the typing errors. The errors of a sentence depend only on this and on its text."""
    joined: int = Field(4, ge=2, le=100)
    """Number of consecutive sentences in a line of `long_lines`."""
    min_sentences: int = Field(30, ge=1)
    """Fewest sentences of the suite with which it is scored and takes part in the gate. With fewer, the evaluation says
    how many there are."""

    @model_validator(mode="before")
    @classmethod
    def _take_a_kind_alone(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fits_together(self) -> "Suite":
        for option, kind in _OPTIONS_OF_SUITES.items():
            if option in self.changed and self.kind != kind:
                raise ValueError(f"{option} has no effect on {self.kind}, only on {kind}: remove it")
        return self


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
    length_bucket: int = later(0, ge=0)
    """Width of the groups in which BLEU is computed by the length of the source, in words, such as 10 (Bahdanau et al.
    2015, figure 2). Text without spaces between words is measured in characters. 0 means at most eight groups of about
    equally many sentences."""
    metrics: tuple[Metric, ...] = later(())
    """Further scores of each test set: TER, chrF++, spBLEU, and programs such as COMET. BLEU and chrF are always
    computed."""
    suites: tuple[Suite, ...] = later(())
    """Test sets made from the main test set by rules: numbers, names, negation, upper_case, typos, tags and long_lines.
    Each has its own scores and its own check in the gate."""
    systems: tuple[System, ...] = later(())
    """Other systems that translate the same test sets: outputs in files, programs, HTTP services and models of this
    package. They are scored by the same metrics, and compared with the model by paired bootstrap resampling. They never
    decide in the gate."""

    @model_validator(mode="after")
    def _names_each_system_once(self) -> "EvaluateConfig":
        if twice := first_repeated(system.name for system in self.systems):
            raise ValueError(f"systems has the name {twice!r} twice: name one of the two otherwise")
        return self

    @model_validator(mode="after")
    def _names_each_suite_once(self) -> "EvaluateConfig":
        if twice := first_repeated(suite.kind for suite in self.suites):
            raise ValueError(f"suites has the kind {twice} twice: remove one of the two")
        return self

    @model_validator(mode="after")
    def _names_each_metric_once(self) -> "EvaluateConfig":
        if twice := first_repeated(metric.name for metric in self.metrics):
            raise ValueError(f"metrics has the name {twice!r} twice: remove one of the two, or name it otherwise")
        return self
