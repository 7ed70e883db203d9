"""Inputs of a stage that runs by itself."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.runs.origin import LATEST, Origin, find_origin
from flows.runs.selection import StepName
from flows.runs.summary import RunSummary, StageSummary
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.store.artifacts import Artifact


@pytest.fixture
def home(tiny: dict[str, Artifact], tmp_path: Path) -> Settings:
    """Home whose store is the store of the tiny pipeline."""
    (tmp_path / "artifacts").symlink_to(tiny["encode"].path.parent.parent)
    return Settings.load({"NMT_HOME": str(tmp_path)})


@pytest.fixture
def ran(home: Settings, tiny: dict[str, Artifact], make_config: Any) -> Any:
    """Write the summary of a run of some stages."""

    def run(run_id: str, *stages: str, status: Any = "done", **sections: Any) -> None:
        rows = [StageSummary(name=name, fingerprint=tiny[name].fingerprint, status=status) for name in stages]
        config = make_config(**sections).model_dump(mode="json")
        started = datetime.now(UTC) + timedelta(seconds=len(run_id))
        RunSummary(
            run_id=run_id,
            recipe="tiny",
            description="",
            started=started,
            stages=rows,
            config=config,
            prefect_flow_run_id=f"of-{run_id}",
        ).write(home.runs)

    return run


def find(home: Settings, recipe: PipelineConfig, step: StepName, asked: str) -> Origin:
    return find_origin(step, asked, recipe, home)


def test_the_first_stage_begins_with_the_recipe(home: Settings, make_config: Any) -> None:
    assert find(home, make_config(), "download", LATEST) == Origin(make_config())


def test_latest_is_what_the_newest_run_of_the_recipe_made(
    home: Settings, ran: Any, make_config: Any, tiny: dict[str, Artifact]
) -> None:
    ran("1-older", "download", "clean")
    ran("2-newer", "download", "clean", clean={"max_words": 99})
    ran("3-failed", "clean", status="failed")
    ran("4-shorter", "download")
    origin = find(home, make_config(), "split", LATEST)
    assert origin.run and origin.run.run_id == "2-newer"
    assert origin.config.clean.max_words == 99, "the rest of the configuration comes from the run"
    assert [artifact.short for artifact in origin.artifacts] == [tiny["clean"].short, tiny["download"].short]


@pytest.mark.parametrize("asked", ["1-older", "of-1-older"])
def test_a_run_is_known_by_its_id_and_by_its_id_in_prefect(
    home: Settings, ran: Any, make_config: Any, asked: str
) -> None:
    ran("1-older", "clean")
    ran("2-newer", "clean")
    origin = find(home, make_config(), "split", asked)
    assert origin.run and origin.run.run_id == "1-older"


def test_an_artifact_brings_what_it_was_made_from(
    home: Settings, ran: Any, make_config: Any, tiny: dict[str, Artifact]
) -> None:
    origin = find(home, make_config(), "train", tiny["encode"].fingerprint[:8])
    assert origin.run is None
    assert origin.config == make_config()
    assert {artifact.stage for artifact in origin.artifacts} == {"encode", "split", "tokenizer", "clean", "download"}
    ran("1", "encode", train={"seed": 7})
    origin = find(home, make_config(), "train", tiny["encode"].short)
    assert origin.run and origin.run.run_id == "1"
    assert origin.config.train.seed == 7


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (LATEST, "recipe tiny has no artifact of clean"),
        ("nonsense", "input='nonsense': neither a run in .* nor an artifact: .*there is none"),
        ("tokenizer/", "there is none"),
    ],
)
def test_what_is_not_there_is_named(home: Settings, make_config: Any, asked: str, message: str) -> None:
    with pytest.raises(StageError, match=message):
        find(home, make_config(), "split", asked)


def test_an_artifact_of_another_stage_is_refused(home: Settings, make_config: Any, tiny: dict[str, Artifact]) -> None:
    with pytest.raises(StageError, match="split starts from an artifact of clean, not of tokenizer"):
        find(home, make_config(), "split", tiny["tokenizer"].short)


def test_an_artifact_that_is_gone_is_no_beginning(home: Settings, ran: Any, make_config: Any) -> None:
    ran("1", "clean")
    summary = RunSummary.model_validate_json((home.runs / "1" / "summary.json").read_bytes())
    summary.stages[0].fingerprint = "0" * 32
    summary.write(home.runs)
    with pytest.raises(StageError, match=r"no artifact of clean in .*: run clean first"):
        find(home, make_config(), "split", "1")
