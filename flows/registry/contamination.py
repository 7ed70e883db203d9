"""What is known of test sentences in the training text of a model, and of the model that its training started from."""

from collections import Counter
from collections.abc import Mapping

from flows.registry.candidate import Candidate
from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError
from nmt_core.evaluate.test_sets import read_test_sets
from nmt_core.store.artifacts import Artifact, Store

_NEEDED = ("clean", "split", "train")


def leaks(candidate: Candidate) -> dict[str, int]:
    """Training pairs that were left out because they share text with a held-out set, by set."""
    found = Counter[str]()
    for artifact in (candidate.clean, candidate.split):
        found.update(artifact.report().get("held_out", {}) if artifact else {})
    return dict(found)


def unknown(config: PipelineConfig, candidate: Candidate, store: Store) -> str:
    """Why it is not known that no test sentence was trained on; empty: it is known."""
    if not config.clean.decontaminate:
        return "clean.decontaminate is off, so that test sentences may be in the training text"
    if not candidate.clean or not candidate.split:
        return (
            "what clean or split reported is no longer in the store, so that nothing is known of test sentences in the "
            "training text (run the recipe again, from its beginning)"
        )
    tests = {test.sha256: test.name for test in read_test_sets(candidate.split.path)}
    return _unknown_of_ancestor(candidate.started_from, tests, store) if candidate.started_from else ""


def _unknown_of_ancestor(started_from: str, tests: Mapping[str, str], store: Store) -> str:
    """The same for a model that the training started from, and for the one that that one started from."""
    start = f"training started from {started_from}"
    try:
        lineage = [each for each in store.lineage(store.resolve(started_from)) if each.stage in _NEEDED]
        made = {each.stage: found for each in lineage if (found := store.find(each.stage, each.fingerprint))}
    except ArtifactError:
        made = {}
    if not all(stage in made for stage in _NEEDED):
        return f"{start}, of whose training text nothing is known"
    if not _was_decontaminated(made["clean"]):
        return f"{start}, which was trained with clean.decontaminate off"
    held_out = {test.sha256 for test in read_test_sets(made["split"].path)}
    if seen := [name for sha256, name in tests.items() if sha256 not in held_out]:
        return f"{start}, which was made without regard to the test set {', '.join(seen)} and may have learnt from it"
    before = str(made["train"].report().get("started_from", ""))
    return _unknown_of_ancestor(before, tests, store) if before else ""


def _was_decontaminated(clean: Artifact) -> bool:
    return bool(clean.manifest().identity["config"]["clean"]["decontaminate"])
