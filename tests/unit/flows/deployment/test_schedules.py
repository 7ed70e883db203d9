"""Schedules on a Prefect server: listed, paused, resumed and removed, and nothing else is touched."""

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.objects import ConcurrencyLimitStrategy
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Completed, Crashed, Pending, Running, Scheduled
from support.small_forms import without_form

from flows.deployment import automations
from flows.deployment.automations import name_of_drift, name_of_new_text, wanted_automations
from flows.deployment.deployments import Entry, Pools, table
from flows.deployment.installation import install
from flows.deployment.schedules import deployed, schedule_rows, set_paused, undeploy
from flows.servers.late_runs import SKIPPED, skip_late
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError

POOLS = Pools("cpu", "")


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Entry]:
    file = tmp_path_factory.mktemp("recipes") / "watched.yaml"
    file.write_text("{name: watched, corpus: {toy: {}}, schedule: {watch: 0 * * * *}}")
    found = {entry.flow.name: without_form(entry) for entry in table([str(file)])}
    return found | {"watch": replace(found["watch"], cron="")}


@pytest.fixture
def deploy(entries: dict[str, Entry]) -> Any:
    """Install `retrain`, `watch` and `clean` of a recipe with this name, whose retraining has a schedule."""

    def install_as(name: str, **changes: Any) -> Entry:
        own = {"name": name, "recipe": name}
        retrain = replace(entries["retrain"], **(own | {"cron": "0 3 * * 1", "timezone": "Asia/Seoul"} | changes))
        install([retrain, *(replace(entries[flow], **own) for flow in ("watch", "clean"))], POOLS)
        return retrain

    return install_as


def row_of(client: SyncPrefectClient, entry: Entry) -> Any:
    (row,) = [row for row in schedule_rows(client) if row.deployment == entry.full_name]
    return row


def run_in(client: SyncPrefectClient, entry: Entry, *states: Any) -> Any:
    """A run of a deployment that has been in these states."""
    deployment = client.read_deployment_by_name(entry.full_name)
    first, *later = states if states[0].is_scheduled() else [Scheduled(), *states]
    run = client.create_flow_run_from_deployment(deployment.id, state=first)
    for state in later:
        client.set_flow_run_state(run.id, state)
    return client.read_flow_run(run.id)


def test_a_list_tells_when_a_recipe_runs_and_how_it_ran(client: SyncPrefectClient, deploy: Any) -> None:
    entry = deploy("listed")
    row = row_of(client, entry)
    assert (row.when, row.timezone, row.paused, row.last_run) == ("Mondays at 03:00", "Asia/Seoul", False, None)
    assert (row.next_run.weekday(), row.next_run.hour, row.next_run.utcoffset()) == (0, 3, timedelta(hours=9))
    assert timedelta(0) < row.next_run - datetime.now(UTC) <= timedelta(days=7)
    run = run_in(client, entry, Pending(), Running(), Completed())
    row = row_of(client, entry)
    assert (row.last_run, row.last_state) == (run.start_time, "Completed")


def test_a_recipe_is_paused_and_resumed_and_no_other(client: SyncPrefectClient, deploy: Any) -> None:
    entry, other = deploy("to-pause"), deploy("beside")
    run_in(client, entry, Pending(), Running())
    lines = set_paused(client, "to-pause", paused=True)
    assert any(line == "retrain/to-pause is paused" for line in lines)
    assert any("1 running" in line and "not affected" in line for line in lines)
    assert any(line.startswith("watch/to-pause is paused") for line in lines)
    assert not any("clean" in line for line in lines), "a stage never runs by itself"
    assert row_of(client, entry).paused and row_of(client, entry).next_run is None
    assert not row_of(client, other).paused
    install([entry], POOLS)
    assert row_of(client, entry).paused, "installing again resumes nothing"
    assert "retrain/to-pause was paused already" in set_paused(client, "to-pause", paused=True)
    lines = set_paused(client, "to-pause", paused=False)
    assert "retrain/to-pause runs again: Mondays at 03:00 (Asia/Seoul)" in lines
    assert row_of(client, entry).next_run


