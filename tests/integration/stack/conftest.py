"""The services of infra/compose.yaml as processes of this machine: the same commands with the same settings.

Differences: every port is a free one of 127.0.0.1, moto's server replaces SeaweedFS, and PostgreSQL and Caddy come from
Debian. An older Caddy spells `basic_auth` in another way.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from support.prefect_api import headers
from support.until import patient, until

from flows.servers.servers import answers, held_port
from nmt_core.execution import processes
from nmt_core.recipes.recipe import load_recipe

_COMPOSE = Path(__file__).parents[3] / "infra" / "compose.yaml"
_PORTS = ("5432", "8333", "5000", "5001", "4200", "8080", "8081", "443", "80")
_ADDRESS = re.compile(rf"\b(?:postgres|s3|mlflow|proxy|prefect|127\.0\.0\.1):({'|'.join(_PORTS)})\b")
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
_PROGRAMS = {
    "prefect": ["-m", "prefect"],
    "mlflow": ["-m", "mlflow"],
    "nmt": ["-c", "from flows.cli.app import main; main()"],
    "python": [],
}
_SECONDS_TO_START = 120
_SECONDS_TO_END = 500
_GRACE_SECONDS = 20


class Postgres:
    """Our own PostgreSQL. It refuses to run as root, so then it runs as the user that Debian makes for it."""

    def __init__(self, folder: Path, port: int, password: str) -> None:
        self._binaries = _postgres_binaries()
        self._data, self._port, self._password = folder / "data", port, password
        self._log = folder / "log"
        self._as_user = []
        if os.getuid() == 0:
            self._as_user = [
                "setpriv",
                "--reuid=postgres",
                "--regid=postgres",
                "--clear-groups",
                "--pdeathsig=INT",
                "--",
            ]
            shutil.chown(folder, "postgres", "postgres")
        self._process: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """Make the cluster, as the image does, and the databases."""
        words = self._data.with_name("password")
        words.write_text(self._password)
        words.chmod(0o644)  # for an instant, in a folder that no other user can enter
        self._run("initdb", "--username=nmt", f"--pwfile={words}", "--auth=scram-sha-256", f"--pgdata={self._data}")
        words.unlink()
        self.start()
        with self.connect("postgres") as connection:
            connection.execute("CREATE DATABASE prefect")
            connection.execute((_COMPOSE.parent / "postgres" / "databases.sql").read_text())

    def start(self) -> None:
        """Start PostgreSQL, and wait until it answers."""
        command = [*self._as_user, str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self._port)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self._data}"]
        with self._log.open("ab") as log:
            self._process = processes.start(command, _environment(), log)
        until(lambda: self._answers() or not self._runs(), self._log.read_text, every=0.1)
        assert self._runs(), self._log.read_text()

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError), self.connect("postgres"):
            return True
        return False

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Break all connections and end the server."""
        if self._process and self._runs():
            self._run("pg_ctl", "stop", f"--pgdata={self._data}", "--mode=fast", "--wait")
            self._process.wait(_GRACE_SECONDS)

    def connect(self, database: str) -> psycopg.Connection[Any]:
        """A connection in which each statement is a transaction."""
        return psycopg.connect(
            host="127.0.0.1", port=self._port, user="nmt", password=self._password, dbname=database, autocommit=True
        )

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run([*self._as_user, str(self._binaries / program), *arguments], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()


def _postgres_binaries() -> Path:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda file: float(file.parts[-3]))
    found = str(versions[-1]) if versions else shutil.which("postgres")
    assert found, "PostgreSQL is not installed: apt-get install postgresql, as .ci/run does"
    return Path(found).parent


