"""A page of another site is open in a real browser while `nmt up` runs. It tries all that a page can, and gets nothing.

The same page gets what it wants of a server that answers everybody: the tries are real ones.
"""

import http.client
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytestmark = [pytest.mark.ui, pytest.mark.timeout(900)]

_SITE = "evil.example"
_REFUSED = {400, 401, 403}
_ATTACK = """async ([server, deployment, body]) => {
  const start = `${server}/api/deployments/${deployment}/create_flow_run`;
  const json = {"Content-Type": "application/json", "Prefect-Csrf-Client": "x", "Prefect-Csrf-Token": "x"};
  const guess = {Authorization: "Basic bm10Om5tdA=="};
  const asks = {
    get: () => fetch(`${server}/api/deployments/name/gc/gc`),
    "no-cors get": () => fetch(`${server}/api/deployments/name/gc/gc`, {mode: "no-cors"}),
    "get of a page": () => fetch(`${server}/ui-settings`, {mode: "no-cors"}),
    token: () => fetch(`${server}/api/csrf-token?client=x`),
    "simple post": () => fetch(`${server}/api/deployments/filter`, {method: "POST", body: new Blob(["{}"])}),
    "no-cors post": () => fetch(start, {method: "POST", mode: "no-cors", body}),
    "no-cors post without a type": () => fetch(start, {method: "POST", mode: "no-cors", body: new Blob([body])}),
    "with cookies": () => fetch(start, {method: "POST", credentials: "include", body: new Blob([body])}),
    preflighted: () => fetch(start, {method: "POST", headers: json, body}),
    "guessed password": () => fetch(`${server}/api/flows/count`, {method: "POST", headers: {...json, ...guess}}),
    patch: () => fetch(`${server}/api/deployments/${deployment}`, {method: "PATCH", headers: json, body: "{}"}),
    beacon: async () => { navigator.sendBeacon(start, body); return {type: "opaque"}; },
    form: () => new Promise(resolve => {
      const [frame, form] = [document.createElement("iframe"), document.createElement("form")];
      Object.assign(form, {action: start, method: "post", enctype: "text/plain", target: frame.name = "hidden"});
      form.innerHTML = "<input>";
      form.firstChild.name = body;
      frame.onload = () => resolve({type: "opaque"});
      document.body.append(frame, form);
      form.submit();
    }),
    script: () => new Promise((resolve, reject) => {
      const script = document.createElement("script");
      Object.assign(script, {onload: () => resolve({type: "opaque"}), onerror: reject});
      script.src = `${server}/api/admin/settings`;
      document.body.append(script);
    }),
    socket: () => new Promise((resolve, reject) => {
      const socket = new WebSocket(`${server.replace("http", "ws")}/api/events/out`, "prefect");
      socket.onopen = () => resolve({type: "basic", status: 101, text: async () => ""});
      socket.onerror = reject;
    }),
  };
  const got = {};
  for (const [name, ask] of Object.entries(asks)) {
    try {
      const answer = await ask();
      got[name] = answer.type === "opaque" ? "unreadable" : `${answer.status} ${await answer.text()}`;
    } catch { got[name] = "blocked"; }
  }
  return got;
}"""
_MAKE_AN_EXPERIMENT = """([server, mode]) =>
  fetch(`${server}/api/2.0/mlflow/experiments/create`, {
    method: "POST",
    mode,
    headers: mode === "cors" ? {"Content-Type": "application/json"} : {},
    body: '{"name": "cats"}',
  }).then(() => "answered", () => "blocked")"""
_PATHS = ("/", "/dashboard", "/api/health", "/api/deployments/name/gc/gc", "/nmt-open")
_PATHS_OF_MLFLOW = ("/", "/api/2.0/mlflow/experiments/search?max_results=1")  # it says OK at /health to everybody
_UNREADABLE_BY_NATURE = {
    "no-cors get",
    "get of a page",
    "no-cors post",
    "no-cors post without a type",
    "beacon",
    "form",
}


@dataclass
class Careless:
    """A server that answers everybody, and notes who asked for what."""

    address: str
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def serve() -> Iterator[Callable[[], Careless]]:
    """Starts servers that let pages of every site read all they say; one of them serves the page itself."""
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


def statuses_of(page: Any, server: str) -> list[tuple[str, int]]:
    """What a server answers from now on, as the browser sees it, whether or not the page does."""
    seen: list[tuple[str, int]] = []

    def note(response: Any) -> None:
        if response.url.startswith(server):
            seen.append((f"{response.request.method} {response.url.removeprefix(server)}", response.status))

    page.on("response", note)
    return seen


def raw(address: str, path: str, host: str, method: str = "GET") -> int:
    """The status of an answer to a request that names a host of its own."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_it_gets_nothing_and_the_ui_works(
    nmt: Any, start_up: Any, page: Any, signed_in: Any, foreign_page: Any, serve: Any, small_file: Path, picture: Any
) -> None:
    up = start_up(nmt, str(small_file))
    site, mlflow = up.servers["prefect"].removesuffix("/api"), up.servers["mlflow"]
    gc, touched = up.deployment("gc/gc")["id"], nmt.home / "touched"
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
    assert nmt.select("mlflow.db", "select count(*) from experiments where name = 'cats'") == [(0,)]

    # DNS rebinding: the name of the site leads to the server, and so its pages are of the site's own origin
    for server, paths in {site: _PATHS, mlflow: _PATHS_OF_MLFLOW}.items():
        rebound = server.replace("127.0.0.1", _SITE)
        assert foreign_page.goto(rebound).status in _REFUSED
        asked = "fetch('/api/2.0/mlflow/experiments/search?max_results=1').then(answer => answer.status)"
        assert foreign_page.evaluate(asked) in _REFUSED
        for path in paths:
            assert raw(server, path, f"{_SITE}:{urlsplit(server).port}") in _REFUSED
    assert raw(site, "/api/health", urlsplit(site).netloc) == 200

    # With the password, a run starts; but what it runs is not for whoever starts it to say
    answers = {name: start_with(up, gc, name) for name in ("command", "env", "working_dir", "")}
    assert answers == {"command": 422, "env": 422, "working_dir": 422, "": 201}
    (run,) = up.call("flow_runs/filter", {"deployments": {"id": {"any_": [gc]}}})
    assert up.wait(run["id"]) == "COMPLETED" and not touched.exists()

    signed_in(up)
    page.goto(f"{site}/deployments")
    page.get_by_text("reconcile", exact=True).first.wait_for()
    picture(page, "prefect-deployments")
    assert page.evaluate("fetch('/ui-settings').then(answer => answer.json())")["available_uis"] == ["v1"]
    up.end()


def start_with(up: Any, deployment: str, variable: str) -> int:
    """Start a run with a value of one's own for a job variable; the status of the answer."""
    value = {"PYTHONPATH": "/tmp"} if variable == "env" else "/tmp"
    body = {"state": {"type": "SCHEDULED"}, "job_variables": {variable: value} if variable else {}}
    try:
        up.call(f"deployments/{deployment}/create_flow_run", body)
        return 201
    except AssertionError as error:
        return int(str(error).split(": ")[1].split(" ")[0])


def test_a_wrong_password_in_a_link_changes_nothing(nmt: Any, start_up: Any, page: Any, signed_in: Any) -> None:
    up = start_up(nmt)
    site = signed_in(up)
    kept = page.evaluate("localStorage.getItem('prefect-password')")
    page.goto(f"{site}/nmt-open#bm10Om5tdA==")
    page.wait_for_url(f"{site}/dashboard")
    assert page.evaluate("localStorage.getItem('prefect-password')") == kept
    up.end()
