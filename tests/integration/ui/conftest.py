"""A browser, a page that requests nothing from outside, and screenshots. Also `nmt up`, and a page of another site."""

import http.server
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.prefect_api import secret_of

from flows.servers.secret import opening_address

_SITE = "evil.example"
_MILLISECONDS = 120_000  # for whatever a page should show
_SIZE = {"width": 1400, "height": 1000}
_FEW_FRAMES = "window.requestAnimationFrame = draw => setTimeout(() => draw(performance.now()), 250)"
"""Draw four frames a second.

The graph of a run is drawn again in each, though nothing moves, and there may be no GPU.
"""


@pytest.fixture(scope="module")
def browser(chromium: Any) -> Any:
    """Browser of all tests in this folder."""
    return chromium()


@pytest.fixture
def asked_outside() -> list[str]:
    """Addresses beyond this machine that a page has requested."""
    return []


@pytest.fixture
def page(browser: Any, asked_outside: list[str]) -> Iterator[Any]:
    """Empty page. None of its requests leaves this machine."""
    context = browser.new_context(viewport=_SIZE, color_scheme="light", reduced_motion="reduce")
    context.add_init_script(_FEW_FRAMES)

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
    """Sign the page in at the servers of `nmt up`, as its printed address does, and return Prefect's address."""

    def sign_in(up: Any) -> str:
        site: str = up.servers["prefect"].removesuffix("/api")
        page.goto(opening_address(site, secret_of(up.nmt.home)))
        page.wait_for_url(f"{site}/dashboard")
        return site

    return sign_in


@pytest.fixture(scope="module")
def small_file(small_recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small recipe as a file."""
    file = tmp_path_factory.mktemp("recipe") / "small.yaml"
    values = {name: value for name, value in small_recipe.items() if value is not None} | {"name": "small"}
    values["schedule"] = {"cron": "0 3 1 1 *"}  # once a year, so that there is something to pause
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def up(continued_alone: tuple[Any, dict[str, Any]], ask: Any, small_file: Path) -> Iterator[Any]:
    """`nmt up` with the small recipe, in a home where all its stages have been made.

    Other tests share it, so each test looks for its own runs. A training has two processes, if there is enough work.
    """
    nmt, _ = continued_alone
    up = ask(nmt, nmt.start("up", str(small_file), NMT_PROCESSES="2"))
    try:
        up.wait_until_up()
        yield up
        up.end()
    finally:
        up.kill()


@pytest.fixture
def picture(tmp_path: Path) -> Any:
    """Take screenshots of a page. With SCREENSHOTS, they are kept for the documentation."""
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))

    def take(page: Any, name: str) -> None:
        page.wait_for_timeout(1_500)  # animations end
        page.screenshot(path=folder / f"{name}.png")
        assert (folder / f"{name}.png").stat().st_size > 10_000

    return take


@dataclass
class Careless:
    """Server that answers every request, and records it."""

    address: str
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def serve() -> Iterator[Callable[[], Careless]]:
    """Start servers that let pages of every site read their answers. One of them serves such a page itself."""
    started: list[tuple[http.server.ThreadingHTTPServer, threading.Thread]] = []

    def start() -> Careless:
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                careless.asked.append(f"{self.command} {self.path}")
                content = b"[]" if "/api/" in self.path else b"<!doctype html><title>cats</title><body>"
                self.send_response(200)
                self.send_header("Content-Type", "text/html" if b"cats" in content else "application/json")
                for name in ("Origin", "Headers", "Methods"):
                    asked = {"Origin": "Origin", "Headers": "Access-Control-Request-Headers"}.get(name, "")
                    own = "GET, POST, PATCH" if name == "Methods" else "*"
                    self.send_header(f"Access-Control-Allow-{name}", self.headers.get(asked, own))
                self.send_header("Access-Control-Allow-Credentials", "true")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = do_OPTIONS = answer  # so `http.server` calls them

            def log_message(self, *arguments: Any) -> None: ...

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        careless = Careless(f"http://127.0.0.1:{server.server_port}")
        started.append((server, threading.Thread(target=server.serve_forever)))
        started[-1][1].start()
        return careless

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def foreign_page(chromium: Any, serve: Callable[[], Careless]) -> Iterator[Any]:
    """A page of another site, whose name leads to this machine."""
    browser = chromium(f"--host-resolver-rules=MAP {_SITE} 127.0.0.1")
    page = browser.new_page()
    page.goto(serve().address.replace("127.0.0.1", _SITE))
    yield page
    browser.close()
