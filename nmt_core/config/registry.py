"""`registry`: the name of the model, and the gate on its way to champion."""

from typing import Literal, get_args

from pydantic import Field

from nmt_core.config.section import Section

MetricName = Literal["BLEU", "chrF"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
SignificanceTest = Literal["bootstrap", "randomisation"]


class RegistryConfig(Section):
    """The MLflow model registry, and the gate that a model passes on its way to champion: to production."""

    model_name: str = Field("", pattern="^[A-Za-z0-9._-]*$")
    """Name of the registered model; empty: the recipe's name."""
    max_slowdown: float = Field(0.2, ge=0)
    """How much slower than the champion a model may translate that takes its place, on the machine that registers it:
    0.2 is 20% fewer tokens per second."""
    metric: MetricName = "BLEU"
    """What the quality of champion and challenger is compared in, on every test set."""
    significance: float = Field(0.05, gt=0, lt=1)
    """A difference counts if chance alone gives one as large less often than this (p-value). On the main test set the
    challenger must be better by that measure, and on no other one worse."""
    significance_test: SignificanceTest = "bootstrap"
    """How chance is told: paired bootstrap resampling (Koehn 2004), or approximate randomisation (Riezler and Maxwell
    2005)."""
    samples: int = Field(1_000, ge=1_000, le=1_000_000)
    """Resamples, or trials, of that test."""
    contamination: Literal["refuse", "allow"] = "refuse"
    """What to do with a model that may have been trained on test sentences, as with `clean.decontaminate` off."""
    built_in_sentences: Literal["all", "no worse", "off"] = "all"
    """Numbers, addresses and placeholders by themselves, which a model should copy: it must keep all of them; or no
    fewer than the champion (the first champion may keep any number), for models whose training text has too few of
    them; or they are not looked at."""
