"""The Prefect UI in a real browser: a stage is started from its form, then a retraining; both end well.

    SCREENSHOTS=infra/images .venv/bin/pytest -m ui

also renews the pictures that the README shows.
"""

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.ui, pytest.mark.timeout(900)]

_MILLISECONDS_TO_TRAIN = 500_000
_BUSY = 503
_LOOKS = 60
_BYTES_OF_A_GRAPH = 10_000  # of a PNG; one without the bars and their names has far fewer


def knob(page: Any, title: str) -> Any:
    """What a form shows for one knob."""
    return page.locator(".schema-form-property", has=page.get_by_text(f"{title} (Optional)", exact=True)).last


def run_from_the_form(page: Any, deployment: str) -> str:
    """Press Submit, and once more where Prefect on SQLite says that it is busy; the id of the flow run."""
    for _ in range(10):
        with page.expect_response(re.compile(rf"/deployments/{deployment}/create_flow_run")) as answer:
            page.get_by_role("button", name="Submit").click()
        if answer.value.status != _BUSY:
            break
        page.wait_for_timeout(2_000)
    assert answer.value.ok, answer.value.text()
    return str(answer.value.json()["id"])


def see_it_complete(page: Any, up: Any, site: str, run: str) -> None:
    """Stay on the page of a run until it says Completed, as the server does."""
    page.goto(f"{site}/runs/flow-run/{run}")
    page.get_by_text("Completed", exact=True).first.wait_for(timeout=_MILLISECONDS_TO_TRAIN)
    assert up.state(run) == "COMPLETED"


def wait_for_the_graph(page: Any) -> None:
    """Return when the page has drawn the tasks of a run: into a canvas, of which nothing but a picture can be had."""
    canvas, before = page.locator("canvas").first, b""
    for _ in range(_LOOKS):
        page.wait_for_timeout(1_000)
        now = canvas.screenshot()
        if now == before and len(now) > _BYTES_OF_A_GRAPH:
            return
        before = now
    raise AssertionError(f"no graph in {_LOOKS} s: a picture of {len(before):,} bytes")


def test_a_stage_and_a_retraining_from_the_browser(
    nmt: Any, start_up: Any, page: Any, signed_in: Any, small_file: Path, picture: Any, asked_outside: list[str]
) -> None:
    up = start_up(nmt, str(small_file))
    site = signed_in(up)
    assert up.wait(up.start("download/small")) == "COMPLETED"

    clean = up.deployment("clean/small")["id"]
    page.goto(f"{site}/deployments/deployment/{clean}/run")
    knob(page, "Max Words").locator("input").wait_for()
    titles = page.locator(".schema-form-property__label").all_inner_texts()
    assert titles[:4] == ["clean", "Min Words (Optional)", "Max Words (Optional)", "Min Characters (Optional)"]
    assert titles[-3:] == ["input (Optional)", "recipe (Optional)", "force (Optional)"]
    assert knob(page, "Max Words").inner_text().count("Most words a side may have. Allowed: 1 or more.") == 1
    assert knob(page, "Max Words").locator("input").input_value() == "150"
    assert knob(page, "Unicode Form").locator(".p-select").inner_text().strip() == "NFC"
    knob(page, "Max Words").locator("input").fill("12")
    picture(page, "prefect-form")
    run = run_from_the_form(page, clean)
    see_it_complete(page, up, site, run)
    assert up.call(f"flow_runs/{run}")["parameters"]["clean"]["max_words"] == 12
    shown = up.call("artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
    (report,) = [artifact["id"] for artifact in shown if artifact["key"] == "report-clean"]
    page.goto(f"{site}/artifacts/artifact/{report}")
    page.get_by_text("too_many_words").first.wait_for()
    picture(page, "prefect-report")

    retrain = up.deployment("retrain/small")["id"]
    page.goto(f"{site}/deployments/deployment/{retrain}/run")
    knob(page, "Max Updates").locator("input").wait_for()
    run = run_from_the_form(page, retrain)
    see_it_complete(page, up, site, run)
    page.reload()  # the graph of its tasks is drawn anew
    page.get_by_text("Completed", exact=True).first.wait_for()
    wait_for_the_graph(page)
    picture(page, "prefect-run")
    assert asked_outside == []
    up.end()


def test_a_value_out_of_bounds_is_refused_in_the_browser(
    nmt: Any, start_up: Any, page: Any, signed_in: Any, small_file: Path, picture: Any
) -> None:
    up = start_up(nmt, str(small_file))
    clean = up.deployment("clean/small")["id"]
    page.goto(f"{signed_in(up)}/deployments/deployment/{clean}/run")
    knob(page, "Max Words").locator("input").fill("0")
    page.get_by_role("button", name="Submit").click()
    page.get_by_text(re.compile("0 is less than the minimum of 1")).first.wait_for()
    picture(page, "prefect-refused")
    assert up.call("flow_runs/filter", {"deployments": {"id": {"any_": [clean]}}}) == [], "nothing was started"
    up.end()
