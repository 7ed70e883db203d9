"""The table of stages is consistent, and the plan lists what would run, and why."""

import importlib
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.runs.reasons import other_versions
from nmt_core.config import PipelineConfig
from nmt_core.stages import STAGE_NAMES
from nmt_core.stages.stage import Stage
from nmt_core.stages.table import (
    _COMPARED,
    STAGES,
    PlannedStage,
    explain_miss,
    makers_of_inputs,
    plan,
    stages_of,
)
from nmt_core.store.artifacts import MANIFEST, Artifact, Store
from nmt_core.store.library_versions import versions

SMALL: dict[str, Any] = {"name": "small", "corpus": {"toy": {}}}
NAMES = [stage.name for stage in stages_of(PipelineConfig.model_validate(SMALL))]
SYNTHETIC: dict[str, Any] = {
    "synthesis": {"parts": [{"name": "made", "text": "parallel_source", "teachers": "no/such/bundle"}]}
}
AUGMENTED: dict[str, Any] = {"augmentation": {"parts": [{"name": "capitals", "changes": "upper_case"}]}}
WITH_BOTH = PipelineConfig.model_validate(SMALL | SYNTHETIC | AUGMENTED)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def planned(store: Store, force: Iterable[str] = (), **sections: Any) -> dict[str, PlannedStage]:
    steps = plan(PipelineConfig.model_validate(SMALL | sections), store, force)
    return {step.stage.name: step for step in steps}


def changed(one: dict[str, PlannedStage], other: dict[str, PlannedStage]) -> list[str]:
    return [name for name in NAMES if one[name].fingerprint != other[name].fingerprint]


def test_the_table_is_the_path_of_the_data() -> None:
    path = "download clean split tokenizer encode train average export evaluate"
    assert path.split() == NAMES
    assert [stage.name for stage in stages_of(WITH_BOTH)] == list(STAGES)
    assert set(STAGES) - set(NAMES) == {"synthesise", "augment"}


def test_a_stage_can_take_the_place_of_an_earlier_one() -> None:
    readers = [name for name, stage in STAGES.items() if "split" in stage.needs]
    makers = {name: makers_of_inputs(STAGES[name], WITH_BOTH)["split"] for name in readers}
    assert (makers.pop("synthesise"), makers.pop("augment")) == ("split", "synthesise")
    assert set(makers) == {"tokenizer", "encode", "train", "export", "evaluate"}
    assert set(makers.values()) == {"augment"}
    assert all(
        makers_of_inputs(STAGES[name], PipelineConfig.model_validate(SMALL))["split"] == "split"
        for name in NAMES
        if "split" in STAGES[name].needs
    )


def test_synthetic_text_changes_nothing_before_it(store: Store) -> None:
    """The weight is a rule of the mix, which `split` reads too."""
    rule = {"mix": {"corpora": [{"corpus": "made", "weight": 2.0, "tag": "<made>"}]}}
    assert changed(planned(store), planned(store, **SYNTHETIC)) == NAMES[NAMES.index("tokenizer") :]
    assert changed(planned(store), planned(store, **SYNTHETIC, **rule)) == NAMES[NAMES.index("tokenizer") :]
    with_rule, without = planned(store, **SYNTHETIC, **rule), planned(store, **SYNTHETIC)
    assert with_rule["synthesise"].fingerprint != without["synthesise"].fingerprint


def test_rough_copies_change_nothing_before_them(store: Store) -> None:
    """Their weight is a rule of the mix, which `split` and `synthesise` read too."""
    rule = {"mix": {"corpora": [{"corpus": "capitals", "weight": 2.0, "tag": "<C>"}]}}
    assert changed(planned(store), planned(store, **AUGMENTED)) == NAMES[NAMES.index("tokenizer") :]
    without, with_rule = planned(store, **SYNTHETIC, **AUGMENTED), planned(store, **SYNTHETIC, **AUGMENTED, **rule)
    assert with_rule["synthesise"].fingerprint == without["synthesise"].fingerprint
    assert with_rule["augment"].fingerprint != without["augment"].fingerprint


def test_every_function_of_the_table_exists() -> None:
    def exists(name: str) -> bool:
        module, _, function = name.partition(":")
        return callable(getattr(importlib.import_module(module), function, None))

    named = [name for stage in STAGES.values() for name in (stage.run, stage.identity) if name]
    assert [name for name in named if not exists(name)] == []


