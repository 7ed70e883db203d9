"""`nmt up` in a real browser: a stage and a retraining are started from their forms, and a training is cancelled.

SCREENSHOTS=FOLDER .venv/bin/pytest -m ui also takes the pictures of the pages.

A page of another site is open meanwhile. It tries all that a page can, and gets nothing. From a server that answers
every request it gets what it wants, which shows that the attempts are real.
"""

import http.client
import json
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from support.curves import UNDER_WAY, saved_at, trains
from support.prefect_forms import fill
from support.small import STEPS
from support.until import until, until_gone

from flows.deployment.forms import ALL_OPTIONS
from flows.tracking.pages import run_page, runs_page

pytestmark = [pytest.mark.ui, pytest.mark.timeout(900)]

_LOOKS = 60
_BYTES_OF_A_GRAPH = 10_000  # of a PNG; one without the bars and their names has far fewer
_UPDATES = 1_000_000  # more than any machine makes before it is cancelled
_ATTACK = Path(__file__).with_name("attack.js").read_text()
_REFUSED = {400, 401, 403}
_MAKE_AN_EXPERIMENT = """([server, mode]) =>
  fetch(`${server}/api/2.0/mlflow/experiments/create`, {
    method: "POST",
    mode,
    headers: mode === "cors" ? {"Content-Type": "application/json"} : {},
    body: '{"name": "cats"}',
  }).then(() => "answered", () => "blocked")"""
_PATHS = ("/", "/dashboard", "/api/health", "/api/deployments/name/gc/gc", "/nmt-open")
_PATHS_OF_MLFLOW = ("/", "/api/2.0/mlflow/experiments/search?max_results=1")  # /health needs no password
_UNREADABLE_BY_NATURE = {
    "no-cors get",
    "get of a page",
    "no-cors post",
    "no-cors post without a type",
    "beacon",
    "form",
}


def option(page: Any, title: str) -> Any:
    """Return the part of a form that shows one option."""
    return page.locator(".schema-form-property", has=page.get_by_text(f"{title} (Optional)", exact=True)).last


def unfold_training(page: Any) -> None:
    """Show all options of the section `train` in the form of a recipe. None of them changes."""
    section = page.locator(".schema-form-property", has=page.get_by_text("Train (Optional)", exact=True)).last
    before = option(page, "Max Updates").locator("input").input_value()
    section.get_by_text(ALL_OPTIONS, exact=True).first.click()
    option(page, "Label Smoothing").locator("input").wait_for()
    assert option(page, "Max Updates").locator("input").input_value() == before


def run_from_the_form(page: Any, deployment: str) -> str:
    """Press Submit once, and return the id of the flow run."""
    with page.expect_response(re.compile(rf"/deployments/{deployment}/create_flow_run")) as answer:
        page.get_by_role("button", name="Submit").click()
    assert answer.value.ok, answer.value.text()
    return str(answer.value.json()["id"])


def see_it_complete(page: Any, up: Any, site: str, run: str) -> None:
    """Stay on the page of a run until the server and the page show that it is complete."""
    page.goto(f"{site}/runs/flow-run/{run}")
    assert up.wait(run) == "COMPLETED"
    page.get_by_text("Completed", exact=True).first.wait_for()


def lines_of(up: Any, run: str) -> list[str]:
    """The log of a run, in order."""
    body = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC"}
    return [line["message"] for line in up.call("logs/filter", body)]


