"""Test whether a model can have seen its test sets, by the reports of its stages and of the models it started from."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import pytest
from support.published import identity_like

from flows.registry.candidate import Candidate
from flows.registry.contamination import leaks, unknown
from nmt_core.config import PipelineConfig
from nmt_core.evaluate.test_sets import read_test_sets
from nmt_core.store.artifacts import REPORT, Artifact, Manifest, Store, describe_outputs, fingerprint_of, now

CONFIG = PipelineConfig.model_validate({"name": "test", "corpus": {"toy": {}}})
OFF = PipelineConfig.model_validate({"name": "test", "corpus": {"toy": {}}, "clean": {"decontaminate": False}})
Make = Callable[..., Artifact]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "artifacts")


@pytest.fixture
def make(store: Store) -> Make:
    """Publish what a stage would make of such inputs, with this report."""

    def make(stage: str, number: int, config: Any = None, report: Any = None, **inputs: Artifact) -> Artifact:
        parents = {name: made.fingerprint for name, made in inputs.items()}
        identity = identity_like(stage, f"{number:x}", parents, config)
        fingerprint = fingerprint_of(identity)
        folder = store.partial(stage, fingerprint)
        folder.mkdir(parents=True)
        if stage == "split":
            sets = report if isinstance(report, dict) else {"news": ("", report, "b")}
            for name, (_, source, target) in sets.items():
                pairs = {"source": [source], "target": [target]}
                polars.DataFrame(pairs).write_parquet(folder / f"{name}.parquet")
            content = {"dev": "dev.parquet", "tests": {name: f"{name}.parquet" for name in sets}}
            content["pairs"] = {name: pair for name, (pair, *_) in sets.items() if pair}
            (folder / "splits.json").write_text(json.dumps(content))
            report = {"held_out": {"test/news": 2}}
        (folder / REPORT).write_text(json.dumps(report or {}))
        manifest = Manifest(
            stage=stage,
            fingerprint=fingerprint,
            identity=identity,
            recipe="test",
            outputs=describe_outputs(folder),
            versions={},
            seconds=0,
            host="here",
            created=now(),
        )
        return store.publish(folder, manifest)

    return make


@pytest.fixture
def ancestor(make: Make) -> Callable[..., Artifact]:
    """Publish weights that were trained with this test set held out."""

    def ancestor(number: int, test: str, *, decontaminate: bool = True, started_from: str = "") -> Artifact:
        config = {"clean": {"decontaminate": decontaminate}}
        clean = make("clean", number, config, {"held_out": {"test/news": 3, "dev/dev": 1}})
        split = make("split", number, None, test, clean=clean)
        train = make("train", number, None, {"started_from": started_from}, split=split)
        return make("average", number, None, None, train=train)

    return ancestor


def candidate(store: Store, number: int, started_from: str = "") -> Candidate:
    nothing = Artifact("export", "0" * 32, store.root)
    clean, split = (
        next((made for made in store.published(stage) if made.fingerprint.startswith(f"{number:x}")), None)
        for stage in ("clean", "split")
    )
    return Candidate(nothing, nothing, clean=clean, split=split, started_from=started_from)


def test_the_pairs_that_were_left_out_are_counted(store: Store, ancestor: Callable[..., Artifact]) -> None:
    ancestor(1, "a sentence")
    made = candidate(store, 1)
    assert leaks(made) == {"test/news": 5, "dev/dev": 1}
    assert unknown(CONFIG, made, store) == ""


def test_without_decontamination_or_its_report_nothing_is_known(
    store: Store, ancestor: Callable[..., Artifact]
) -> None:
    ancestor(1, "a sentence")
    assert "clean.decontaminate is off" in unknown(OFF, candidate(store, 1), store)
    assert "no longer in the store" in unknown(CONFIG, candidate(store, 2), store)


@pytest.mark.parametrize(
    ("test", "decontaminate", "why"),
    [
        ("a sentence", True, ""),
        ("another sentence", True, "did not hold out the test set news"),
        ("a sentence", False, "trained with clean.decontaminate off"),
    ],
)
def test_what_training_started_from_must_not_have_seen_them_either(
    store: Store, ancestor: Callable[..., Artifact], test: str, decontaminate: bool, why: str
) -> None:
    ancestor(1, "a sentence")
    weights = ancestor(2, test, decontaminate=decontaminate)
    found = unknown(CONFIG, candidate(store, 1, weights.short), store)
    assert (why in found and found.startswith(f"training started from {weights.short}")) if why else found == ""


def test_nor_what_that_one_started_from(store: Store, ancestor: Callable[..., Artifact]) -> None:
    ancestor(1, "a sentence")
    first = ancestor(2, "another sentence")
    second = ancestor(3, "a sentence", started_from=first.short)
    found = unknown(CONFIG, candidate(store, 1, second.short), store)
    assert found.startswith(f"training started from {first.short}")


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (("en-cs", "a house", "dům"), ""),  # its English is held out, and there was no Czech
        (("cs-en", "dům", "a house"), ""),
        (("en-cs", "a garden", "zahrada"), "did not hold out the test set new"),
        (("cs-pl", "zahrada", "ogród"), ""),
        (("en-de", "a house", "ein Heim"), "did not hold out the test set new"),  # there was German
        (("", "a house", "dům"), "did not hold out the test set new"),  # its languages are unknown
    ],
)
def test_a_test_set_of_an_added_language_was_not_seen_if_its_other_side_was_held_out(
    store: Store, make: Make, new: tuple[str, str, str], why: str
) -> None:
    known = {"old": ("en-de", "a house", "ein Haus")}
    config = {"clean": {"decontaminate": True}, "languages": {"pairs": ["en-de", "de-en"]}}
    split = make("split", 2, None, known, clean=make("clean", 2, config))
    weights = make("average", 2, None, None, train=make("train", 2, None, {}, split=split))
    make("split", 1, None, known | {"new": new}, clean=make("clean", 1, config))
    found = unknown(CONFIG, candidate(store, 1, weights.short), store)
    assert why in found
    assert bool(found) == bool(why)


TEACHERS: dict[str, Any] = {"name": "made", "text": "parallel_source", "teachers": "export/0123"}
DISTILLED = PipelineConfig.model_validate({"name": "test", "corpus": {"toy": {}}, "synthesis": {"parts": [TEACHERS]}})


@pytest.fixture
def taught(store: Store, make: Make) -> Callable[[str], Candidate]:
    """A candidate whose training text was made by this teacher."""

    def taught(teacher: str) -> Candidate:
        made = candidate(store, 1)
        assert made.split
        report = {"teachers": [{"part": "made", "teacher": teacher}], "held_out": {"test/news": 4}}
        return replace(made, synthesise=make("synthesise", 1, None, report, split=made.split))

    return taught


@pytest.mark.parametrize(
    ("test", "decontaminate", "why"),
    [
        ("a sentence", True, ""),
        ("another sentence", True, "did not hold out the test set news"),
        ("a sentence", False, "trained with clean.decontaminate off"),
    ],
)
def test_nor_may_a_teacher_have_seen_them(
    store: Store,
    ancestor: Callable[..., Artifact],
    taught: Callable[[str], Candidate],
    test: str,
    decontaminate: bool,
    why: str,
) -> None:
    ancestor(1, "a sentence")
    made = taught(ancestor(2, test, decontaminate=decontaminate).short)
    found = unknown(DISTILLED, made, store)
    assert (why in found and "text made was made by average/2" in found) if why else found == ""
    assert leaks(made)["test/news"] == 9, "pairs that the teacher would have leaked count too"


def test_a_teacher_of_the_other_direction_held_out_the_same_sentences(
    store: Store, ancestor: Callable[..., Artifact], taught: Callable[[str], Candidate]
) -> None:
    ancestor(1, "b")  # the reference of each of these sentences is `b`
    made = taught(ancestor(2, "b").short)
    assert unknown(DISTILLED, made, store) == ""
    assert made.split
    (test,) = read_test_sets(made.split.path)
    assert (test.swapped.sources, test.swapped.references) == (test.references, test.sources)


def test_nor_may_the_teacher_of_a_teacher(
    store: Store, make: Make, ancestor: Callable[..., Artifact], taught: Callable[[str], Candidate]
) -> None:
    ancestor(1, "a sentence")
    first = ancestor(2, "another sentence")
    clean = make("clean", 3, {"clean": {"decontaminate": True}})
    split = make("split", 3, None, "a sentence", clean=clean)
    report = {"teachers": [{"part": "theirs", "teacher": first.short}]}
    synthetic = make("synthesise", 3, None, report, split=split)
    train = make("train", 3, None, {"started_from": ""}, synthesise=synthetic)
    found = unknown(DISTILLED, taught(make("average", 3, None, None, train=train).short), store)
    assert found.startswith(f"the synthetic text theirs was made by {first.short}, which did not hold out")


def test_a_teacher_without_a_history_is_unknown(
    store: Store, ancestor: Callable[..., Artifact], taught: Callable[[str], Candidate]
) -> None:
    ancestor(1, "a sentence")
    assert "made by /a/bundle, whose training text is unknown" in unknown(DISTILLED, taught("/a/bundle"), store)
    assert "the teachers are unknown" in unknown(DISTILLED, candidate(store, 1), store)


def test_weights_from_elsewhere_are_unknown(store: Store, ancestor: Callable[..., Artifact]) -> None:
    ancestor(1, "a sentence")
    made = candidate(store, 1, "model.safetensors, sha256 0123456789ab")
    assert "whose training text is unknown" in unknown(CONFIG, made, store)


@pytest.mark.parametrize(
    ("test", "decontaminate", "why"),
    [
        ("a sentence", True, ""),
        ("another sentence", True, "did not hold out the test set news"),
        ("a sentence", False, "trained with clean.decontaminate off"),
    ],
)
def test_nor_may_a_member_of_an_ensemble_have_seen_them(
    store: Store, ancestor: Callable[..., Artifact], make: Make, test: str, decontaminate: bool, why: str
) -> None:
    own, other = ancestor(1, "a sentence"), ancestor(2, test, decontaminate=decontaminate)
    members = [{"model": own.short, "is_own": True}, {"model": other.short, "is_own": False}]
    made = replace(candidate(store, 1), export=make("export", 1, None, {"members": members}))
    found = unknown(CONFIG, made, store)
    assert (why in found and found.startswith(f"{other.short} is a member of the ensemble")) if why else found == ""


def test_a_teacher_that_is_an_ensemble_answers_for_its_members(
    store: Store, ancestor: Callable[..., Artifact], make: Make, taught: Callable[[str], Candidate]
) -> None:
    ancestor(1, "a sentence")
    own, other = ancestor(2, "a sentence"), ancestor(3, "another sentence")
    members = [{"model": own.short, "is_own": True}, {"model": other.short, "is_own": False}]
    teacher = make("export", 4, None, {"members": members}, average=own)
    found = unknown(DISTILLED, taught(teacher.short), store)
    assert found.startswith(f"{other.short} is a member of the ensemble") and "test set news" in found
    alone = make("export", 5, None, {"members": members[:1]}, average=own)
    assert unknown(DISTILLED, taught(alone.short), store) == ""