def test_a_recipe_is_removed_with_its_automation_and_no_other(client: SyncPrefectClient, deploy: Any) -> None:
    entry, other = deploy("to-remove"), deploy("stays")
    running = run_in(client, entry, Pending(), Running())
    lines = undeploy(client, "to-remove")
    assert any(line.startswith("removed retrain/to-remove, Mondays at 03:00") for line in lines)
    assert any(f"1 running ({running.name}) continue to their end" in line for line in lines)
    assert {line.split()[1].rstrip(",;") for line in lines if "/" in line} == {
        f"{flow}/to-remove" for flow in ("retrain", "watch", "clean")
    }
    assert not client.read_automations_by_name(name_of_new_text("to-remove"))
    assert client.read_automations_by_name(name_of_new_text("stays"))
    with pytest.raises(ObjectNotFound):
        client.read_deployment_by_name(entry.full_name)
    assert client.read_flow_run(running.id).state_name == "Running"
    assert client.read_deployment_by_name(other.full_name)
    with pytest.raises(ConfigError, match=r"'to-remove' is not deployed on this server, which has: .*stays"):
        undeploy(client, "to-remove")


def test_what_belongs_to_no_recipe_is_not_removed(client: SyncPrefectClient, entries: dict[str, Entry]) -> None:
    install([entries["reconcile"]], POOLS)
    with pytest.raises(ConfigError, match="'reconcile' is not deployed"):
        undeploy(client, "reconcile")
    assert set_paused(client, "reconcile", paused=True)
    assert set_paused(client, "reconcile", paused=False) == ["reconcile/reconcile runs again: every 15 minutes (UTC)"]


class Busy(httpx.BaseTransport):
    """Client of a server that answers 503 to the first attempt of each removal, once before and once after it."""

    def __init__(self, server: httpx.BaseTransport) -> None:
        self._server = server
        self.refused: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if request.method != "DELETE" or path in self.refused:
            return self._server.handle_request(request)
        self.refused.append(path)
        if len(self.refused) % 2:
            self._server.handle_request(request).close()
        return httpx.Response(503, headers={"Retry-After": "0"}, request=request)


