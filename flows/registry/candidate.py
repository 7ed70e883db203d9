"""Candidate for the registry: a bundle, with the artifacts that tell how it was made and how good it is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flows.runs.start_from import tag_of
from flows.runs.summary import RoundModel
from nmt_core.store.artifacts import REPORT, Artifact, fingerprint_of

STARTED_FROM_TAG = "nmt.started_from"

SCORE_TAG = "nmt.score"
_SCORED_ON_TAG = "nmt.scored_on"


_NOT_IN_A_TAG = re.compile(r"[^\w\-./ ]+")
"""Characters that MLflow accepts in no name, such as + in chrF++."""


def members_of(export: Artifact | None) -> list[dict[str, Any]]:
    """Return the members of an ensemble from the report of its export. Empty if it is one model, or unknown."""
    is_known = export is not None and (export.path / REPORT).is_file()
    return list(export.report().get("members", ())) if export and is_known else []


def other_members(export: Artifact | None) -> list[str]:
    """Return the models in an ensemble that other runs trained, each once."""
    return list(dict.fromkeys(member["model"] for member in members_of(export) if not member["is_own"]))


@dataclass(frozen=True)
class Candidate:
    """Bundle with its evaluation and the artifacts that it was made from."""

    export: Artifact
    evaluate: Artifact
    download: Artifact | None = None
    """Downloaded text, for the licences. None if the store no longer has it."""
    clean: Artifact | None = None
    """Clean text, for the corpora that were skipped. None if the store no longer has it."""
    made_of: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the weights and the vocabulary by stage, for runs that start from this model."""
    started_from: str = ""
    """Model that the training started from. Empty means random weights, or that the store no longer knows."""
    split: Artifact | None = None
    """Dev and test sets, on which it is compared with the champion. None if the store no longer has them."""
    train: Artifact | None = None
    """Training artifact, for the cost of training. None if the store no longer has it."""
    synthesise: Artifact | None = None
    """Synthetic text, for its teachers. None if there is none, or if the store no longer has it."""
    augment: Artifact | None = None
    """Rough copies of the text, for their leaks. None if there are none, or if the store no longer has them."""

    rounds: Sequence[RoundModel] = ()
    """Models of the run's rounds, in order. The last one is the candidate. Empty if the run has none."""
    teachers: Mapping[str, str] = field(default_factory=dict)
    """Registered versions of the teachers and of the other members of its ensemble, with their verdicts in words, by
    the short name of the artifact."""

    @property
    def other_members(self) -> list[str]:
        """Models in its ensemble that other runs trained, by the short names of their artifacts or by their folders."""
        return other_members(self.export)

    @property
    def members(self) -> list[dict[str, Any]]:
        """Members of its ensemble, as the report of `export` names them. Empty if it is one model."""
        return members_of(self.export)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the pair of export and evaluation, which is one version.

        The model card may change, and the version then keeps its number.
        """
        return fingerprint_of({"export": self.export.fingerprint, "evaluate": self.evaluate.fingerprint})

    @property
    def score(self) -> tuple[float, str]:
        """First BLEU score, and the test set and signature of this score."""
        for score in self.evaluate.report().get("scores", []):
            if score["metric"] == "BLEU":
                return float(score["score"]), f"{score['test_set']} {score['signature']}"
        return 0.0, ""

    @property
    def tags(self) -> dict[str, str]:
        """Tags of the model version."""
        score, scored_on = self.score
        scores = self.evaluate.report().get("scores", [])
        names = [_NOT_IN_A_TAG.sub("_", f"nmt.{score['metric']}.{score['test_set']}") for score in scores]
        tags = {name: f"{score['score']:.2f}" for name, score in zip(names, scores, strict=True)}
        tags |= {tag_of("export"): self.export.fingerprint, tag_of("evaluate"): self.evaluate.fingerprint}
        tags |= {tag_of(stage): fingerprint for stage, fingerprint in self.made_of.items()}
        tags |= {STARTED_FROM_TAG: self.started_from} if self.started_from else {}
        return tags | {SCORE_TAG: f"{score:.4f}", _SCORED_ON_TAG: scored_on}
