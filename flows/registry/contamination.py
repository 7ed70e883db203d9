"""Contamination check: test sentences in the training text of a model or of the models that it started from."""

from collections import Counter
from collections.abc import Mapping

from flows.registry.candidate import Candidate
from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError
from nmt_core.evaluate.test_sets import read_test_sets
from nmt_core.store.artifacts import Artifact, Store

_NEEDED = ("clean", "split", "train")


def leaks(candidate: Candidate) -> dict[str, int]:
    """Return the number of training pairs that were dropped because they share text with a held-out set, by set."""
    found = Counter[str]()
    for artifact in (candidate.clean, candidate.split):
        found.update(artifact.report().get("held_out", {}) if artifact else {})
    return dict(found)


def unknown(config: PipelineConfig, candidate: Candidate, store: Store) -> str:
    """Return why test sentences may be in the training text, or an empty text if they cannot be."""
    if not config.clean.decontaminate:
        return "clean.decontaminate is off, so test sentences may be in the training text"
    if not candidate.clean or not candidate.split:
        return (
            "the reports of clean or split are no longer in the store, so test sentences may be in the training text "
            "(run the recipe again from its first stage)"
        )
    tests = {test.sha256: test.name for test in read_test_sets(candidate.split.path)}
    return _unknown_of_ancestor(candidate.started_from, tests, store) if candidate.started_from else ""


def _unknown_of_ancestor(started_from: str, tests: Mapping[str, str], store: Store) -> str:
    """Return the same text for the model that the training started from, and for the models that it descends from."""
    start = f"training started from {started_from}"
    try:
        lineage = [each for each in store.lineage(store.resolve(started_from)) if each.stage in _NEEDED]
        made = {each.stage: found for each in lineage if (found := store.find(each.stage, each.fingerprint))}
    except ArtifactError:
        made = {}
    if not all(stage in made for stage in _NEEDED):
        return f"{start}, whose training text is unknown"
    if not _was_decontaminated(made["clean"]):
        return f"{start}, which was trained with clean.decontaminate off"
    held_out = {test.sha256 for test in read_test_sets(made["split"].path)}
    if seen := [name for sha256, name in tests.items() if sha256 not in held_out]:
        return f"{start}, which did not hold out the test set {', '.join(seen)} and may have been trained on it"
    before = str(made["train"].report().get("started_from", ""))
    return _unknown_of_ancestor(before, tests, store) if before else ""


def _was_decontaminated(clean: Artifact) -> bool:
    return bool(clean.manifest().identity["config"]["clean"]["decontaminate"])
