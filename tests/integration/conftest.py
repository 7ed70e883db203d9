"""A small pipeline run by the real command line, in its own folder. Many tests share one finished run."""

import contextlib
import functools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.forked import Zygote, start
from support.homes import changes, copy, once, snapshot
from support.prefect_api import headers, secret_of
from support.small import SMALL
from support.until import patient, until, until_gone

from flows.servers.servers import held_port

_LIMIT = 560
_SECONDS_TO_END = 60
_BUSY = 503
_HELD = contextlib.ExitStack()
_ENDS = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


@functools.cache
def ports_for_up() -> dict[str, str]:
    """Return ports for `nmt up` that this process holds until its end: others may start one in the same moment."""
    return {name: str(_HELD.enter_context(held_port())) for name in ("PREFECT_SERVER_API_PORT", "MLFLOW_PORT")}


@dataclass(frozen=True)
class Nmt:
    """The command line with a home of its own."""

    home: Path
    zygote: Zygote
    prefect: Any = None
    """Prefect server to use. None means that each run starts its own."""
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """Return an environment without the tester's own settings and without network access."""
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("NMT_", "PREFECT_", "MLFLOW_"))
        }
        dead = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
        server = {}
        if self.prefect:
            server = {"PREFECT_API_URL": self.prefect.address, "PREFECT_API_AUTH_STRING": self.prefect.secret}
        return own | dead | ports_for_up() | server | {"NMT_HOME": str(self.home), "NMT_THREADS": "1"}

    def start(
        self, *arguments: str, log: Path | None = None, anew: bool = False, **environment: str
    ) -> subprocess.Popen[str]:
        """Start a command in its own process group, as a shell does. With `anew`, start a new interpreter.

        If a log is given, the command prints into it. A command that prints much needs one: a process that writes to a
        full pipe which nothing reads stops.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        surroundings = self.environment | environment
        with contextlib.ExitStack() as stack:
            place = stack.enter_context(log.open("a")) if log else subprocess.PIPE
            options = {"cwd": self.home, "env": surroundings, "stdout": place, "stderr": place}
            process = start(self.zygote, arguments, anew=anew, **options)
        self.started.append(process)
        return process

    def close(self) -> None:
        """End the processes that a failed test has left running, with their children."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def __call__(
        self, *arguments: str, code: int = 0, anew: bool = False, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, and assert its exit code."""
        process = self.start(*arguments, anew=anew, **environment)
        out, error = process.communicate(timeout=_LIMIT)
        assert process.returncode == code, f"{arguments} ended with {process.returncode}:\n{out}\n{error}"
        return subprocess.CompletedProcess(arguments, code, out, error)

    def run(self, *arguments: str, code: int = 0, anew: bool = False, **environment: str) -> dict[str, Any]:
        """Run `nmt run` on the small recipe, and return its summary."""
        done = self("run", *small(), "--json", *arguments, code=code, anew=anew, **environment)
        summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return summary

    def select(self, database: str, query: str) -> list[tuple[Any, ...]]:
        """Query a database of the home."""
        return _select(self.home / database, query)

    def in_prefect(self, query: str) -> list[tuple[Any, ...]]:
        """Query the database of the Prefect server that runs use."""
        return _select(self.prefect.database if self.prefect else self.home / "prefect" / "prefect.db", query)


def _select(database: Path, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


@dataclass
class Up:
    """`nmt up` on a home, and requests to its servers."""

    nmt: Nmt
    process: "subprocess.Popen[str] | None" = None
    """Process of `nmt up`. None means that the servers were started in another way."""
    family: list[psutil.Process] = field(default_factory=list)

    @property
    def servers(self) -> dict[str, str]:
        """Addresses of the servers, by name."""
        found: dict[str, str] = json.loads((self.nmt.home / "servers.json").read_text())
        return found

    def wait_until_up(self) -> None:
        """Return when everything has started."""
        said = ""
        assert self.process and self.process.stdout
        while "Ctrl-C" not in said:
            line = self.process.stdout.readline()
            assert line, (said, *self.process.communicate())
            said += line
        self.look_at_the_family()

    def look_at_the_family(self) -> None:
        """Record all current processes."""
        assert self.process
        parent = psutil.Process(self.process.pid)
        self.family = list(dict.fromkeys([*self.family, parent, *parent.children(recursive=True)]))

    def call(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Send a request to Prefect's API, and return its JSON. On SQLite it answers 503 while the database is busy."""
        api = self.servers["prefect"]
        return self.ask(f"{api}/{path}", body, method, headers(api, secret_of(self.nmt.home)))

    @staticmethod
    def ask(url: str, body: Any = None, method: str | None = None, headers: dict[str, str] | None = None) -> Any:
        """Send a request to any server."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers=headers or {}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def answer() -> list[Any]:
            try:
                with opener.open(request, timeout=patient(120)) as response:
                    text = response.read().decode()
                return [json.loads(text) if text.startswith(("{", "[", "true", "false")) else text]
            except urllib.error.HTTPError as error:
                if error.code != _BUSY:
                    raise AssertionError(f"{url}: {error.code} {error.read().decode()[:2_000]}") from None
                return []

        return until(answer, f"{url} is busy", every=1)[0]

    def deployment(self, name: str) -> dict[str, Any]:
        """A deployment, by the names of its flow and its own."""
        found: dict[str, Any] = self.call(f"deployments/name/{name}")
        return found

    def start(self, name: str, **parameters: Any) -> str:
        """Run a deployment with other values for some parameters, and return the id of the flow run."""
        deployment = self.deployment(name)
        body = {"parameters": deployment["parameters"] | parameters, "state": {"type": "SCHEDULED"}}
        run: dict[str, Any] = self.call(f"deployments/{deployment['id']}/create_flow_run", body)
        return str(run["id"])

    def state(self, flow_run: str) -> str:
        """The type of the state that a flow run is in."""
        return str(self.call(f"flow_runs/{flow_run}")["state"]["type"])

    def wait(self, flow_run: str, limit: float = 120) -> str:
        """The state in which a flow run ends."""

        def ended() -> str | None:
            state = self.state(flow_run)
            return state if state in _ENDS else None

        return until(ended, lambda: self.call(f"flow_runs/{flow_run}")["state"], limit, every=0.5) or ""

    def tracked(self, flow_run: str, value: str = "r.status") -> list[tuple[str, Any]]:
        """Return the MLflow runs of a flow run, oldest first: stage or name of each, and its status or another value.

        A stage that was reused has no run.
        """
        stage = "(select s.value from tags s where s.run_uuid = r.run_uuid and s.key = 'nmt.stage')"
        return self.nmt.select(
            "mlflow.db",
            f"select coalesce({stage}, r.name), {value} from runs r join tags o on r.run_uuid = o.run_uuid and "
            f"o.key = 'prefect.flow_run_id' and o.value = '{flow_run}' order by r.start_time",
        )

    def end(self, number: int = signal.SIGINT) -> None:
        """Press Ctrl-C, and assert that all processes that were started have ended."""
        self.look_at_the_family()
        assert self.process
        os.killpg(self.process.pid, number)
        self.process.communicate(timeout=patient(_SECONDS_TO_END))  # before psutil, which would take its exit status
        until_gone(self.family)

    def kill(self) -> None:
        """End the processes that a failed test has left, and their children."""
        if self.process and self.process.poll() is None:
            self.look_at_the_family()
        for member in self.family:
            if member.is_running():
                member.kill()
        if self.process:
            if self.process.poll() is None:
                self.process.kill()
            self.process.communicate()


@pytest.fixture(scope="session")
def ask() -> Callable[[Nmt], Up]:
    """Connect to servers of a home that a test has started itself."""
    return Up


@pytest.fixture
def start_up() -> Iterator[Callable[..., Up]]:
    """Start `nmt up` on a home. All its processes end, whatever a test does."""
    started: list[Up] = []

    def start(nmt: Nmt, *arguments: str, **environment: str) -> Up:
        started.append(Up(nmt, nmt.start("up", *arguments, **environment)))
        started[-1].wait_until_up()
        return started[-1]

    yield start
    for each in started:
        each.kill()


def small() -> list[str]:
    """The quickstart, as small as it works, as arguments."""
    return ["quickstart", *(part for key, value in SMALL.items() for part in ("--set", f"{key}={value}"))]


def small_config() -> dict[str, Any]:
    """The small recipe as a configuration, as a form of Prefect submits it."""
    from nmt_core.recipes.recipe import load_recipe

    return load_recipe("quickstart", [f"{key}={value}" for key, value in SMALL.items()]).model_dump(mode="json")


def did(summary: dict[str, Any]) -> dict[str, str]:
    """Return the outcome of each stage of a run."""
    return {stage["name"]: stage["status"] for stage in summary["stages"]}


@pytest.fixture(scope="session")
def databases(mlflow_database: Path, prefect_database: Path) -> Callable[[Path], Path]:
    """Put empty databases of Prefect and MLflow into a home: its first run would make them, which takes seconds.

    Also record the place of the home, as that run does.
    """

    def put(home: Path) -> Path:
        (home / "prefect").mkdir(parents=True)
        shutil.copyfile(prefect_database, home / "prefect" / "prefect.db")
        shutil.copyfile(mlflow_database, home / "mlflow.db")
        (home / "place.txt").write_text(str(home), encoding="utf-8")
        return home

    return put


@pytest.fixture
def untouched(tmp_path: Path, zygote: Zygote) -> Iterator[Nmt]:
    """The command line in an empty home, as it is before the first run ever."""
    nmt = Nmt(tmp_path / "home", zygote)
    yield nmt
    nmt.close()


@pytest.fixture
def nmt(untouched: Nmt, databases: Callable[[Path], Path]) -> Nmt:
    """Command line in a home with databases and nothing in them."""
    databases(untouched.home)
    return untouched


@pytest.fixture(scope="session")
def make_nmt(zygote: Zygote, databases: Callable[[Path], Path]) -> Callable[..., Nmt]:
    """Make a command line with a new home of this name, which has databases."""
    return lambda home, **options: Nmt(databases(home), zygote, **options)


@pytest.fixture
def served(make_nmt: Callable[..., Nmt], prefect_server: Any, tmp_path: Path) -> Iterator[Nmt]:
    """Command line in a home with databases. Its runs use one Prefect server, and start none of their own."""
    nmt = make_nmt(tmp_path / "home", prefect=prefect_server)
    yield nmt
    nmt.close()


@pytest.fixture(scope="session")
def recipe() -> list[str]:
    """Arguments that name the small recipe."""
    return small()


@pytest.fixture(scope="session")
def small_recipe() -> dict[str, Any]:
    """The small recipe as a configuration."""
    return small_config()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Callable[..., Any]]:
    """Start Chromium of this machine without a window, with extra arguments."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "these tests need Chromium: apt-get install chromium"
    always = ["--no-sandbox", "--no-proxy-server"]
    with sync_playwright() as playwright:
        # Everything that was started ends with the block.
        yield lambda *own: playwright.chromium.launch(executable_path=found, args=[*always, *own], timeout=120_000)


