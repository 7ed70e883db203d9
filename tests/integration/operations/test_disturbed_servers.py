"""A worker is killed or ended, or a machine disappears, while a run trains.

The rest continues, and the loss is reported. The servers are the servers of one `nmt up`, and workers are `nmt worker`.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.until import until, until_gone

from flows.servers.heartbeats import HEARTBEATS_MISSED

pytestmark = [pytest.mark.timeout(900), pytest.mark.cpu(60)]

_POOL = "other"
_SECONDS_UNTIL_THE_END = 400
_HEARTBEAT_SECONDS = 30
# how long after that the server may take to notice, and `reconcile` to start and listen
_SECONDS_UNTIL_IT_IS_SURE = 180
_FIRST_UPDATE = "(select min(m.step) from metrics m where m.run_uuid = r.run_uuid and m.key = 'train_loss')"


def long(config: dict[str, Any], updates: int) -> dict[str, Any]:
    """A recipe that trains for a while."""
    return config | {"train": config["train"] | {"max_updates": updates}}


@pytest.fixture(scope="module")
def up(make_nmt: Any, ask: Any, webhook: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`nmt up`, and the deployments of the quickstart for workers that it has not started."""
    nmt = make_nmt(tmp_path_factory.mktemp("operations") / "home")
    up = ask(nmt)
    up.process = nmt.start("up")
    try:
        up.wait_until_up()
        address = f"{webhook.address}?token=sesame"
        done = nmt("deploy", "quickstart", "--pool", _POOL, NMT_NOTIFY=address)
        assert "created nmt: tell of runs that fail" in done.stdout
        yield up
        up.end()
    finally:
        up.kill()


@pytest.fixture
def operator(up: Any, operate: Callable[[Any], Any]) -> Any:
    """Starts workers for that server."""
    return operate(up)


@pytest.mark.slow
def test_a_webhook_is_called_for_a_run_that_fails_and_for_no_other(up: Any, operator: Any, webhook: Any) -> None:
    """The automation that `nmt deploy` installs sends the message."""
    operator.worker()
    good = up.start("reconcile/reconcile")
    assert up.wait(good) == "COMPLETED"
    bad = up.start("clean/quickstart", input="0123456789ab")
    assert up.wait(bad) == "FAILED"
    state = up.call(f"flow_runs/{bad}")["state"]
    assert "neither a run in" in state["message"]
    told = webhook.told_of(bad)
    assert (told["flow"], told["state"], told["message"]) == ("clean", "Failed", state["message"])
    assert told["text"] == f"clean {up.call(f'flow_runs/{bad}')['name']} is Failed"
    assert (len(webhook.about(bad)), len(webhook.about(good))) == (1, 0), "once, and not for the run that went well"
    assert set(webhook.paths) == {"/failures?token=sesame"}
    kept = [up.call(f"{kind}/filter", {}) for kind in ("automations", "block_documents", "flow_runs", "events")]
    assert "tell of runs that fail" in json.dumps(kept)
    assert "sesame" not in json.dumps(kept), "the address alone allows posting"


@pytest.mark.faults
def test_a_run_outlives_its_worker_and_another_one_comes_after_it(
    up: Any, operator: Any, small_recipe: dict[str, Any]
) -> None:
    first_worker = operator.worker()
    raised = {"concurrency_limit": 2}  # by default, the second run would be skipped: here the queue decides
    up.call(f"deployments/{up.deployment('retrain/quickstart')['id']}", raised, "PATCH")
    first = up.start("retrain/quickstart", config=long(small_recipe, 600), until="train")
    second = up.start("retrain/quickstart", config=small_recipe, until="download")
    operator.wait_for_training(first)
    assert (up.state(first), up.state(second)) == ("RUNNING", "SCHEDULED"), "one run trains at a time"
    first_worker.kill()
    operator.worker()
    ends = [up.wait(run, limit=_SECONDS_UNTIL_THE_END) for run in (first, second)]
    assert ends == ["COMPLETED", "COMPLETED"], "the run continues by itself, and another worker takes the next one"
    assert up.call(f"flow_runs/{second}")["start_time"] >= up.call(f"flow_runs/{first}")["end_time"]
    assert {status for _, status in up.tracked(first)} == {"FINISHED"}


