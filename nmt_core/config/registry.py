"""`registry`: name of the model, and the gate that it must pass to become champion."""

from typing import Literal, Self

from pydantic import Field, model_validator

from nmt_core.config.section import Section, later

MetricName = Literal["BLEU", "chrF", "chrF++"]
SignificanceTest = Literal["bootstrap", "randomisation"]


class RegistryConfig(Section):
    """Name of the model in the MLflow registry, and the gate that it must pass to become champion.

    The champion is the version used in production.
    """

    model_name: str = Field("", pattern="^[A-Za-z0-9._-]*$")
    """Name of the registered model. Empty means the name of the recipe."""
    max_slowdown: float = Field(0.2, ge=0)
    """Largest accepted slowdown of a challenger relative to the champion. 0.2 accepts 20% fewer tokens per second. Both
    are timed on the machine that registers the model. The challenger is refused only if the whole 95% interval of the
    measured slowdown is above this value."""
    metric: str = Field("BLEU", pattern="^[A-Za-z0-9][A-Za-z0-9._+ -]*$", max_length=60)
    """Metric that compares champion and challenger on every test set: BLEU, chrF, chrF++, or the name of a metric of
    `evaluate.metrics`, such as TER or a program. Where lower is better, as for TER, the gate takes this into
    account."""
    min_score: float | None = Field(None, ge=0, le=100)
    """Lowest score on the main test set with which the first champion is accepted, or the highest one if lower is
    better. By default, its score must be
    significantly better than the score of the untranslated source text. In both cases, fewer than half of its
    translations may be empty. 0 accepts any model, without either condition."""
    significance: float = Field(0.05, gt=0, lt=1)
    """Significance level: a difference counts if its p-value is below this. The challenger must be significantly better
    on the main test set, and not significantly worse on any other."""
    significance_test: SignificanceTest = "bootstrap"
    """Significance test: paired bootstrap resampling (Koehn 2004), or approximate randomisation (Riezler and Maxwell
    2005)."""
    samples: int = Field(1_000, ge=1_000, le=1_000_000)
    """Number of resamples, or trials, of the significance test. It must be greater than 2 / significance."""
    contamination: Literal["refuse", "allow"] = "refuse"
    """Treatment of a model that may have been trained on test sentences, for example with `clean.decontaminate` off:
    refuse it as champion, or allow it."""
    built_in_sentences: Literal["all", "no_worse", "off"] = "all"
    """Rule for the built-in sentences: numbers, addresses and placeholders, which a model should copy. `all`: every one
    must be copied. `no_worse`: at least as many as the champion copies, and any number for the first champion. This
    suits models whose training text has few of them. `off`: they are not tested."""
    suites: Literal["refuse", "report"] = later("refuse")
    """Rule for the suites of `evaluate.suites`. `refuse`: a challenger that is worse than the champion on one of them,
    by more than `suite_margin`, is refused. `report`: their checks always pass, and show the difference."""
    suite_margin: float = later(1.0, ge=0, le=100)
    """Loss on a suite that is accepted, in points of `metric`. A challenger is refused only if the whole confidence
    interval of its loss is above this value."""

    champion: Literal["model", "pair"] = later("model")
    """Scope of a champion of a model for many pairs of languages. `model`: one version for all pairs. `pair`: each pair
    has a champion of its own, with an alias such as champion-en-de, and is compared with it. A challenger that is
    refused becomes the champion for the pairs in which it is significantly better, if all checks that concern every
    pair have passed. A challenger that passes becomes the champion for all pairs."""
    shadow: Literal["off", "if_measured", "required"] = later("off")
    """Rule for real jobs of which the challenger translated a share (`nmt translate --shadow`). `if_measured`: it is
    refused if significantly more of its translations than of the champion's have a bad status. `required`: it is also
    refused before it has translated `shadow_lines` lines. `off`: jobs do not count."""
    shadow_lines: int = later(1_000, ge=1)
    """Number of lines of real jobs from which `shadow` judges a challenger."""

    @model_validator(mode="after")
    def _enough_samples(self) -> Self:
        if 2 / (self.samples + 1) >= self.significance:
            raise ValueError(
                f"samples={self.samples} are too few for significance={self.significance:g}, because no difference "
                f"could be significant: set samples to more than {2 / self.significance:.0f}"
            )
        return self
