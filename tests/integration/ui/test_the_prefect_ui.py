"""The Prefect UI in a real browser: a stage is started from its form, then a retraining; both end well.

    SCREENSHOTS=infra/images .venv/bin/pytest -m ui

also renews the pictures that the README shows.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = [pytest.mark.ui, pytest.mark.timeout(900)]

_MILLISECONDS = 120_000  # for whatever a page should show
_MILLISECONDS_TO_TRAIN = 500_000
_BUSY = 503
_SIZE = {"width": 1400, "height": 1000}


@pytest.fixture(scope="module")
def browser(chromium: Any) -> Any:
    """Of all tests here."""
    return chromium()


@pytest.fixture
def asked_outside() -> list[str]:
    """Addresses beyond this machine that a page has asked for."""
    return []


@pytest.fixture
def page(browser: Any, asked_outside: list[str]) -> Iterator[Any]:
    """An empty page. Nothing that it asks for leaves this machine."""
    context = browser.new_context(viewport=_SIZE, color_scheme="light")

    def guard(route: Any) -> None:
        if re.match(r"(https?|wss?)://127\.0\.0\.1:", route.request.url):
            route.continue_()
        else:
            asked_outside.append(route.request.url)
            route.abort()

    context.route("**/*", guard)
    page = context.new_page()
    page.set_default_timeout(_MILLISECONDS)
    yield page
    context.close()


@pytest.fixture
def small_file(small_recipe: dict[str, Any], tmp_path: Path) -> Path:
    """The small recipe as a file."""
    file = tmp_path / "small.yaml"
    values = {name: value for name, value in small_recipe.items() if value is not None} | {"name": "small"}
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return file


@pytest.fixture
def picture(tmp_path: Path) -> Any:
    """Takes pictures of a page, for the README if asked to."""
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))

    def take(page: Any, name: str) -> None:
        page.wait_for_timeout(1_500)  # animations end
        page.screenshot(path=folder / f"{name}.png")
        assert (folder / f"{name}.png").stat().st_size > 10_000

    return take


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


def test_a_stage_and_a_retraining_from_the_browser(
    nmt: Any, start_up: Any, page: Any, small_file: Path, picture: Any, asked_outside: list[str]
) -> None:
    up = start_up(nmt, str(small_file))
    site = up.servers["prefect"].removesuffix("/api")
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
    page.reload()  # the picture of its tasks is drawn anew
    page.get_by_text("Completed", exact=True).first.wait_for()
    picture(page, "prefect-run")
    assert asked_outside == []
    up.end()


def test_a_value_out_of_bounds_is_refused_in_the_browser(
    nmt: Any, start_up: Any, page: Any, small_file: Path, picture: Any
) -> None:
    up = start_up(nmt, str(small_file))
    clean = up.deployment("clean/small")["id"]
    page.goto(f"{up.servers['prefect'].removesuffix('/api')}/deployments/deployment/{clean}/run")
    knob(page, "Max Words").locator("input").fill("0")
    page.get_by_role("button", name="Submit").click()
    page.get_by_text(re.compile("0 is less than the minimum of 1")).first.wait_for()
    picture(page, "prefect-refused")
    assert up.call("flow_runs/filter", {"deployments": {"id": {"any_": [clean]}}}) == [], "nothing was started"
    up.end()