def test_a_stage_needs_earlier_stages_and_known_sections() -> None:
    order = list(STAGES)

    def holds(stage: Stage) -> bool:
        earlier, known = set(order[: order.index(stage.name)]), set(PipelineConfig.model_fields)
        return set(stage.needs) <= earlier and bool(stage.sections) and set(stage.sections) <= known

    assert [stage.name for stage in STAGES.values() if not holds(stage)] == []


def test_every_stage_but_the_last_is_needed() -> None:
    needed = {name for stage in STAGES.values() for name in stage.needs}
    assert needed == set(NAMES[:-1])


def test_planning_touches_nothing(store: Store) -> None:
    steps = planned(store)
    assert all(step.artifact is None and step.reason == "never made here" for step in steps.values())
    assert not store.root.exists()


def test_the_same_recipe_has_the_same_fingerprints(store: Store) -> None:
    assert changed(planned(store), planned(store)) == []


@pytest.mark.parametrize(
    ("sections", "first"),
    [
        ({"corpus": {"toy": {"seed": 2}}}, "download"),
        ({"clean": {"max_words": 9}}, "clean"),
        ({"split": {"seed": 3}}, "split"),
        ({"tokenizer": {"vocab_size": 900}}, "tokenizer"),
        ({"encode": {"max_length": 99}}, "encode"),
        ({"train": {"seed": 9}}, "train"),
        ({"train": {"dev_sentences": 9}}, "train"),
        ({"train": {"keep_best": 1}}, "train"),
        ({"model": {"dropout": 0.2}}, "train"),
        ({"average": {"checkpoints": 2}}, "average"),
        ({"export": {"shortlist": True}}, "export"),
        ({"search": {"beam_size": 2}}, "evaluate"),
        ({"export": {"shortlist": True}, "search": {"shortlist": True}}, "export"),
        ({"evaluate": {"samples": 9}}, "evaluate"),
    ],
)
def test_an_option_changes_its_stage_and_those_that_follow(store: Store, sections: dict[str, Any], first: str) -> None:
    assert changed(planned(store), planned(store, **sections)) == followers(first)


@pytest.mark.parametrize(
    ("value", "first"), [("auto", False), ("never", "never"), (False, "never"), ("always", True), (True, True)]
)
def test_a_shortlist_without_a_choice_counts_as_it_did_before_there_was_one(value: bool | str, first: Any) -> None:
    """Artifacts of earlier recipes are reused. A choice against the shortlist is another search than none."""
    part = {"name": "made", "text": "parallel_source", "teachers": "/bundle", "search": {"shortlist": value}}
    values = {"search": {"shortlist": value}, "synthesis": {"parts": [part]}, "export": {"shortlist": True}}
    config = PipelineConfig.model_validate({"name": "test", "corpus": {"toy": {}}} | values)
    identities = {name: STAGES[name].identity_of(config, {})["config"] for name in ("export", "synthesise", "evaluate")}
    assert identities["evaluate"]["search"]["shortlist"] == first
    assert identities["synthesise"]["synthesis"]["parts"][0]["search"]["shortlist"] == first
    assert identities["export"]["export"]["shortlist"] is True


def followers(first: str) -> list[str]:
    """Return the stage and all stages after it that use it, in the order of the table."""
    found = {first}
    for stage in STAGES.values():
        if found & set(stage.needs):
            found.add(stage.name)
    return [name for name in NAMES if name in found]


@pytest.mark.parametrize(
    "sections",
    [
        {"name": "other"},
        {"description": "other"},
        {"registry": {"model_name": "other"}},
        {"budget": {"max_gpu_hours": 9, "max_hours": 1}},
    ],
)
def test_names_and_the_budget_change_no_fingerprint(store: Store, sections: dict[str, Any]) -> None:
    assert changed(planned(store), planned(store, **sections)) == []


@pytest.mark.parametrize("train", [{"dev_samples": 9}, {"parallel": "fsdp"}])
def test_what_is_shown_and_how_work_is_spread_changes_no_fingerprint(store: Store, train: dict[str, Any]) -> None:
    assert changed(planned(store), planned(store, train=train)) == []


def test_a_mirror_changes_no_fingerprint(store: Store) -> None:
    """A mirror is only a place. The sha256 identifies the text."""
    assert changed(planned(store), planned(store, corpus={"toy": {}, "mirror": "/data"})) == []


