"""A measurement runs the real stages on a small part of the work, and later forecasts are scaled from it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.small import SMALL, STEPS
from support.trained_here import Here

from flows.runs import measure as measuring
from flows.runs.evidence import evidence_of
from flows.runs.forecast import Forecaster
from flows.runs.measure import measure
from flows.runs.summary import RunSummary
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.recipes.recipe import load_recipe
from nmt_core.stages.stage import Job, Resources, SilentReporter
from nmt_core.stages.table import plan
from nmt_core.train.distributed import World

STAGES_OF_QUICKSTART = STEPS[:-1]
TEXT_STAGES = {"download", "clean", "split", "tokenizer", "encode"}


@pytest.fixture(autouse=True)
def few_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training is measured for twenty updates, and not for the seconds that its noise requires."""
    monkeypatch.setattr(measuring, "_MOST_UPDATES", 20)


def measured(config: PipelineConfig, settings: Settings, world: World) -> tuple[RunSummary, list[str]]:
    heard: list[str] = []
    job = Job(SilentReporter(), Resources(), launcher=Here(world))
    return measure(config, settings, job, heard.append, pairs=1_000), heard


def small(*changes: str) -> PipelineConfig:
    return load_recipe("quickstart", [*(f"{name}={value}" for name, value in SMALL.items()), *changes])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"NMT_HOME": str(tmp_path / "home"), "NMT_THREADS": "1"})


@pytest.mark.cpu(30)
def test_every_stage_is_measured_and_nothing_else_is_left(settings: Settings, world: World) -> None:
    config = small("train.start_from=", "train.patience=3", "train.dev_sentences=20")
    summary, heard = measured(config, settings, world)
    assert heard == list(STAGES_OF_QUICKSTART)
    assert [row.name for row in summary.stages] == list(STAGES_OF_QUICKSTART)
    assert all(row.cost.seconds > 0 and row.cost.memory_bytes for row in summary.stages)
    files = [path.relative_to(settings.home).as_posix() for path in settings.home.rglob("*") if path.is_file()]
    assert files == [f"measurements/{summary.run_id}/summary.json"]
    forecaster = Forecaster(config, settings, plan(config, settings.store))
    for name in STAGES_OF_QUICKSTART:
        found = forecaster.stage(name)
        assert found.seconds is not None
        assert (found.origin, found.basis) == ("measurement", f"measurement {summary.run_id}")


@pytest.mark.slow
@pytest.mark.cpu(30)
def test_text_that_is_not_here_is_not_fetched_and_only_the_model_is_measured(
    settings: Settings, world: World, tmp_path: Path
) -> None:
    values = small().model_dump(mode="json", exclude={"corpus"})
    files: dict[str, Any] = {"name": "web", "source": "https://127.0.0.1:9/a.en", "target": "https://127.0.0.1:9/a.ko"}
    recipe = tmp_path / "web.yaml"
    recipe.write_text(yaml.safe_dump(values | {"name": "web", "corpus": {"train": [files]}}), encoding="utf-8")
    summary, _ = measured(load_recipe(str(recipe)), settings, world)
    assert {row.name for row in summary.stages} == set(STAGES_OF_QUICKSTART) - TEXT_STAGES
    (evidence, *_) = evidence_of(settings)
    assert evidence.origin == "measurement"
    assert evidence.sizes.target_vocab == 700, "the invented words suffice for the recipe's own vocabulary"


@pytest.mark.slow
@pytest.mark.cpu(30)
def test_a_sample_of_local_text_is_measured_with_a_vocabulary_that_it_can_fill(
    settings: Settings, world: World, tmp_path: Path
) -> None:
    lines = {"en": [f"the man reads book {number} today" for number in range(900)]}
    lines["de"] = [f"der Mann liest heute das Buch {number}" for number in range(900)]
    for code, text in lines.items():
        (tmp_path / f"text.{code}").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    files = {"name": "own", "source": str(tmp_path / "text.en"), "target": str(tmp_path / "text.de")}
    values = small("tokenizer.vocab_size=4000").model_dump(mode="json", exclude={"corpus", "languages"})
    values |= {"name": "own", "corpus": {"train": [files]}, "languages": {"source": "en", "target": "de"}}
    recipe = tmp_path / "own.yaml"
    recipe.write_text(yaml.safe_dump(values), encoding="utf-8")
    summary, heard = measured(load_recipe(str(recipe)), settings, world)
    assert heard[0] == "reading the text"
    assert summary.sizes.pairs == 900
    assert {row.name for row in summary.stages} == set(STAGES_OF_QUICKSTART)
    assert (summary.sizes.target_vocab or 0) < 4_000
    assert not settings.store.root.exists()
