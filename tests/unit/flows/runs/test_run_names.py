"""The name of a run: what the operator typed, and otherwise what the run does."""

from datetime import date
from functools import partial
from random import Random
from typing import Any

import pytest
from coolname import RandomGenerator
from coolname.data import config as words_of_the_server
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.flow_engine import run_flow
from prefect.states import Scheduled

from flows.runs.run_names import Deployed, is_generated, name_of_retraining, name_of_stage, unless_typed
from nmt_core.recipes.recipe import load_recipe

TYPED = ["beta-test", "delta2-final", "quick-start", "monday-rerun", "red-run", "why", "before the holidays", "rho177"]


@pytest.fixture(scope="module")
def deployed() -> Deployed:
    config = load_recipe("quickstart").model_dump(mode="json")
    return Deployed("quickstart", {"config": config} | {name: config[name] for name in ("clean", "search")})


def test_names_of_the_server_and_of_its_form_are_generated() -> None:
    server = RandomGenerator(words_of_the_server, Random(1))  # type: ignore[arg-type]  # its own configuration
    assert [name for _ in range(500) if not is_generated(name := server.generate_slug(2))] == []
    for name in ("rho177-kaldra", "alpha-andromedae", "beta2-canis-majoris", "omega12-orionis-prime"):
        assert is_generated(name), name


@pytest.mark.parametrize("name", TYPED)
def test_a_typed_name_is_not_generated(name: str) -> None:
    assert not is_generated(name)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "quickstart: retrain {today}"),
        ({"until": "clean"}, "quickstart: download to clean {today}"),
        ({"from_": "train", "until": "train"}, "quickstart: train {today}"),
        ({"changes": "train.max_updates=60"}, "quickstart: retrain {today} (train.max_updates=60)"),
        ({"changes": "train.max_updates=600"}, "quickstart: retrain {today}"),
        ({"changes": "clean.nothing=1"}, "quickstart: retrain {today} (clean.nothing=1)"),
        ({"force": ["train"]}, "quickstart: retrain {today} (force train)"),
    ],
)
def test_a_retraining_is_named_by_its_day_and_by_what_was_changed(
    deployed: Deployed, more: dict[str, Any], name: str
) -> None:
    parameters = {"config": deployed.parameters["config"]} | more
    assert name_of_retraining(parameters, deployed) == name.format(today=date.today())


def test_values_of_the_form_are_compared_with_the_recipe(deployed: Deployed) -> None:
    config = deployed.parameters["config"]
    changed = config | {"train": config["train"] | {"max_updates": 60}, "description": "mine", "schedule": None}
    del changed["schedule"]
    name = name_of_retraining({"config": changed}, deployed)
    assert name == f"quickstart: retrain {date.today()} (train.max_updates=60)"
    assert name_of_retraining({"config": changed}, Deployed()) == f"quickstart: retrain {date.today()}"


def test_a_stage_is_named_by_what_was_changed(deployed: Deployed) -> None:
    clean = deployed.parameters["clean"]
    parameters = {"clean": clean, "recipe": "quickstart"}
    name = partial(name_of_stage, "clean")
    assert name(parameters, deployed) == "quickstart: clean"
    assert name(parameters | {"clean": clean | {"max_words": 12}}, deployed) == "quickstart: clean (max_words=12)"
    assert name(parameters | {"changes": "clean.max_words=9", "force": True}, deployed) == (
        "quickstart: clean (max_words=9, force)"
    )
    many = clean | {"max_words": 1, "min_words": 1, "max_characters": 7, "min_characters": 3, "unicode_form": "NFKC"}
    found = name(parameters | {"clean": many}, deployed)
    assert found.count("=") == 3 and found.endswith(" more)"), found
    assert name(parameters | {"recipe": "/some/where/weekly.yaml"}, Deployed()) == "weekly: clean"
    assert name({"clean": {"max_words": "?"}, "recipe": "quickstart"}, deployed) == "quickstart: clean"


def _described(parameters: Any, deployed: Deployed) -> str:
    return f"{deployed.name}: {parameters['text']}, not {deployed.parameters['text']}"


@flow(name="named", flow_run_name=unless_typed(_described), persist_result=False)
def named(text: str) -> None: ...


def test_a_run_keeps_the_name_that_was_typed_and_its_name_when_it_is_retried(client: SyncPrefectClient) -> None:
    deployment = client.create_deployment(client.create_flow(named), "of mine", parameters={"text": "a"})
    for typed, expected in (("my own", "my own"), (None, "of mine: b, not a"), ("rho177-kaldra", "of mine: b, not a")):
        run = client.create_flow_run_from_deployment(deployment, name=typed, parameters={"text": "b"})
        run_flow(named, run, {"text": "b"})
        assert client.read_flow_run(run.id).name == expected
    client.set_flow_run_state(run.id, Scheduled(name="AwaitingRetry"), force=True)
    run_flow(named, client.read_flow_run(run.id), {"text": "c"})
    assert client.read_flow_run(run.id).name == expected
