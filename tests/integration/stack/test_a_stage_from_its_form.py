"""A stage is started from its form in a real browser, where Prefect keeps its data in PostgreSQL, behind the proxy."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from nmt_core.config import CleanConfig

pytestmark = [pytest.mark.ui, pytest.mark.timeout(900)]

_SITE = "https://prefect.localhost"
_MILLISECONDS = 120_000  # for whatever a page should show


@pytest.fixture
def page(chromium: Any, stack: Any) -> Iterator[Any]:
    """An empty page of somebody who knows the password. The certificate is Caddy's own, and its port is not 443."""
    rules = f"--host-resolver-rules=MAP prefect.localhost:443 127.0.0.1:{stack.ports['443']}"
    login = {"username": "nmt", "password": stack.values["NMT_PASSWORD"]}
    context = chromium(rules).new_context(http_credentials=login, ignore_https_errors=True)
    context.route(lambda url: not url.startswith(_SITE), lambda route: route.abort())  # nothing leaves this machine
    page = context.new_page()
    page.set_default_timeout(_MILLISECONDS)
    yield page
    context.close()


def test_a_stage_from_its_form(stack: Any, page: Any) -> None:
    download, clean = (stack.prefect(f"deployments/name/{stage}/quickstart")["id"] for stage in ("download", "clean"))
    before = stack.prefect(f"deployments/{download}/create_flow_run", {"state": {"type": "SCHEDULED"}})["id"]
    assert stack.ended(before)["type"] == "COMPLETED", "what it cleans"
    page.goto(f"{_SITE}/deployments/deployment/{clean}/run")
    max_words = page.locator(".schema-form-property", has=page.get_by_text("Max Words (Optional)", exact=True)).last
    max_words.locator("input").fill("12")
    labels = page.locator(".schema-form-property__label").all_inner_texts()
    shown = [label.removesuffix(" (Optional)") for label in labels]
    knobs = [knob["title"] for knob in CleanConfig.model_json_schema()["properties"].values()]
    assert shown == ["clean", *knobs, "input", "recipe", "force"], (
        "in the order of the section, which a database may lose"
    )
    with page.expect_response(re.compile(rf"/deployments/{clean}/create_flow_run")) as answer:
        page.get_by_role("button", name="Submit").click()
    run = answer.value.json()["id"]
    assert stack.ended(run)["type"] == "COMPLETED"
    assert stack.prefect(f"flow_runs/{run}")["parameters"]["clean"]["max_words"] == 12