def test_a_version_changes_its_stage_and_those_that_follow(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = planned(store)
    monkeypatch.setitem(STAGES, "encode", replace(STAGES["encode"], version=99))
    assert changed(before, planned(store)) == ["encode", "train", "average", "export", "evaluate"]


def test_the_plan_names_what_is_made_already(store: Store, tiny: dict[str, Artifact], make_config: Any) -> None:
    steps = plan(make_config(), Store(tiny["encode"].path.parent.parent), force=["tokenizer"])
    reasons = {step.stage.name: step.reason for step in steps}
    assert reasons["download"] == reasons["encode"] == "made already"
    assert reasons["tokenizer"] == "forced"
    assert reasons["train"] == "never made here"


@pytest.mark.parametrize(
    ("sections", "reasons"),
    [
        ({"clean": {"max_words": 9}}, {"clean": "clean.max_words: 150 -> 9", "split": "its input clean changed"}),
        ({"tokenizer": {"vocab_size": 700}}, {"tokenizer": "tokenizer.vocab_size: 600 -> 700"}),
        (
            {"encode": {"max_length": 32, "shard_pairs": 2_000}},
            {"encode": "encode.max_length: 64 -> 32; encode.shard_pa"},
        ),
    ],
)
def test_a_miss_names_the_part_that_changed(
    tiny: dict[str, Artifact], make_config: Any, sections: dict[str, Any], reasons: dict[str, str]
) -> None:
    steps = plan(make_config(**sections), Store(tiny["encode"].path.parent.parent))
    found = {step.stage.name: step.reason for step in steps}
    assert all(found[name].startswith(reason) for name, reason in reasons.items()), found


def test_a_miss_is_compared_with_the_most_similar_artifact(tiny: dict[str, Artifact]) -> None:
    identity = tiny["encode"].manifest().identity
    version = identity["version"]
    changed = explain_miss(identity | {"version": version + 1}, [tiny["clean"], tiny["encode"]])
    assert changed == (f"version: {version} -> {version + 1}", tiny["encode"])
    assert explain_miss(identity, [tiny["encode"]])[0] == "made before, but its files are damaged or missing"
    assert explain_miss(identity, []) == ("never made here", None)


def test_versions_count_where_they_are_asked_to(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = planned(store)
    monkeypatch.setenv("NMT_STRICT_VERSIONS", "1")
    strict = planned(store)
    assert changed(before, strict) == NAMES
    assert strict["train"].identity["versions"] == versions()
    assert changed(strict, planned(store)) == []


OPENED_BY_A_PLAN = """
import sys
from pathlib import Path
from nmt_core.store.artifacts import Store
from nmt_core.config import PipelineConfig
from nmt_core.stages.table import plan

opened = []
sys.addaudithook(lambda event, values: opened.append(str(values[0])) if event == "open" else None)
plan(PipelineConfig.model_validate({"name": "small", "corpus": {"toy": {}}}), Store(Path(sys.argv[1])))
print(sum(name.endswith("manifest.json") for name in opened))
"""


def test_a_plan_reads_no_more_manifests_than_it_compares(store: Store) -> None:
    """A store may hold thousands of artifacts."""
    for number in range(_COMPARED + 10):
        folder = store.path("clean", f"{number:032x}")
        folder.mkdir(parents=True)
        (folder / MANIFEST).write_text("")
    command = [sys.executable, "-c", OPENED_BY_A_PLAN, str(store.root)]
    assert int(subprocess.check_output(command)) == _COMPARED


@pytest.mark.parametrize(
    ("made", "here", "said"),
    [
        ({"python": "3.0"}, {}, ""),
        ({"torch": "1.0"}, {}, "which do not count (NMT_STRICT_VERSIONS=1 makes them count): torch 1.0 -> "),
        ({"old": "1.0"}, {"NMT_STRICT_VERSIONS": "1"}, "old 1.0 -> none"),
    ],
)
def test_why_names_versions_that_differ(
    store: Store,
    tiny: dict[str, Artifact],
    monkeypatch: pytest.MonkeyPatch,
    made: dict[str, str],
    here: dict[str, str],
    said: str,
) -> None:
    for name, value in here.items():
        monkeypatch.setenv(name, value)
    artifact = Artifact("clean", tiny["clean"].fingerprint, store.path("clean", tiny["clean"].fingerprint))
    artifact.path.mkdir(parents=True)
    manifest = tiny["clean"].manifest()
    assert other_versions(store, tiny["clean"]) is None
    (artifact.path / MANIFEST).write_text(
        manifest.model_copy(update={"outputs": {}, "versions": manifest.versions | made}).model_dump_json()
    )
    found = other_versions(store, artifact)
    assert found.startswith(f"versions since {artifact.short} was made") and said in found
    assert ("do not count" in found) == (not here)


def test_the_names_match_the_table() -> None:
    assert list(STAGES) == list(STAGE_NAMES)