@pytest.mark.faults
def test_a_worker_that_is_ended_saves_first_and_reconcile_closes_what_a_dead_machine_has_left(
    up: Any, operator: Any, small_recipe: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker is ended when its container is stopped, which ends with it."""
    config = long(small_recipe, 1_000_000)
    config["train"]["checkpoint_every"] = 1_000_000
    ended = operator.worker()
    run = up.start("retrain/quickstart", config=config, until="train")
    operator.wait_for_training(run)
    family, start = [ended, *ended.children(recursive=True)], time.monotonic()
    assert len(family) > 3, "worker, run, torchrun, rank"
    ended.terminate()
    until_gone(family)
    with capsys.disabled():
        print(f"\n{time.monotonic() - start:.1f} s from SIGTERM until the worker and all of its runs have gone")
    assert operator.engines() == []
    assert up.state(run) == "CRASHED", "its place in the queue is free"
    assert dict(up.tracked(run))["train"] == up.tracked(run)[0][1] == "KILLED"
    saved = operator.saved_at(run)
    assert saved > 0, "saved at the end, and not because it was due"

    operator.worker()
    again = up.start("retrain/quickstart", config=config, until="train")
    operator.wait_for_training(again, after=saved)
    first = until(lambda: dict(up.tracked(again, _FIRST_UPDATE))["train"], "MLflow has no loss")
    assert first > saved, "it resumes, and does not start over"
    operator.machine_dies()
    assert up.state(again) == "RUNNING", "no process is left to report its end"
    assert {status for _, status in up.tracked(again)} == {"RUNNING"}, "other stages are reused"
    said = up.nmt("reconcile").stdout
    assert "is gone" in said and "2 runs closed" in said
    assert up.state(again) == "CRASHED"
    assert dict(up.tracked(again))["train"] == "KILLED"
    assert {status for _, status in up.tracked(again)} == {"KILLED"}

    operator.worker()
    last = up.start("retrain/quickstart", config=config, until="download")
    assert up.wait(last, limit=_SECONDS_UNTIL_THE_END) == "COMPLETED", "its place in the queue is free again"


@pytest.mark.nightly
def test_a_run_without_a_heartbeat_is_crashed_and_reported(
    up: Any, operator: Any, webhook: Any, small_recipe: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    operator.worker()
    unscheduled(up, "reconcile/reconcile")
    run = up.start("retrain/quickstart", config=long(small_recipe, 100_000), until="train")
    operator.wait_for_training(run)
    operator.wait_for_heartbeat(run)
    operator.machine_dies()
    start = time.monotonic()
    operator.worker()  # as on another machine, where the dead processes are not looked for before the run is silent
    within = HEARTBEATS_MISSED * _HEARTBEAT_SECONDS
    assert up.wait(run, limit=within + _SECONDS_UNTIL_IT_IS_SURE) == "CRASHED"
    with capsys.disabled():
        print(f"\n{time.monotonic() - start:.0f} s from kill -9 until the run is Crashed")
    state = up.call(f"flow_runs/{run}")["state"]
    assert re.fullmatch(r"no heartbeat for \d+ s: its process is gone", state["message"])
    told = webhook.told_of(run)
    assert (told["flow"], told["state"], told["message"]) == ("retrain", "Crashed", state["message"])
    operator.wait_for_reconcile(_SECONDS_UNTIL_IT_IS_SURE)
    assert {status for _, status in up.tracked(run)} - {"FINISHED"} == {"KILLED"}, "MLflow has been told as well"


def unscheduled(up: Any, name: str) -> None:
    """Disable the schedule of a deployment, which could start a run in between."""
    deployment = up.deployment(name)
    for each in deployment["schedules"]:
        up.call(f"deployments/{deployment['id']}/schedules/{each['id']}", {"active": False}, "PATCH")
    assert [each["active"] for each in up.deployment(name)["schedules"]] == [False]
    ours = {
        "deployments": {"id": {"any_": [deployment["id"]]}},
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
    }
    while planned := up.call("flow_runs/filter", ours):  # by a scheduler that was at it in this very moment
        for each in planned:
            up.call(f"flow_runs/{each['id']}", method="DELETE")
