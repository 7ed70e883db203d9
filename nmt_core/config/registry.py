"""`registry`: the name of the model, and the gate on its way to champion."""

from typing import Literal, Self, get_args

from pydantic import Field, model_validator

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
    0.2 is 20% fewer tokens per second. It is refused where the 95% interval of what was timed lies beyond that."""
    metric: MetricName = "BLEU"
    """What the quality of champion and challenger is compared in, on every test set."""
    min_score: float | None = Field(None, ge=0, le=100)
    """Score on the main test set that the first champion must reach. By default it must be significantly better than
    the source text as a translation of itself. Fewer than half of its translations may be empty. 0 lets any model
    pass."""
    significance: float = Field(0.05, gt=0, lt=1)
    """A difference counts if chance alone gives one as large less often than this (p-value). On the main test set the
    challenger must be better by that measure, and on no other one worse."""
    significance_test: SignificanceTest = "bootstrap"
    """How chance is told: paired bootstrap resampling (Koehn 2004), or approximate randomisation (Riezler and Maxwell
    2005)."""
    samples: int = Field(1_000, ge=1_000, le=1_000_000)
    """Resamples, or trials, of that test; more than 2 / significance of them."""
    contamination: Literal["refuse", "allow"] = "refuse"
    """What to do with a model that may have been trained on test sentences, as with `clean.decontaminate` off."""
    built_in_sentences: Literal["all", "no_worse", "off"] = "all"
    """Numbers, addresses and placeholders by themselves, which a model should copy: it must keep all of them; or no
    fewer than the champion (the first champion may keep any number), for models whose training text has too few of
    them; or they are not looked at."""

    @model_validator(mode="after")
    def _enough_samples(self) -> Self:
        if 2 / (self.samples + 1) >= self.significance:
            raise ValueError(
                f"samples={self.samples} are too few for significance={self.significance:g}: nothing could ever be "
                f"significant: set samples to more than {2 / self.significance:.0f}"
            )
        return self