def _environment() -> dict[str, str]:
    """Return an environment without the tester's own settings and without network access."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NMT_", "PREFECT_", "MLFLOW_", "AWS_", "PG"))
    }
    dead = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}
    return own | dead


@dataclass
class Stack:
    """All services, by the names that they have in the compose file."""

    folder: Path
    values: dict[str, str]
    """Values that the file `.env` would hold."""
    ports: dict[str, str]
    """Ports of this machine, one for each port of the compose file."""
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    postgres: Postgres = field(init=False)

    def __post_init__(self) -> None:
        self._services = yaml.safe_load(_COMPOSE.read_text(encoding="utf-8"))["services"]

    @property
    def home(self) -> Path:
        """NMT_HOME of the worker."""
        return self.folder / "home"

    def environment(self, service: str) -> dict[str, str]:
        """Return the environment variables of a service, with our addresses in place of the containers'."""
        own = {name: self._here(value) for name, value in self._services[service]["environment"].items()}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # as the image has it
        places = {"PREFECT_HOME": str(self.folder / service), "XDG_DATA_HOME": str(self.folder / service)}
        return _environment() | own | places | {"PATH": path, "NMT_THREADS": "1"}

    def start(self, service: str, health: str = "") -> None:
        """Start the service's command. Return as soon as the health address answers, or the command has ended."""
        program, *arguments = (self._here(word) for word in self._services[service]["command"])
        self.run(service, [sys.executable, *_PROGRAMS[program], *arguments], health)

    def run(self, service: str, command: list[str], health: str = "") -> None:
        """Run any command with the environment of a service."""
        log = self.folder / f"{service}.log"
        with log.open("ab") as output:
            process = processes.start(command, self.environment(service), output)
        if not health:
            assert process.wait(patient(_SECONDS_TO_START)) == 0, log.read_text()
            return
        self.running[service] = process
        until(lambda: answers(self._here(health)) or process.poll() is not None, log.read_text, every=0.1)
        assert process.poll() is None, log.read_text()

    def start_proxy(self) -> None:
        """Start Caddy with the file of the compose file."""
        caddy = shutil.which("caddy")
        assert caddy, "Caddy is not installed: apt-get install caddy, as .ci/run does"
        hashed = subprocess.run(
            [caddy, "hash-password"],
            input=f"{self.values['NMT_PASSWORD']}\n",
            capture_output=True,
            text=True,
            check=True,
        )
        self.values["NMT_PASSWORD_HASH"] = hashed.stdout.strip()
        rules = (_COMPOSE.parent / "proxy" / "Caddyfile").read_text(encoding="utf-8")
        ports = f"http_port {self.ports['80']}\n\thttps_port {self.ports['443']}\n\tadmin off"
        rules = _ADDRESS.sub(lambda found: f"127.0.0.1:{self.ports[found[1]]}", rules).replace("admin off", ports)
        rules = rules.replace("{$NMT_DOMAIN} {", "{$NMT_DOMAIN} {\n\tbind 127.0.0.1")
        version = subprocess.run([caddy, "version"], capture_output=True, text=True, check=True).stdout
        if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < (2, 8):
            rules = rules.replace("basic_auth", "basicauth")
        file = self.folder / "Caddyfile"
        file.write_text(rules, encoding="utf-8")
        command = [caddy, "run", "--adapter", "caddyfile", "--config", str(file)]
        self.run("proxy", command, "http://127.0.0.1:8081/")

    def stop(self) -> None:
        """End everything, the last one first."""
        for process in reversed(self.running.values()):
            processes.end(process, _GRACE_SECONDS)
        self.postgres.stop()

    def prefect(self, path: str, body: Any = None) -> Any:
        """Send a request with the password to Prefect, which may be away for a moment."""
        api = self._here("http://prefect:4200/api")
        data = None if body is None else json.dumps(body).encode()
        own = headers(api, f"nmt:{self.values['NMT_PASSWORD']}")
        request = urllib.request.Request(f"{api}/{path}", data, own)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def answer() -> list[Any]:
            try:
                with opener.open(request, timeout=patient(30)) as response:
                    return [json.loads(response.read())]
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    raise
                return []

        return until(answer, f"no answer to {path}", every=1)[0]

    def retrain(self, config: dict[str, Any]) -> str:
        """Submit a retraining to the work pool, and return the id of its flow run."""
        deployment = self.prefect("deployments/name/retrain/quickstart")
        body = {"parameters": {"config": config}, "state": {"type": "SCHEDULED"}}
        return str(self.prefect(f"deployments/{deployment['id']}/create_flow_run", body)["id"])

    def ended(self, flow_run: str) -> dict[str, Any]:
        """Return the state in which a flow run has ended."""

        def end() -> dict[str, Any] | None:
            state: dict[str, Any] = self.prefect(f"flow_runs/{flow_run}")["state"]
            return state if state["type"] in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"} else None

        return until(end, (self.folder / "worker.log").read_text, _SECONDS_TO_END, every=0.5) or {}

    def here(self, address: str) -> str:
        """Return the address on this machine for an address of the compose file."""
        return self._here(address)

    def _here(self, value: str) -> str:
        value = _VARIABLE.sub(lambda found: self.values.get(found[1]) or (found[3] or ""), str(value))
        value = _ADDRESS.sub(lambda found: f"127.0.0.1:{self.ports[found[1]]}", value)
        alone = {"postgres": "127.0.0.1", "0.0.0.0": "127.0.0.1", "/var/lib/nmt": str(self.home)} | self.ports
        return alone.get(value, value)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Stack that is ready for a retraining. When idle it takes a tenth of a core, so it does not outlive its tests."""
    planted = ("NMT_PASSWORD", "NMT_POSTGRES_PASSWORD", "NMT_S3_SECRET", "HF_TOKEN", "NMT_NOTIFY")
    words = {name: f"planted{secrets.token_hex(12)}" for name in planted}
    words["NMT_NOTIFY"] = f"http://127.0.0.1:9/{words['NMT_NOTIFY']}"
    with contextlib.ExitStack() as held:
        ports = {port: str(held.enter_context(held_port())) for port in _PORTS}
        yield from _started(Stack(tmp_path_factory.mktemp("stack"), words, ports))


def _started(stack: Stack) -> Iterator[Stack]:
    database = Path(tempfile.mkdtemp(prefix="nmt-postgres-"))  # pytest's own folders are closed to other users
    stack.postgres = Postgres(database, int(stack.ports["5432"]), stack.values["NMT_POSTGRES_PASSWORD"])
    try:
        moto = [sys.executable, "-m", "moto.server", "-p", stack.ports["8333"]]
        stack.run("s3", moto, "http://s3:8333/moto-api/")
        stack.start("buckets")
        stack.postgres.create()
        stack.start("mlflow", "http://mlflow:5000/health")
        stack.start("prefect", "http://prefect:4200/api/ready")
        stack.start_proxy()
        stack.start("worker", "http://127.0.0.1:8080/health")
        stack.start("deployments")
        yield stack
    finally:
        stack.stop()
        shutil.rmtree(database)


@pytest.fixture(scope="module")
def small_recipe(recipe: list[str]) -> dict[str, Any]:
    """The smallest quickstart, under a name that occurs nowhere else."""
    changes = [word for word in recipe[1:] if word != "--set"]
    found = load_recipe(recipe[0], changes).model_dump(mode="json")
    return found | {"name": f"stack{secrets.token_hex(6)}"}