def marks_of(up: Any, run: str) -> dict[str, str]:
    """Return the states of a run's stages by name, without `register`. Prefect learns them a moment later."""
    tasks = up.call("task_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    return {task["name"]: task["state"]["name"] for task in tasks if task["name"] != "register"}


def wait_for_the_graph(page: Any) -> None:
    """Return when the page has drawn the tasks of a run into its canvas, which only a screenshot can read."""
    canvas, before = page.locator("canvas").first, b""
    for _ in range(_LOOKS):
        page.wait_for_timeout(1_000)
        now = canvas.screenshot()
        if now == before and len(now) > _BYTES_OF_A_GRAPH:
            return
        before = now
    raise AssertionError(f"no graph in {_LOOKS} s: a picture of {len(before):,} bytes")


@pytest.mark.cpu(170)  # including `finished` and `up`
def test_a_stage_and_a_retraining_from_the_browser(
    up: Any, page: Any, signed_in: Any, picture: Any, asked_outside: list[str]
) -> None:
    site = signed_in(up)
    assert up.wait(up.start("download/small")) == "COMPLETED"

    clean = up.deployment("clean/small")["id"]
    page.goto(f"{site}/deployments/deployment/{clean}/run")
    option(page, "Max Words").locator("input").wait_for()
    titles = page.locator(".schema-form-property__label").all_inner_texts()
    assert titles[:3] == ["input (Optional)", "force (Optional)", "changes (Optional)"]
    assert titles[3:7] == ["clean", "Min Words (Optional)", "Max Words (Optional)", "Min Characters (Optional)"]
    assert titles[-1] == "recipe (Optional)"
    assert "such as <b>." in option(page, "Tags Must Match").inner_text()
    assert (
        option(page, "Max Words").inner_text().count("Maximum number of words on each side. Allowed: 1 or more.") == 1
    )
    assert option(page, "Max Words").locator("input").input_value() == "150"
    assert option(page, "Unicode Form").locator(".p-select").inner_text().strip() == "NFC"
    fill(option(page, "Max Words").locator("input"), "12")
    picture(page, "prefect-form")
    run = run_from_the_form(page, clean)
    see_it_complete(page, up, site, run)
    started = up.call(f"flow_runs/{run}")
    assert started["parameters"]["clean"]["max_words"] == 12
    assert started["name"] == "small: clean (max_words=12)"
    assert set(started["tags"]) == {"nmt", "kind:stage", "stage:02-clean", "recipe:small"}
    shown = up.call("artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
    (report,) = [artifact["id"] for artifact in shown if artifact["key"] == "report-clean"]
    page.goto(f"{site}/artifacts/artifact/{report}")
    page.get_by_text("too_many_words").first.wait_for()
    picture(page, "prefect-report")

    retrain = up.deployment("retrain/small")["id"]
    page.goto(f"{site}/deployments/deployment/{retrain}/run")
    option(page, "Max Updates").locator("input").wait_for()
    titles = page.locator(".schema-form-property__label").all_inner_texts()
    assert titles[:5] == [f"{title} (Optional)" for title in ("from", "until", "force", "changes")] + ["config"]
    assert "Label Smoothing (Optional)" not in titles, "the recipe does not set it"
    picture(page, "prefect-form-of-retrain")
    unfold_training(page)
    picture(page, "prefect-unfolded")
    run = run_from_the_form(page, retrain)
    page.goto("about:blank")  # where nothing is drawn meanwhile
    assert up.wait(run) == "COMPLETED"
    see_it_complete(page, up, site, run)
    wait_for_the_graph(page)
    picture(page, "prefect-run")
    reused = "(select value from tags t where t.run_uuid = r.run_uuid and t.key = 'nmt.reused')"
    stages = up.tracked(run, reused)[0][1].split(", ")
    assert {*STEPS[:-1]} <= set(stages), "an untouched form is the recipe, to the last option"
    until(lambda: marks_of(up, run) == dict.fromkeys(STEPS[:-1], "Cached"), lambda: str(marks_of(up, run)))
    started = up.call(f"flow_runs/{run}")
    assert started["name"].startswith("small: retrain 20") and "(" not in started["name"]
    assert re.fullmatch(r"BLEU [\d.]+, champion(, all stages reused)?", started["state"]["message"])
    lines = lines_of(up, run)
    assert any(re.fullmatch(r"clean: [\d,]+ in, [\d,]+ pairs out, reused", line) for line in lines), lines
    assert any(line.startswith("BLEU ") for line in lines) and any(line.startswith("Model small") for line in lines)
    page.get_by_text("Artifacts", exact=True).first.click()
    page.locator(".flow-run-artifacts a").first.click()
    page.get_by_text("Verdict: ").first.wait_for()
    picture(page, "prefect-result")
    assert asked_outside == []


@pytest.mark.cpu(60)
def test_mlflow_shows_a_table_of_runs_that_can_be_read(
    up: Any, page: Any, signed_in: Any, picture: Any, asked_outside: list[str]
) -> None:
    """Links in Prefect's artifacts, and the links that `nmt up` prints, have these forms."""
    signed_in(up)
    assert up.wait(up.start("retrain/small")) == "COMPLETED"
    run = up.start("clean/small", changes="clean.max_words=13")
    assert up.wait(run) == "COMPLETED"
    server, tracked = up.servers["mlflow"], dict(up.tracked(run, "r.run_uuid"))
    [(experiment,)] = up.nmt.select("mlflow.db", "select experiment_id from experiments where name = 'small'")
    page.goto(runs_page(server, str(experiment)))
    page.get_by_role("link", name=re.compile("clean small ")).first.wait_for()
    page.get_by_role("link", name=re.compile("retrain small ")).first.wait_for()
    headings = page.get_by_role("columnheader").all_inner_texts()
    for heading in ("Run Name", "BLEU", "chrF", "kind"):
        assert heading in headings, headings
    picture(page, "mlflow-runs")
    page.goto(run_page(server, str(experiment), tracked["clean"]))
    page.get_by_text("clean (max_words=13)").first.wait_for()
    assert asked_outside == []


@pytest.mark.cpu(50)
def test_a_typed_name_stays_and_changes_are_made_as_by_set(
    up: Any, page: Any, signed_in: Any, picture: Any, asked_outside: list[str]
) -> None:
    site, clean = signed_in(up), up.deployment("clean/small")["id"]
    assert up.wait(up.start("download/small")) == "COMPLETED"
    page.goto(f"{site}/deployments/deployment/{clean}/run")
    fill(option(page, "changes").locator("textarea"), "clean.max_words=11,\nclean.min_words=2")
    fill(page.get_by_text("Run Name", exact=True).locator("xpath=following::input[1]"), "before the holidays")
    picture(page, "prefect-changes")
    run = run_from_the_form(page, clean)
    assert up.wait(run) == "COMPLETED"
    assert up.call(f"flow_runs/{run}")["name"] == "before the holidays"
    (made,) = [text for file in up.nmt.home.glob("runs/*/summary.json") if run in (text := file.read_text())]
    cleaned = json.loads(made)["config"]["clean"]
    assert (cleaned["max_words"], cleaned["min_words"]) == (11, 2)

    page.goto(f"{site}/deployments/deployment/{clean}/run")
    fill(option(page, "changes").locator("textarea"), "clean.max_word=11")
    run = run_from_the_form(page, clean)
    assert up.wait(run) == "FAILED"
    message = "recipe small: clean.max_word is not a key: did you mean 'max_words'?"
    state = up.call(f"flow_runs/{run}")["state"]
    assert state["message"] == message
    assert not [line for line in lines_of(up, run) if "Traceback" in line]
    page.goto(f"{site}/runs/flow-run/{run}")
    page.get_by_text(message).first.wait_for()
    picture(page, "prefect-failed")
    assert asked_outside == []


def test_the_toggle_of_a_schedule_works_at_once(up: Any, page: Any, signed_in: Any, picture: Any) -> None:
    site, retrain = signed_in(up), up.deployment("retrain/small")["id"]
    statuses = statuses_of(page, site)
    page.goto(f"{site}/deployments/deployment/{retrain}")
    (before,) = up.deployment("retrain/small")["schedules"]
    assert before["active"]
    for active in (False, True):
        with page.expect_response(re.compile(rf"/deployments/{retrain}/schedules/")) as answer:
            page.locator(".deployment-schedule-toggle, .p-toggle").first.click()
        assert answer.value.ok, answer.value.text()
        assert up.deployment("retrain/small")["schedules"][0]["active"] is active
    picture(page, "prefect-deployment")
    assert [asked for asked in statuses if asked[1] >= 500] == []


def started_by_hand(up: Any, deployment: str) -> dict[str, Any]:
    """Return the parameters of each run of a deployment, by its name, without the runs of a schedule."""
    runs = up.call("flow_runs/filter", {"deployments": {"id": {"any_": [deployment]}}})
    return {run["name"]: run["parameters"] for run in runs if not run["auto_scheduled"]}


def test_a_value_out_of_bounds_is_refused_in_the_browser(up: Any, page: Any, signed_in: Any, picture: Any) -> None:
    site = signed_in(up)
    for name, title in (("clean/small", "Max Words"), ("retrain/small", "Max Updates")):
        deployment = up.deployment(name)["id"]
        before = started_by_hand(up, deployment)
        page.goto(f"{site}/deployments/deployment/{deployment}/run")
        fill(option(page, title).locator("input"), "0")
        page.get_by_role("button", name="Submit").click()
        option(page, title).get_by_text("0 is less than the minimum of 1").wait_for()
        picture(page, f"prefect-refused-{name.partition('/')[0]}")
        assert started_by_hand(up, deployment) == before, "nothing was started"


def ranks(up: Any) -> list[psutil.Process]:
    """Return the processes that train, without `torchrun`."""
    found = []
    for process in psutil.Process(up.process.pid).children(recursive=True):
        try:
            if "RANK" in process.environ() and "nmt_core.train" in " ".join(process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def wait_until_they_train(up: Any, run: str) -> list[psutil.Process]:
    """Return the ranks when the curve has points."""
    until(
        lambda: trains(up.nmt.home),
        lambda: str(up.call(f"flow_runs/{run}")["state"]),
        every=0.2,
    )
    return ranks(up)


@pytest.mark.cpu(80)
def test_two_ranks_that_are_cancelled_end_with_a_checkpoint(
    up: Any, page: Any, signed_in: Any, small_recipe: dict[str, Any]
) -> None:
    """The ranks have work for two, and neither end nor save by themselves."""
    endless = {"micro_batch_tokens": 512, "max_updates": _UPDATES, "checkpoint_every": _UPDATES}
    config = small_recipe | {"train": small_recipe["train"] | endless, "average": {"checkpoints": 1}}
    run = up.start("retrain/small", config=config, until="train")
    training = wait_until_they_train(up, run)
    assert len(training) == 2
    page.goto(f"{signed_in(up)}/runs/flow-run/{run}")
    page.locator(".flow-run-menu").first.click()
    page.get_by_text("Cancel", exact=True).click()
    page.get_by_role("button", name="Confirm").click()
    clicked = time.monotonic()
    until_gone(training, "the machine is not free")
    print(f"{time.monotonic() - clicked:.1f} s from the click until both ranks have gone")
    page.get_by_text("Cancelled", exact=True).first.wait_for()
    assert up.state(run) == "CANCELLED"
    assert ranks(up) == []
    assert dict(up.tracked(run))["train"] == "KILLED"
    lines = lines_of(up, run)
    assert [line for line in lines if re.search(r"train: stopped with a checkpoint of update [\d,]+: ", line)], lines
    assert not [line for line in lines if "Crash" in line or "Traceback" in line], lines
    saved = max(map(saved_at, up.nmt.home.glob(UNDER_WAY)))
    assert 0 < saved < _UPDATES, "saved for the cancellation, and not because it was due"


def statuses_of(page: Any, server: str) -> list[tuple[str, int]]:
    """Return a list to which each answer of a server is added, as the browser sees it, even if the page does not."""
    seen: list[tuple[str, int]] = []

    def note(response: Any) -> None:
        if response.url.startswith(server):
            seen.append((f"{response.request.method} {response.url.removeprefix(server)}", response.status))

    page.on("response", note)
    return seen


def raw(address: str, path: str, host: str, method: str = "GET") -> int:
    """Return the status of an answer to a request with another host name."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.cpu(25)
def test_a_page_of_another_site_gets_nothing_and_the_ui_works(
    up: Any, page: Any, signed_in: Any, foreign_page: Any, serve: Any, picture: Any
) -> None:
    site, mlflow = up.servers["prefect"].removesuffix("/api"), up.servers["mlflow"]
    gc, touched = up.deployment("gc/gc")["id"], up.nmt.home / "touched"
    other = urlsplit(foreign_page.url).hostname
    body = json.dumps({"job_variables": {"command": f"touch {touched}"}, "state": {"type": "SCHEDULED"}})

    careless = serve()
    got = foreign_page.evaluate(_ATTACK, [careless.address, gc, body])
    assert {name for name, answer in got.items() if answer == "unreadable"} == _UNREADABLE_BY_NATURE | {"script"}
    assert all(got[name].startswith("200") for name in got.keys() - _UNREADABLE_BY_NATURE - {"script", "socket"}), got
    assert careless.asked.count(f"POST /api/deployments/{gc}/create_flow_run") == 6, "and it does so with no effort"

    statuses = statuses_of(foreign_page, site)
    for server in (site, site.replace("127.0.0.1", "localhost")):
        got = foreign_page.evaluate(_ATTACK, [server, gc, body])
        assert {name for name, answer in got.items() if answer == "unreadable"} <= _UNREADABLE_BY_NATURE
        assert {answer for name, answer in got.items() if name not in _UNREADABLE_BY_NATURE} == {"blocked"}, got
    assert statuses and {status for _, status in statuses} <= _REFUSED, statuses
    assert up.call("flow_runs/filter", {"deployments": {"id": {"any_": [gc]}}}) == [] and not touched.exists()

    statuses = statuses_of(foreign_page, mlflow)
    for mode in ("cors", "no-cors"):
        foreign_page.evaluate(_MAKE_AN_EXPERIMENT, [mlflow, mode])
    assert [status for asked, status in statuses if asked.startswith("POST")] == [403], statuses
    assert up.nmt.select("mlflow.db", "select count(*) from experiments where name = 'cats'") == [(0,)]

    # DNS rebinding: the name of the site leads to the server, and so its pages are of the site's own origin
    for server, paths in {site: _PATHS, mlflow: _PATHS_OF_MLFLOW}.items():
        rebound = server.replace("127.0.0.1", other)
        assert foreign_page.goto(rebound).status in _REFUSED
        asked = "fetch('/api/2.0/mlflow/experiments/search?max_results=1').then(answer => answer.status)"
        assert foreign_page.evaluate(asked) in _REFUSED
        for path in paths:
            assert raw(server, path, f"{other}:{urlsplit(server).port}") in _REFUSED
    assert raw(site, "/api/health", urlsplit(site).netloc) == 200

    # With the password, a run starts, but its command cannot be chosen
    answers = {name: start_with(up, gc, name) for name in ("command", "env", "working_dir", "")}
    assert answers == {"command": 422, "env": 422, "working_dir": 422, "": 201}
    (run,) = up.call("flow_runs/filter", {"deployments": {"id": {"any_": [gc]}}})
    assert up.wait(run["id"]) == "COMPLETED" and not touched.exists()

    signed_in(up)
    page.goto(f"{site}/deployments")
    page.get_by_text("reconcile", exact=True).first.wait_for()
    picture(page, "prefect-deployments")
    assert page.evaluate("fetch('/ui-settings').then(answer => answer.json())")["available_uis"] == ["v1"]


def start_with(up: Any, deployment: str, variable: str) -> int:
    """Start a run with a changed job variable, and return the status of the answer."""
    value = {"PYTHONPATH": "/tmp"} if variable == "env" else "/tmp"
    body = {"state": {"type": "SCHEDULED"}, "job_variables": {variable: value} if variable else {}}
    try:
        up.call(f"deployments/{deployment}/create_flow_run", body)
        return 201
    except AssertionError as error:
        return int(str(error).split(": ")[1].split(" ")[0])


def test_a_wrong_password_in_a_link_changes_nothing(up: Any, page: Any, signed_in: Any) -> None:
    site = signed_in(up)
    kept = page.evaluate("localStorage.getItem('prefect-password')")
    page.goto(f"{site}/nmt-open#bm10Om5tdA==")
    page.wait_for_url(f"{site}/dashboard")
    assert page.evaluate("localStorage.getItem('prefect-password')") == kept