def test_a_busy_server_is_asked_again(client: SyncPrefectClient, deploy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy("busy")
    busy = Busy(client._client._transport)
    with monkeypatch.context() as patch:
        patch.setattr(client._client, "_transport", busy)
        lines = undeploy(client, "busy")
    assert len(busy.refused) == len(lines) == 4
    assert any(line.startswith("removed retrain/busy") for line in lines)
    assert not [each for each in deployed(client) if each.recipe == "busy"]


def test_one_retraining_of_a_recipe_runs_at_a_time(client: SyncPrefectClient, deploy: Any) -> None:
    entry = deploy("limited")
    found = client.read_deployment_by_name(entry.full_name)
    assert found.global_concurrency_limit and found.global_concurrency_limit.limit == 1
    assert found.concurrency_options.collision_strategy == ConcurrencyLimitStrategy.CANCEL_NEW
    first = run_in(client, entry, Pending(), Running())
    second = run_in(client, entry, Scheduled(), Pending())
    assert second.state_name == "Cancelled" and "limit reached" in (second.state.message or "")
    client.set_flow_run_state(first.id, Crashed(), force=True)  # as reconcile ends a run whose process is gone
    third = run_in(client, entry, Scheduled(), Pending())
    assert third.state_name == "Pending", "its place is free again"


def test_a_retraining_waits_if_the_recipe_says_so(client: SyncPrefectClient, deploy: Any) -> None:
    entry = deploy("queued", overlap="queue")
    run_in(client, entry, Pending(), Running())
    second = run_in(client, entry, Scheduled(), Pending())
    assert second.state_name == "AwaitingConcurrencySlot"


def test_a_limit_that_was_raised_is_kept(client: SyncPrefectClient, deploy: Any) -> None:
    entry = deploy("raised")
    found = client.read_deployment_by_name(entry.full_name)
    client.update_deployment(found.id, DeploymentUpdate(concurrency_limit=3))
    deploy("raised", overlap="queue")
    found = client.read_deployment_by_name(entry.full_name)
    assert found.global_concurrency_limit and found.global_concurrency_limit.limit == 3
    assert found.concurrency_options.collision_strategy == ConcurrencyLimitStrategy.ENQUEUE


@pytest.fixture
def late(client: SyncPrefectClient, prefect_server: Any) -> Any:
    """Make a run that is late by this many minutes, as the scheduler or a user does."""

    def make(entry: Entry, minutes: int, *, by_schedule: bool = True) -> Any:
        run = run_in(client, entry, Scheduled(scheduled_time=datetime.now(UTC) - timedelta(minutes=minutes)))
        with sqlite3.connect(prefect_server.database, timeout=60) as database:
            flag = (int(by_schedule), str(run.id))
            assert database.execute("update flow_run set auto_scheduled = ? where id = ?", flag).rowcount == 1
        return run

    return make


def test_of_late_runs_only_the_newest_of_each_schedule_is_kept(
    client: SyncPrefectClient, deploy: Any, late: Any
) -> None:
    entry, other = deploy("late"), deploy("late-too")
    old = [late(entry, minutes) for minutes in (300, 100, 200)]
    newest, alone = late(entry, 5), late(other, 400)
    by_hand = late(entry, 250, by_schedule=False)
    upcoming = late(entry, -60)
    said: list[str] = []
    skipped = skip_late(client, said.append)
    assert sorted(skipped) == sorted(run.name for run in old)
    for run in old:
        state = client.read_flow_run(run.id).state
        assert (state.name, state.type.value) == (SKIPPED, "CANCELLED")
        assert "no worker started it in time" in state.message
    for run in (newest, alone, by_hand, upcoming):
        assert client.read_flow_run(run.id).state.name == "Scheduled"
    assert len(said) == 1 and "3 late runs" in said[0]
    assert skip_late(client, said.append) == [], "again is as good as once"


def test_a_run_that_waits_for_a_retry_is_not_late(client: SyncPrefectClient, deploy: Any, late: Any) -> None:
    entry = deploy("retried")
    waiting = late(entry, 300)
    client.set_flow_run_state(waiting.id, Cancelled(), force=True)
    retry = Scheduled(name="AwaitingRetry", scheduled_time=datetime.now(UTC) - timedelta(minutes=300))
    client.set_flow_run_state(waiting.id, retry, force=True)
    late(entry, 5)
    assert skip_late(client, str) == []


def test_drift_starts_a_retraining_where_the_recipe_says_so(client: SyncPrefectClient, deploy: Any) -> None:
    retrain = client.read_deployment_by_name(deploy("drifting").full_name).id
    values = {"corpus": {"toy": {}}, "registry": {"model_name": "served"}, "schedule": {"drifting_jobs": 3}}
    config = PipelineConfig.model_validate({"name": "drifting"} | values)
    wanted = wanted_automations(client, [], None, [(config, retrain)])
    assert automations.install(client, wanted) == [f"created {name_of_drift('drifting')}"]
    assert automations.install(client, wanted) == [], "installing again changes nothing"
    [found] = client.read_automations_by_name(name_of_drift("drifting"))
    assert (found.trigger.threshold, found.trigger.expect) == (3, {"nmt.translation.drift"})
    assert found.trigger.match.model_dump() == {"prefect.resource.id": "nmt.model.served"}
    assert [action.deployment_id for action in found.actions] == [retrain]
    assert f"removed the automation {name_of_drift('drifting')}" in undeploy(client, "drifting")
    assert not client.read_automations_by_name(name_of_drift("drifting"))
