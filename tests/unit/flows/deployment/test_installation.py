"""Deployments on a Prefect server: all are there, a second installation changes nothing, and changes by people stay."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prefect.automations import AutomationCore
from prefect.blocks.notifications import SendgridEmail, SlackWebhook
from prefect.blocks.webhook import Webhook
from prefect.cli.deploy._config import _load_deploy_configs_and_actions
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate, WorkPoolCreate
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.exceptions import PrefectHTTPStatusError
from prefect.flows import load_flow_from_entrypoint
from prefect.workers.process import ProcessWorker
from rich.console import Console
from support.small_forms import without_form

from flows.deployment.automations import NOTIFY
from flows.deployment.deployments import JOB, TRAINING_QUEUE, Entry, Pools, prefect_yaml, table
from flows.deployment.installation import install
from flows.runs.selection import STEPS
from nmt_core.errors import ConfigError

POOLS = Pools("cpu", "")


@pytest.fixture(scope="module")
def of_one_recipe() -> dict[str, Entry]:
    """The deployments of one recipe, of its stages and of no recipe."""
    return {entry.full_name: entry for entry in table(["quickstart"])}


@pytest.fixture(scope="module")
def small(of_one_recipe: dict[str, Entry]) -> dict[str, Entry]:
    """The deployments of one recipe without their forms, which are slow to install."""
    return {name: without_form(entry) for name, entry in of_one_recipe.items()}


@pytest.fixture(scope="module")
def retrain(small: dict[str, Entry]) -> Entry:
    return small["retrain/quickstart"]


def schedules(client: SyncPrefectClient, entry: Entry) -> list[Any]:
    deployment = client.read_deployment_by_name(entry.full_name)
    return [each.schedule for each in client.read_deployment_schedules(deployment.id)]


ALWAYS = {"translate/translate", "promote/promote", "rollback/rollback", "gc/gc", "reconcile/reconcile"}


def test_without_names_there_is_the_quickstart_and_with_names_these() -> None:
    for asked in ([], ["wmt14-en-de-base"]):
        names = [entry.full_name for entry in table(asked)]
        recipe = asked[0] if asked else "quickstart"
        assert len(names) == len(set(names))
        flows_of_recipe = {"retrain", *STEPS} - {"synthesise", "augment"}  # neither recipe asks for them
        assert set(names) == {f"{flow}/{recipe}" for flow in flows_of_recipe} | ALWAYS


def test_tags_say_what_a_deployment_is_of(of_one_recipe: dict[str, Entry]) -> None:
    def tags(name: str) -> set[str]:
        return set(of_one_recipe[name].tags)

    assert tags("retrain/quickstart") == {"nmt", "kind:retrain", "recipe:quickstart"}
    assert tags("download/quickstart") == {"nmt", "kind:stage", "recipe:quickstart", "stage:01-download"}
    assert tags("register/quickstart") == {"nmt", "kind:stage", "recipe:quickstart", "stage:12-register"}
    assert tags("translate/translate") == {"nmt", "kind:translate"}
    assert tags("gc/gc") == {"nmt", "kind:admin"}
    assert {tag for name in of_one_recipe for tag in tags(name) if tag.startswith("kind:")} == {
        f"kind:{kind}" for kind in ("retrain", "stage", "translate", "admin")
    }


def test_a_description_says_what_a_press_of_the_button_does(of_one_recipe: dict[str, Entry]) -> None:
    descriptions = [entry.description for entry in of_one_recipe.values()]
    assert len(set(descriptions)) == len(descriptions)
    assert all(text.endswith(".") and "  " not in text for text in descriptions)
    about = of_one_recipe["clean/quickstart"].deployment(Pools()).description or ""
    assert about.startswith("Runs only the stage clean of quickstart. It starts from the newest artifact of download")


def test_a_recipe_of_ones_own_gets_stages_and_schedules(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "{name: mine, corpus: {toy: {}}, schedule: {cron: 0 3 * * 1, watch: 0 * * * *, timezone: Asia/Seoul}}"
    )
    entries = {entry.full_name: entry for entry in table([str(file)])}
    assert (entries["retrain/mine"].cron, entries["retrain/mine"].timezone) == ("0 3 * * 1", "Asia/Seoul")
    assert entries["watch/mine"].cron == "0 * * * *"
    assert entries["watch/mine"].tags == ["nmt", "kind:watch", "recipe:mine"]
    form = entries["watch/mine"].deployment(Pools())._parameter_openapi_schema.definitions["PipelineConfig"]
    assert set(form["properties"]) == {"name", "languages", "corpus"}, "a check reads nothing else"
    assert entries["clean/mine"].parameters["recipe"] == str(file)
    assert "retrain/quickstart" not in entries
    assert {entry.cron for entry in table([str(file)], "5 4 * * *") if entry.flow.name == "retrain"} == {"5 4 * * *"}


def test_a_worker_can_import_what_a_deployment_names(of_one_recipe: dict[str, Entry]) -> None:
    for entry in of_one_recipe.values():
        assert load_flow_from_entrypoint(str(entry.deployment(Pools()).entrypoint)) is entry.flow


def test_a_flow_takes_the_parameters_of_every_deployment() -> None:
    for entry in table():
        if entry.parameters:
            entry.flow.validate_parameters(dict(entry.parameters))


@pytest.mark.cpu(20)  # the forms of the whole table
def test_installing_twice_is_as_good_as_once(client: SyncPrefectClient, of_one_recipe: dict[str, Entry]) -> None:
    entries = list(of_one_recipe.values())
    one_of_each_kind = list({entry.kind: entry for entry in entries}.values())
    first = install(entries, POOLS)
    assert any("created the work pool cpu" in line for line in first)
    assert any("created nmt: runs without a heartbeat" in line for line in first)
    before = (client.read_automations(), [client.read_deployment_by_name(entry.full_name).id for entry in entries])
    again = install(one_of_each_kind, POOLS)
    assert not [line for line in again if line.startswith(("created", "updated"))]
    after = (client.read_automations(), [client.read_deployment_by_name(entry.full_name).id for entry in entries])
    assert before == after
    (silent,) = client.read_automations_by_name("nmt: runs without a heartbeat are Crashed")
    client.create_automation(AutomationCore.model_validate(silent.model_dump()))  # by another installation just now
    assert [line for line in install(one_of_each_kind, POOLS) if silent.name in line] == [
        f"removed the second {silent.name}"
    ]
    assert len(client.read_automations_by_name(silent.name)) == 1


def test_tags_and_descriptions_reach_the_server_and_its_runs(
    client: SyncPrefectClient, of_one_recipe: dict[str, Entry]
) -> None:
    entry = of_one_recipe["clean/quickstart"]
    install([replace(entry, kind="earlier", description="Earlier.")], POOLS)
    install([entry], POOLS)
    deployment = client.read_deployment_by_name(entry.full_name)
    assert set(deployment.tags) == set(entry.tags)
    assert deployment.description == entry.description
    run = client.create_flow_run_from_deployment(deployment.id)
    assert set(run.tags) == set(entry.tags)
    client.delete_flow_run(run.id)


def test_one_run_trains_at_a_time_until_the_limit_is_raised(client: SyncPrefectClient, retrain: Entry) -> None:
    install([retrain], POOLS)
    queue = client.read_work_queue_by_name(TRAINING_QUEUE, work_pool_name="cpu")
    assert queue.concurrency_limit == 1
    assert client.read_deployment_by_name(retrain.full_name).work_queue_name == TRAINING_QUEUE
    client.update_work_queue(queue.id, concurrency_limit=2)
    install([retrain], POOLS)
    assert client.read_work_queue_by_name(TRAINING_QUEUE, work_pool_name="cpu").concurrency_limit == 2


def test_what_trains_goes_to_the_gpu_pool_if_there_is_one(client: SyncPrefectClient, small: dict[str, Entry]) -> None:
    entries = [small[name] for name in ("retrain/quickstart", "clean/quickstart")]
    retrain = entries[0]
    client.create_work_pool(WorkPoolCreate(name="gpu", type="process"))
    install(entries, POOLS)
    pools = [client.read_deployment_by_name(entry.full_name).work_pool_name for entry in entries]
    assert pools == ["gpu", "cpu"]
    install(entries, Pools("cpu", "cpu"))
    assert client.read_deployment_by_name(retrain.full_name).work_pool_name == "cpu"
    client.delete_work_pool("gpu")


def test_the_schedule_comes_from_the_recipe_and_others_stay(client: SyncPrefectClient, retrain: Entry) -> None:
    install([replace(retrain, cron="0 3 * * 1", timezone="Asia/Seoul")], POOLS)
    (found,) = schedules(client, retrain)
    assert (found.cron, found.timezone) == ("0 3 * * 1", "Asia/Seoul")
    deployment = client.read_deployment_by_name(retrain.full_name)
    own = DeploymentScheduleCreate(schedule=IntervalSchedule(interval=86_400))
    client.create_deployment_schedules(deployment.id, [own])
    install([replace(retrain, cron="0 4 * * 1")], POOLS)
    kinds = {type(each): each for each in schedules(client, retrain)}
    assert kinds.keys() == {CronSchedule, IntervalSchedule}
    assert kinds[CronSchedule].cron == "0 4 * * 1"
    install([retrain], POOLS)
    assert [type(each) for each in schedules(client, retrain)] == [IntervalSchedule]


def test_a_schedule_that_was_paused_stays_paused(client: SyncPrefectClient, retrain: Entry) -> None:
    entry = replace(retrain, cron="0 5 * * 1")
    install([entry], POOLS)
    deployment = client.read_deployment_by_name(entry.full_name)
    (mine,) = [s for s in client.read_deployment_schedules(deployment.id) if s.slug == "recipe"]
    client.update_deployment_schedule(deployment.id, mine.id, active=False)
    for cron in ("0 5 * * 1", "0 6 * * 2"):
        install([replace(entry, cron=cron)], POOLS)
        (now,) = [s for s in client.read_deployment_schedules(deployment.id) if s.slug == "recipe"]
        assert (now.id, now.active) == (mine.id, False)
        assert now.schedule.cron == cron
    assert not client.read_deployment_by_name(entry.full_name).paused


def test_a_deployment_that_was_paused_or_limited_stays_so(client: SyncPrefectClient, retrain: Entry) -> None:
    entry = replace(retrain, name="operated", cron="0 5 * * 1")
    install([entry], POOLS)
    deployment = client.read_deployment_by_name(entry.full_name)
    assert not deployment.paused
    client.update_deployment(deployment.id, DeploymentUpdate(paused=True))
    skip = ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)
    client.update_deployment(deployment.id, DeploymentUpdate(concurrency_limit=1, concurrency_options=skip))
    install([replace(entry, cron="0 6 * * 1")], POOLS)
    now = client.read_deployment_by_name(entry.full_name)
    assert now.paused
    assert now.global_concurrency_limit and now.global_concurrency_limit.limit == 1
    assert now.concurrency_options == skip


def pool_made(client: SyncPrefectClient, name: str, **variables: Any) -> dict[str, Any]:
    """Make a pool as an earlier version of this package or an operator did, and return its template."""
    template = ProcessWorker.get_default_base_job_template()
    for variable, value in variables.items():
        template["variables"]["properties"][variable]["default"] = value
    client.create_work_pool(WorkPoolCreate(name=name, type="process", base_job_template=template))
    return template


def run_with(client: SyncPrefectClient, entry: Entry, **variables: Any) -> bool:
    """Return True if the server accepts a run with these job variables."""
    deployment = client.read_deployment_by_name(entry.full_name)
    try:
        run = client.create_flow_run_from_deployment(deployment.id, job_variables=variables)
    except PrefectHTTPStatusError as error:
        assert error.response.status_code == 422
        return False
    client.delete_flow_run(run.id)
    return True


_ANY = {"command": "touch here", "env": {"PYTHONPATH": "/tmp"}, "working_dir": "/tmp", "unknown": "x"}


@pytest.mark.parametrize("there", [False, True])
def test_a_user_who_starts_a_run_cannot_choose_its_command(
    client: SyncPrefectClient, retrain: Entry, there: bool
) -> None:
    pools = Pools(*2 * (f"closed-{there}",))
    if there:
        pool_made(client, pools.cpu, env={"NMT_THREADS": "2"})
    install([retrain], pools)
    assert not [name for name, value in _ANY.items() if run_with(client, retrain, **{name: value})]
    assert run_with(client, retrain)
    job = client.read_work_pool(pools.cpu).base_job_template["job_configuration"]
    assert (job["command"], job["working_dir"]) == (JOB["command"], JOB["working_dir"])
    assert job["env"] == ({"NMT_THREADS": "2"} if there else {}), "what the pool gives to all of its runs stays"
    assert not any("work pool" in line for line in install([retrain], pools)), "again is as good as once"


def test_a_pool_that_others_use_stays_open_and_this_is_said(client: SyncPrefectClient, retrain: Entry) -> None:
    pools = Pools("theirs", "theirs")
    template = pool_made(client, "theirs")
    flow = client.read_flow_by_name("retrain").id
    client.create_deployment(flow, "someone-elses", work_pool_name="theirs", job_variables={"env": {"A": "1"}})
    (line,) = [line for line in install([retrain], pools) if "kept the work pool theirs unchanged" in line]
    assert "someone-elses" in line and "choose their command" in line
    assert client.read_work_pool("theirs").base_job_template == template
    assert client.read_deployment_by_name(retrain.full_name).job_variables == JOB
    install([retrain], POOLS)


def test_a_schedule_that_is_none_is_named(client: SyncPrefectClient, retrain: Entry) -> None:
    with pytest.raises(ConfigError, match=r"retrain/quickstart: schedule '99 . . . .' in UTC"):
        install([replace(retrain, cron="99 * * * *")], POOLS)


def test_failures_are_reported(client: SyncPrefectClient, retrain: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "http://127.0.0.1:9/hook?secret=sesame"
    monkeypatch.setenv(NOTIFY, address)
    assert any("tell of runs that fail" in line for line in install([retrain], POOLS))
    (automation,) = client.read_automations_by_name("nmt: tell of runs that fail")
    assert automation.actions[0].type == "call-webhook"
    assert "sesame" not in automation.model_dump_json()
    assert Webhook.load("nmt-failures").url.get_secret_value() == address
    SlackWebhook(url="https://hooks.example.org/x").save("team", overwrite=True)
    monkeypatch.setenv(NOTIFY, "slack-webhook/team")
    assert any("updated nmt: tell of" in line for line in install([retrain], POOLS))
    (automation,) = client.read_automations_by_name("nmt: tell of runs that fail")
    assert automation.actions[0].type == "send-notification"


def test_failures_can_be_reported_by_mail(
    client: SyncPrefectClient, retrain: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail = SendgridEmail(api_key="sesame", sender_email="nmt@example.org", to_emails=["team@example.org"])
    block = mail.save("team", overwrite=True)
    monkeypatch.setenv(NOTIFY, "sendgrid-email/team")
    install([retrain], POOLS)
    (automation,) = client.read_automations_by_name("nmt: tell of runs that fail")
    (action,) = automation.actions
    assert (action.type, action.block_document_id) == ("send-notification", block)
    assert "flow_run.state.name" in action.body
    assert "sesame" not in automation.model_dump_json()


def test_what_an_old_schedule_still_runs_is_named(client: SyncPrefectClient, small: dict[str, Entry]) -> None:
    retrain = small["retrain/quickstart"]
    kept = [retrain, small["reconcile/reconcile"]]
    gone = [replace(retrain, name=name, cron="0 3 * * 1") for name in ("renamed", "paused")]
    install([*gone, replace(retrain, name="by-hand")], POOLS)
    paused = client.read_deployment_by_name("retrain/paused")
    (schedule,) = client.read_deployment_schedules(paused.id)
    client.update_deployment_schedule(paused.id, schedule.id, active=False)
    (line,) = [line for line in install(kept, POOLS) if line.startswith("not part of these deployments")]
    assert "still scheduled: retrain/renamed" in line
    client.delete_deployment(client.read_deployment_by_name("retrain/renamed").id)
    assert not [line for line in install(kept, POOLS) if line.startswith("not part of these deployments")]


def test_what_was_installed_before_is_kept_and_named(client: SyncPrefectClient, small: dict[str, Entry]) -> None:
    stages = [
        replace(small[f"{stage}/quickstart"], name="before") for stage in ("download", "clean", "split", "encode")
    ]
    retrain = small["retrain/quickstart"]
    install([*stages, replace(retrain, name="lone")], POOLS)
    (line,) = [line for line in install([retrain], POOLS) if line.startswith("kept, but not part")]
    assert f"before ({len(stages)} deployments)" in line and "lone (retrain)" in line
    assert "`nmt undeploy RECIPE`" in line
    assert client.read_deployment_by_name("retrain/lone") and client.read_deployment_by_name("clean/before")


def test_orphans_are_looked_for_without_being_asked(of_one_recipe: dict[str, Entry]) -> None:
    by_themselves = (entry for entry in of_one_recipe.values() if entry.flow.name in {"reconcile", "gc", "promote"})
    crons = {entry.full_name: entry.cron for entry in by_themselves}
    assert crons == {"reconcile/reconcile": "*/15 * * * *", "gc/gc": "", "promote/promote": ""}


@pytest.mark.parametrize(("notify", "message"), [("me", "must be a web address"), ("webhook/nobody", "no such block")])
def test_a_block_that_is_not_there_is_named(
    client: SyncPrefectClient, retrain: Entry, monkeypatch: pytest.MonkeyPatch, notify: str, message: str
) -> None:
    monkeypatch.setenv(NOTIFY, notify)
    with pytest.raises(ConfigError, match=message):
        install([retrain], POOLS)


def test_the_yaml_is_what_prefect_reads(tmp_path: Path) -> None:
    file = tmp_path / "prefect.yaml"
    entries = [replace(entry, cron="0 3 * * *") if entry.trains else entry for entry in table(["quickstart"])]
    file.write_text(prefect_yaml(entries, Pools("cpu", "gpu")), encoding="utf-8")
    said = io.StringIO()
    deployments, actions = _load_deploy_configs_and_actions(file, console=Console(file=said))
    assert said.getvalue() == ""
    assert actions["pull"] == []
    by_name = {f"{each['flow_name']}/{each['name']}": each for each in deployments}
    assert by_name.keys() == {entry.full_name for entry in entries}
    for entry in entries:
        found = by_name[entry.full_name]
        assert load_flow_from_entrypoint(found["entrypoint"]) is entry.flow
        assert found["parameters"] == dict(entry.parameters)
        assert found["work_pool"]["name"] == ("gpu" if entry.trains else "cpu")
        assert [each["cron"] for each in found.get("schedules", [])] == ([entry.cron] if entry.cron else [])
