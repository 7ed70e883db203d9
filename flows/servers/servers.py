"""Servers that this package starts on 127.0.0.1. They end with the process that started them."""

import base64
import contextlib
import os
import shlex
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from filelock import FileLock

from flows.servers.secret import new_secret
from flows.settings import EMBEDDED_PREFECT, Settings
from nmt_core.errors import ConfigError, NmtError
from nmt_core.execution import processes

HOSTS = ("127.0.0.1", "localhost")
"""Address of the servers, and its name, which browsers may use as well."""

_HOST = HOSTS[0]
_UNAUTHORIZED = 401
_SECONDS_TO_ANSWER = 60  # for a server that listens but may be busy
_GRACE_SECONDS = 20
_GRACE_SECONDS_EMBEDDED = 3  # its database has the run's last state; it may wait for connections without end
_REGISTERING_BLOCKS = ("PREFECT_SERVER_REGISTER_BLOCKS_ON_START", "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION")
_GRACE_SECONDS_WHILE_STARTING = 1  # a server that creates its database reacts to nothing, and can be killed safely


class ServerError(NmtError):
    """A server does not start or does not answer."""


@contextlib.contextmanager
def held_port(preferred: int = 0) -> Iterator[int]:
    """Reserve a port of 127.0.0.1, so that the system gives it to no other program: the preferred one if it is free.

    Inside the block the port is bound, but nothing listens. On Linux a server can bind it anyway, and again after it
    has ended, because both sides set SO_REUSEADDR, as all servers of this package do. On other systems the port is
    released immediately.
    """
    with _bound(preferred) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port = int(held.getsockname()[1])
        if sys.platform != "linux":
            held.close()
        yield port


def _bound(preferred: int) -> socket.socket:
    # First without SO_REUSEADDR, which would also take a port that another process of this package holds. With it,
    # the port of a server that has just ended is free, although its connections linger for a minute.
    for port, reuse in ((preferred, 0), (preferred, 1), (0, 0)):
        bound = socket.socket()
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
            bound.bind((_HOST, port))
            return bound
        except OSError:
            bound.close()
    raise ServerError(f"{_HOST}: no free port: end programs that use many ports")


def answers(url: str, timeout: float = _SECONDS_TO_ANSWER) -> bool:
    """Return True if a health address reports success. If nothing listens there, this returns immediately."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=timeout) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


def lets_us_in(api: str) -> bool:
    """Return True if a Prefect API accepts the password in PREFECT_API_AUTH_STRING, or needs none."""
    password = base64.b64encode(os.environ.get("PREFECT_API_AUTH_STRING", "").encode()).decode()
    login = {"Authorization": f"Basic {password}"}
    request = urllib.request.Request(f"{api}/admin/version", headers=login)  # noqa: S310  an address from settings
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_SECONDS_TO_ANSWER).close()
    except urllib.error.HTTPError as error:
        return error.code != _UNAUTHORIZED
    except (OSError, ValueError):  # it has stopped answering, which the first real request reports
        return True
    return True


class Server:
    """Child process that ends with this process, with all of its own descendants.

    Args:
        name: Name for messages.
        command: Arguments of Python.
        log: File for the output.
        environment: Additional environment variables.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            # Ctrl-C must not reach the server, which still has to record how the run ended
            self._process = processes.start([sys.executable, *command], os.environ | dict(environment), output)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def ended(self) -> bool:
        """Return True if the process has ended."""
        return self._process.poll() is not None

    def wait_until(self, health_url: str, timeout: float = 120) -> None:
        """Return when the health address answers.

        Raises:
            ServerError: The process ended, or nothing answered in time.
        """
        deadline = time.monotonic() + timeout
        while not answers(health_url, timeout=2):
            if self.ended() or time.monotonic() > deadline:
                why = (
                    f"ended with code {self._process.returncode}" if self.ended() else f"no answer for {timeout:.0f} s"
                )
                raise ServerError(f"{self.name} did not start ({why}): see {self.log}")
            time.sleep(0.05)

    def stop(self, grace: float = _GRACE_SECONDS) -> None:
        """End the process and all that it has started. A training from the UI gets time to write a checkpoint."""
        processes.end(self._process, grace)


def origins(port: int) -> list[str]:
    """Return the origins of the pages of a server of this package."""
    return [f"http://{host}:{port}" for host in HOSTS]


