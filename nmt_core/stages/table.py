"""Table of all stages in order. The flow, the command line and the documentation read this one table."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nmt_core.config import PipelineConfig
from nmt_core.config.renamed import with_present_names
from nmt_core.errors import ArtifactError
from nmt_core.stages.stage import Stage
from nmt_core.store.artifacts import MANIFEST, Artifact, Identity, Store, fingerprint_of

_COMPARED = 50
"""Number of newest artifacts of a stage among which the most similar one is searched. A store may hold thousands."""
FORCED = "forced"
"""Reason of a stage that runs even if its artifact exists."""
_DAMAGED = "made before, but its files are damaged or missing"

STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            "download",
            2,
            ("corpus", "languages"),
            (),
            "nmt_core.corpus.download:run",
            identity="nmt_core.corpus.sources:identity",
        ),
        Stage(
            "clean",
            6,
            ("clean", "languages"),
            ("download",),
            "nmt_core.corpus.clean:run",
            identity="nmt_core.corpus.clean:identity",
        ),
        Stage(
            "split",
            5,
            ("split", "mix", "languages", "clean", "synthesis", "augmentation"),
            ("download", "clean"),
            "nmt_core.corpus.split:run",
            identity="nmt_core.corpus.split:identity",
        ),
        Stage(
            "synthesise",
            1,
            ("synthesis", "mix", "languages", "clean"),
            ("split",),
            "nmt_core.synthesis.synthesise:run",
            identity="nmt_core.synthesis.teachers:identity",
            resumable=True,
            needed_by="synthesis.parts",
            replaces="split",
        ),
        Stage(
            "augment",
            1,
            ("augmentation", "mix", "languages", "clean"),
            ("split",),
            "nmt_core.augmentation.augment:run",
            identity="nmt_core.augmentation.augment:identity",
            needed_by="augmentation.parts",
            replaces="split",
        ),
        Stage(
            "tokenizer",
            5,
            ("tokenizer", "mix", "languages"),
            ("split",),
            "nmt_core.tokenizer.learn:run",
            identity="nmt_core.tokenizer.start:identity",
        ),
        Stage("encode", 5, ("encode",), ("split", "tokenizer"), "nmt_core.batches.encode:run"),
        Stage(
            "train",
            5,
            ("train", "model", "languages", "clean"),
            ("encode", "tokenizer", "split"),
            "nmt_core.train.launch:run",
            identity="nmt_core.train.launch:identity",
            resumable=True,
        ),
        Stage("average", 3, ("average", "model"), ("train", "encode"), "nmt_core.train.average:run"),
        Stage(
            "export",
            15,
            ("export", "model", "languages", "clean"),
            ("average", "tokenizer", "split"),
            "nmt_core.export.onnx:run",
            identity="nmt_core.export.members:identity",
        ),
        Stage(
            "evaluate",
            4,
            ("evaluate", "search", "languages"),
            ("export", "split"),
            "nmt_core.evaluate.report:run",
            identity="nmt_core.judges.files:identity",
        ),
    )
}


def stages_of(config: PipelineConfig) -> list[Stage]:
    """Return the stages that a run of this recipe makes, in order."""
    return [stage for stage in STAGES.values() if stage.is_part_of(config)]


def first_reader(section: str) -> str:
    """Return the stage to which a section of the recipe belongs.

    It is the stage whose own section it is, or else the first one that reads it. Empty means that no stage reads it.
    """
    own = (stage.name for stage in STAGES.values() if stage.sections[0] == section)
    return next(own, next((stage.name for stage in STAGES.values() if section in stage.sections), ""))


def makers_of_inputs(stage: Stage, config: PipelineConfig) -> dict[str, str]:
    """Return the stage that makes each input of a stage in a run of this recipe, by its name in `Stage.needs`."""
    makers = dict(zip(STAGES, STAGES, strict=True))
    for earlier in stages_of(config):
        if earlier.name == stage.name:
            break
        if earlier.replaces is not None:
            makers[earlier.replaces] = earlier.name
    return {need: makers[need] for need in stage.needs}


@dataclass(frozen=True)
class PlannedStage:
    """Plan for one stage: reuse its artifact or run it, and why."""

    stage: Stage
    identity: Identity
    fingerprint: str
    artifact: Artifact | None
    """Artifact that would be reused. None if the stage would run."""
    reason: str
    compared: Artifact | None = None
    """Artifact that would be reused, or else the most similar one, if there is any."""


def plan(config: PipelineConfig, store: Store, force: Iterable[str] = ()) -> list[PlannedStage]:
    """Return the plan of a run, stage by stage, without running anything.

    Fingerprints of stages follow from the configuration and other fingerprints alone, so no artifact need exist.
    """
    planned: dict[str, PlannedStage] = {}
    for stage in stages_of(config):
        makers = makers_of_inputs(stage, config).values()
        identity = stage.identity_of(config, {name: planned[name].fingerprint for name in makers})
        fingerprint = fingerprint_of(identity)
        artifact = None if stage.name in force else store.knows(stage.name, fingerprint)
        compared = artifact
        if stage.name in force:
            reason = FORCED
        elif artifact:
            reason = "made already"
        else:
            reason, compared = _explain_absence(store, stage.name, identity, fingerprint)
        planned[stage.name] = PlannedStage(stage, identity, fingerprint, artifact, reason, compared)
    return list(planned.values())


def _explain_absence(store: Store, stage: str, identity: Identity, fingerprint: str) -> tuple[str, Artifact | None]:
    if (store.path(stage, fingerprint) / MANIFEST).exists():
        return _DAMAGED, None
    return explain_miss(identity, store.newest(stage, _COMPARED))


def explain_miss(identity: Identity, others: Iterable[Artifact]) -> tuple[str, Artifact | None]:
    """Return why no artifact has this identity, and the most similar artifact of the same stage, if there is one.

    The reason is the list of differences from that artifact.
    """
    differences = []
    for other in others:
        with suppress(ArtifactError):  # damaged, so it cannot be compared
            former = with_present_names(other.manifest().identity)
            differences.append((_differences(former, with_present_names(identity)), other))
    if not differences:
        return "never made here", None
    fewest, nearest = min(differences, key=lambda one: len(one[0]))
    return "; ".join(fewest) if fewest else _DAMAGED, nearest


def _differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Return the leaves that differ, as `path: old -> new`."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines = []
        for key in sorted(old.keys() | new.keys()):
            inner = f"{path}.{key}" if path and path != "config" else key
            lines += _differences(old.get(key), new.get(key), inner)
        return lines
    if old == new:
        return []
    if path.startswith("inputs."):
        return [f"its input {path.removeprefix('inputs.')} changed"]
    return [f"{path}: {old} -> {new}"]
