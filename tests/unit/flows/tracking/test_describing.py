"""Names by which people read a table of runs, and addresses of MLflow's pages for runs."""

import json
from datetime import UTC, datetime

import pytest
from mlflow.entities import Experiment, ExperimentTag

from flows.runs.selection import Selection
from flows.runs.summary import RegisteredModel, Score
from flows.tracking.describing import headlines, kind_of, run_name, stage_name, verdict_of
from flows.tracking.pages import VIEW, VIEW_TAG, run_page, runs_page, start_page


def test_a_run_is_named_by_what_it_does_and_when() -> None:
    started = datetime(2026, 11, 27, 2, 39, tzinfo=UTC)
    here = f"{started.astimezone():%H:%M}"
    assert run_name(Selection(), "quickstart", started) == f"retrain quickstart {here}"
    assert run_name(Selection("clean", "clean"), "quickstart", started) == f"clean quickstart {here}"
    assert kind_of(Selection("clean", "train")) == "retrain"
    assert kind_of(Selection("clean", "clean")) == "single stage"


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("clean", "clean (max_words=12)"),
        ("train", "train (max_updates=60, seed=2, label_smoothing=0.2, and 1 more)"),
        ("split", "split"),
        ("register", "register (significance=0.1)"),
        ("average", "average"),
    ],
)
def test_a_stage_is_named_with_the_options_of_its_own_that_were_changed(stage: str, name: str) -> None:
    changes = {"clean.max_words": 12, "train.max_updates": 60, "train.seed": 2, "train.label_smoothing": 0.2}
    changes |= {"train.clip_norm": 2, "registry.significance": 0.1}
    assert stage_name(stage, changes) == name


def test_a_long_value_does_not_fill_the_table() -> None:
    assert len(stage_name("download", {"corpus.train": ["a" * 500]})) < 130


def test_the_main_test_set_is_in_the_first_columns() -> None:
    scores = [
        Score(test_set=of, metric=metric, score=number, signature="")
        for of, metric, number in [("wmt", "BLEU", 30), ("wmt", "chrF", 60), ("wmt", "BLEU ko", 9), ("ted", "BLEU", 20)]
    ]
    assert headlines(scores) == {"BLEU": 30, "chrF": 60}
    assert headlines([]) == {}


@pytest.mark.parametrize(
    ("aliases", "verdict"),
    [
        (["challenger", "champion"], "champion: it is better"),
        (["challenger"], "challenger: it is better"),
        ([], "no alias: it is better"),
    ],
)
def test_a_verdict_begins_with_the_alias(aliases: list[str], verdict: str) -> None:
    assert verdict_of(RegisteredModel(name="a", version="1", aliases=aliases, verdict="it is better")) == verdict


def test_every_address_leads_to_the_pages_for_machine_learning() -> None:
    server = "http://127.0.0.1:5000"
    pages = [start_page(server), runs_page(server, "1"), run_page(server, "1", "ab"), run_page(server, "1", "ab", "x")]
    assert all("workflowType=machine_learning" in page for page in pages)
    assert start_page(server).endswith("/#/experiments?workflowType=machine_learning")
    tags = [ExperimentTag(VIEW_TAG, VIEW)]
    used = [Experiment(str(n), f"e{n}", "", "active", tags, last_update_time=at) for n, at in ((1, 5), (2, 9), (3, 7))]
    theirs = Experiment("4", "theirs", "", "active", [], last_update_time=99)
    assert start_page(server, [*used, theirs]) == runs_page(server, "2")
    assert json.loads(VIEW)["selectedColumns"][1:5] == [
        "metrics.`BLEU`",
        "metrics.`chrF`",
        "tags.`verdict`",
        "tags.`kind`",
    ]
