"""Contamination check: test sentences in the training text of a model, and of the models behind it.

These are the models that it started from, its teachers, and the other members of an ensemble.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from flows.registry.candidate import Candidate, other_members
from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError
from nmt_core.evaluate.test_sets import TestSet, read_test_sets
from nmt_core.store.artifacts import Artifact, Store

_NEEDED = ("clean", "split", "train")
_SYNTHETIC, _BUNDLE = "synthesise", "export"


def leaks(candidate: Candidate) -> dict[str, int]:
    """Return the number of training pairs that were dropped because they share text with a held-out set, by set."""
    counts = Counter[str]()
    for artifact in (candidate.clean, candidate.split, candidate.synthesise, candidate.augment):
        counts.update(artifact.report().get("held_out", {}) if artifact else {})
    return dict(counts)


def unknown(config: PipelineConfig, candidate: Candidate, store: Store) -> str:
    """Return why test sentences may be in the training text, or an empty text if they cannot be."""
    if not config.clean.decontaminate:
        return "clean.decontaminate is off, so test sentences may be in the training text"
    if not candidate.clean or not candidate.split:
        return (
            "the reports of clean or split are no longer in the store, so test sentences may be in the training text "
            "(run the recipe again from its first stage)"
        )
    tests = {test.sha256: test for test in read_test_sets(candidate.split.path)}
    if config.synthesis.parts and not candidate.synthesise:
        return (
            "the report of synthesise is no longer in the store, so the teachers are unknown (run the recipe again "
            "from its first stage)"
        )
    if reason := _unknown_of_ancestors(candidate.started_from, candidate.synthesise, tests, store):
        return reason
    return _unknown_of_members(candidate.other_members, tests, store)


def _unknown_of_members(members: Iterable[str], tests: Mapping[str, TestSet], store: Store) -> str:
    """Return the same text for members of an ensemble that other runs trained."""
    reasons = (
        _unknown_of_ancestor(member, f"{member} is a member of the ensemble", tests, store) for member in members
    )
    return next(filter(None, reasons), "")


def _unknown_of_ancestors(
    started_from: str, synthetic: Artifact | None, tests: Mapping[str, TestSet], store: Store
) -> str:
    """Return the same text for the model that a training started from, and for the teachers of its synthetic text."""
    start = f"training started from {started_from}"
    if started_from and (reason := _unknown_of_ancestor(started_from, start, tests, store)):
        return reason
    teachers = {one["teacher"]: one["part"] for one in synthetic.report()["teachers"]} if synthetic else {}
    reasons = (
        _unknown_of_ancestor(teacher, f"the synthetic text {part} was made by {teacher}", tests, store)
        for teacher, part in teachers.items()
    )
    return next(filter(None, reasons), "")


def _unknown_of_ancestor(name: str, start: str, tests: Mapping[str, TestSet], store: Store) -> str:
    """Return the same text for another model, and for the models that it descends from or learned from.

    Args:
        name: Name of an artifact of the model.
        start: Beginning of the text, which says how the model is involved.
        tests: Test sets by the hash of their text.
        store: Store of the artifacts.
    """
    try:
        lineage = [
            ancestor
            for ancestor in store.lineage(store.resolve(name))
            if ancestor.stage in {*_NEEDED, _SYNTHETIC, _BUNDLE}
        ]
        made = {
            ancestor.stage: stored
            for ancestor in lineage
            if (stored := store.find(ancestor.stage, ancestor.fingerprint))
        }
    except ArtifactError:
        made = {}
    if not all(stage in made for stage in _NEEDED):
        return f"{start}, whose training text is unknown"
    if not _was_decontaminated(made["clean"]):
        return f"{start}, which was trained with clean.decontaminate off"
    known = read_test_sets(made["split"].path)
    held_out = {test.sha256 for test in known} | {test.swapped.sha256 for test in known}  # of the other direction
    new = [test for sha256, test in tests.items() if sha256 not in held_out]
    languages = _languages_of(made["clean"])
    if seen := [test.name for test in new if not _is_unseen(test, known, languages)]:
        return f"{start}, which did not hold out the test set {', '.join(seen)} and may have been trained on it"
    before = str(made["train"].report().get("started_from", ""))
    if reason := _unknown_of_ancestors(before, made.get(_SYNTHETIC), tests, store):
        return reason
    return _unknown_of_members(other_members(made.get(_BUNDLE)), tests, store)


def _is_unseen(test: TestSet, known: Iterable[TestSet], languages: Collection[str]) -> bool:
    """Return True if a model for many pairs of languages cannot have been trained on a sentence of another test set.

    It has no text in the language of a side, or the sentences of the side are in its own test sets. So a language may
    be added to a model.

    Args:
        test: Test set that the model does not have.
        known: Test sets of the model.
        languages: Languages of the model. Empty means that they are unknown.
    """
    if not test.pair or not languages:
        return False
    held_out: dict[str, set[str]] = {}
    for one in known:
        for language, lines in _sides(one):
            held_out.setdefault(language, set()).update(lines)
    return all(
        language not in languages or held_out.get(language, set()).issuperset(lines) for language, lines in _sides(test)
    )


def _sides(test: TestSet) -> Iterable[tuple[str, list[str]]]:
    """Return the language and the lines of each side. Empty if the pair of languages is not stored."""
    return zip(test.pair.split("-"), (test.sources, test.references), strict=True) if test.pair else ()


def _languages_of(clean: Artifact) -> set[str]:
    """Return the languages of the text of a model for many pairs. Empty if it is a model for one."""
    pairs = clean.manifest().identity["config"].get("languages", {}).get("pairs", ())
    return {language for pair in pairs for language in pair.split("-")}


def _was_decontaminated(clean: Artifact) -> bool:
    return bool(clean.manifest().identity["config"]["clean"]["decontaminate"])
