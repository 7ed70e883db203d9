"""A browser, a page that asks for nothing outside, and pictures of it."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.prefect_api import secret_of

from flows.secret import opening_address

_MILLISECONDS = 120_000  # for whatever a page should show
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
def signed_in(page: Any) -> Callable[[Any], str]:
    """Signs the page in at the servers of `nmt up`, as its printed address does, and gives Prefect's address."""

    def sign_in(up: Any) -> str:
        site: str = up.servers["prefect"].removesuffix("/api")
        page.goto(opening_address(site, secret_of(up.nmt.home)))
        page.wait_for_url(f"{site}/dashboard")
        return site

    return sign_in


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