@pytest.fixture(scope="session")
def statuses() -> Callable[[dict[str, Any]], dict[str, str]]:
    """Return the outcome of each stage of a run."""
    return did


@pytest.fixture(scope="session")
def finished(
    tmp_path_factory: pytest.TempPathFactory, make_nmt: Callable[..., Nmt], zygote: Zygote
) -> Iterator[tuple[Nmt, dict[str, Any]]]:
    """A home with one finished run, the first ever there, and its summary. No test may change it:
    see `continued` and `continued_alone`."""

    def make(folder: Path) -> None:
        nmt = make_nmt(folder / "home")
        (folder / "summary.json").write_text(json.dumps(nmt.run()))
        for database in nmt.home.rglob("*.db"):  # else the first look changes the file
            with contextlib.closing(sqlite3.connect(database)) as connection:
                connection.execute("pragma wal_checkpoint(truncate)")

    folder = once(tmp_path_factory, "finished", make)
    nmt = Nmt(folder / "home", zygote)
    before = snapshot(nmt.home)
    yield nmt, json.loads((folder / "summary.json").read_text())
    nmt.close()
    assert changes(before, snapshot(nmt.home)) == [], "a test has changed what others read"


@pytest.fixture(scope="module")
def continued(
    finished: tuple[Nmt, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory, prefect_server: Any
) -> Iterator[tuple[Nmt, dict[str, Any]]]:
    """A copy of that home for the tests of a module, and the summary. Runs there use one Prefect server."""
    with _copied(finished, tmp_path_factory.mktemp("continued") / "home", prefect_server) as copied:
        yield copied


@pytest.fixture(scope="module")
def continued_alone(
    finished: tuple[Nmt, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Nmt, dict[str, Any]]]:
    """A copy of that home for the tests of a module that start servers on it, and the summary."""
    with _copied(finished, tmp_path_factory.mktemp("alone") / "home") as copied:
        yield copied


@contextlib.contextmanager
def _copied(
    finished: tuple[Nmt, dict[str, Any]], home: Path, prefect_server: Any = None
) -> Iterator[tuple[Nmt, dict[str, Any]]]:
    first, summary = finished
    nmt = Nmt(home, first.zygote, prefect_server)
    copy(first.home, nmt.home)
    yield nmt, json.loads(json.dumps(summary).replace(str(first.home), str(nmt.home)))
    nmt.close()
