"""What is taken to the registry: a bundle, and what is known of how it was made and how good it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from flows.runs.start_from import tag_of
from nmt_core.store.artifacts import Artifact, fingerprint_of

STARTED_FROM_TAG = "nmt.started_from"

SCORE_TAG = "nmt.score"
_SCORED_ON_TAG = "nmt.scored_on"


@dataclass(frozen=True)
class Candidate:
    """A bundle and how good it is."""

    export: Artifact
    evaluate: Artifact
    download: Artifact | None = None
    """The text that it learnt from, for the licences; None: the store no longer has it."""
    clean: Artifact | None = None
    """The clean text, for the corpora that were left out; None: the store no longer has it."""
    made_of: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of its weights and its vocabulary by stage, for who starts from it."""
    started_from: str = ""
    """What its training started from; empty: random weights, or the store no longer knows."""
    split: Artifact | None = None
    """Its dev and test text, on which it is compared with the champion; None: the store no longer has it."""
    train: Artifact | None = None
    """Its training, for what that took; None: the store no longer has it."""

    @property
    def fingerprint(self) -> str:
        """Names the pair, which is one version; the card can change, and then the version keeps its number."""
        return fingerprint_of({"export": self.export.fingerprint, "evaluate": self.evaluate.fingerprint})

    @property
    def score(self) -> tuple[float, str]:
        """The first BLEU, and what it was computed on and how."""
        for score in self.evaluate.report().get("scores", []):
            if score["metric"] == "BLEU":
                return float(score["score"]), f"{score['test_set']} {score['signature']}"
        return 0.0, ""

    @property
    def tags(self) -> dict[str, str]:
        """Tags of the model version."""
        score, scored_on = self.score
        tags = {
            f"nmt.{s['metric']}.{s['test_set']}": f"{s['score']:.2f}" for s in self.evaluate.report().get("scores", [])
        }
        tags |= {tag_of("export"): self.export.fingerprint, tag_of("evaluate"): self.evaluate.fingerprint}
        tags |= {tag_of(stage): fingerprint for stage, fingerprint in self.made_of.items()}
        tags |= {STARTED_FROM_TAG: self.started_from} if self.started_from else {}
        return tags | {SCORE_TAG: f"{score:.4f}", _SCORED_ON_TAG: scored_on}