def start_prefect(settings: Settings, port: int, secret: str, *, embedded: bool) -> Server:
    """Start a Prefect server that only clients with the secret can use. See `flows.servers.prefect_server`.

    An embedded server has no UI and no scheduler, because it serves a single run. It also registers no types of blocks,
    which only people and deployments use: that takes a quarter of its start, and imports Dask.
    """
    environment = {
        "PREFECT_SERVER_API_AUTH_STRING": secret,
        "PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED": "true",
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": ",".join(origins(port)),
        "PREFECT_SERVER_UI_API_URL": "/api",  # with a host, the UI would not work under the other name
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
        "PYTHONSAFEPATH": "1",
    }
    if embedded:
        environment |= {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
        environment |= dict.fromkeys(_REGISTERING_BLOCKS, "false")
    else:
        environment["PREFECT_API_URL"] = f"http://{_HOST}:{port}/api"
        # Otherwise the logs of deleted runs stay, because `nmt clean-history` can delete only the runs
        environment["PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED"] = "events,orphans"
    command = ["-m", "flows.servers.prefect_server", "--port", str(port)]
    return Server("the Prefect server", command, settings.home / "logs" / "prefect.log", environment)


def start_mlflow(settings: Settings, port: int) -> Server:
    """Start an MLflow server on the database and files that runs write to directly."""
    command = ["-m", "mlflow", "server", "--host", _HOST, "--port", str(port), "--workers", "1"]
    # By default uvicorn imports from the working folder first, where a folder `mlflow` would hide MLflow
    command += ["--uvicorn-opts", f"--app-dir {shlex.quote(str(Path(__file__).parents[2]))}"]
    command += ["--no-serve-artifacts", "--default-artifact-root", settings.model_files.as_uri()]
    # Not as an argument: `ps` shows arguments to all users of the machine, and the address may hold a password
    environment = dict.fromkeys(("MLFLOW_TRACKING_URI", "MLFLOW_BACKEND_STORE_URI"), settings.mlflow_tracking_uri)
    environment["PYTHONSAFEPATH"] = "1"
    return Server("the MLflow server", command, settings.home / "logs" / "mlflow.log", environment)


def worker_arguments(pool: str) -> list[str]:
    """Return the arguments of `prefect worker start` for a worker that runs flows as processes."""
    return ["--pool", pool, "--type", "process", "--no-create-pool-if-not-found"]


def worker_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a worker and its flow runs: `python` is this interpreter, and the home is the same."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {"PATH": path, "NMT_HOME": str(settings.home)}


def start_worker(settings: Settings, pool: str) -> Server:
    """Start a worker for a work pool."""
    log = settings.home / "logs" / f"worker-{pool}.log"
    environment = worker_environment(settings) | {"PREFECT_WORKER_QUERY_SECONDS": "2"}  # the server is on this machine
    command = ["-m", "flows.servers.isolated", "prefect", "worker", "start", *worker_arguments(pool)]
    return Server(f"the worker of {pool}", command, log, environment)


def use_prefect(url: str, secret: str) -> None:
    """Make Prefect use this server. Prefect reads both variables on import."""
    os.environ["PREFECT_API_URL"] = url
    os.environ["PREFECT_API_AUTH_STRING"] = secret


def use_known_prefect(settings: Settings) -> str:
    """Make Prefect use the server in the settings, or the server of a running `nmt up` with its secret.

    Returns:
        Address of its API, or an empty text if neither is known.

    Raises:
        ConfigError: `nmt up` is running, and its secret cannot be read.
    """
    running = settings.running().prefect
    url = settings.prefect_api_url or running
    if url and url.replace("//localhost:", f"//{_HOST}:") == running:
        try:
            secret = settings.secret_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(
                f"{settings.secret_file}: the password of the running `nmt up` cannot be read ({error.strerror}): it "
                "belongs to the user who started it: use another NMT_HOME, or ask this user to end it"
            ) from None
        use_prefect(url, secret)
    elif url:
        os.environ["PREFECT_API_URL"] = url
    return url


def require_prefect(url: str, remedy: str) -> None:
    """Check that Prefect answers and accepts the password.

    Raises:
        ConfigError: Prefect does not answer, or denies access.
    """
    if not answers(f"{url}/health"):
        raise ConfigError(f"Prefect does not answer at {url}: {remedy}")
    if not lets_us_in(url):
        raise ConfigError(
            f"Prefect at {url} denies access: set PREFECT_API_AUTH_STRING to its user:password (`nmt up` stores it in "
            "the file prefect/secret of its NMT_HOME)"
        )


class PrefectApi:
    """Prefect API of a run: from the settings, from `nmt up`, or of an embedded server."""

    def __init__(self, settings: Settings) -> None:
        self._url = ""
        self._embedded: Server | None = None
        self._grace: float = _GRACE_SECONDS_WHILE_STARTING
        self._settings = settings

    @contextlib.contextmanager
    def connected(self) -> Iterator["PrefectApi"]:
        """Set PREFECT_API_URL, which Prefect reads on import. Import it inside this block, then call `wait`."""
        self._url = use_known_prefect(self._settings)
        # Two servers that create the same database at once would conflict
        with contextlib.ExitStack() as stack:
            if not self._url:
                port, secret = stack.enter_context(held_port()), new_secret()
                self._url = f"http://{_HOST}:{port}/api"
                use_prefect(self._url, secret)
                os.environ[EMBEDDED_PREFECT] = self._url
                self._starting = stack.enter_context(contextlib.ExitStack())
                self._starting.enter_context(FileLock(self._settings.home / "prefect" / "starting.lock"))
                self._embedded = start_prefect(self._settings, port, secret, embedded=True)
                stack.callback(self._stop)
            yield self

    def wait(self) -> None:
        """Return when the API answers.

        Raises:
            NmtError: The API does not answer.
        """
        if self._embedded:
            self._embedded.wait_until(f"{self._url}/health")
            self._grace = _GRACE_SECONDS_EMBEDDED
            self._starting.close()
        else:
            require_prefect(self._url, "start it, or unset PREFECT_API_URL to use an embedded one")

    def _stop(self) -> None:
        """Stop the embedded server after Prefect's background threads have sent what they still hold."""
        assert self._embedded is not None
        if "prefect.flows" in sys.modules and not self._embedded.ended():
            from prefect.events.worker import EventsWorker
            from prefect.logging.handlers import APILogWorker

            EventsWorker.drain_all(timeout=5)
            APILogWorker.drain_all(timeout=5)
        self._embedded.stop(self._grace)
