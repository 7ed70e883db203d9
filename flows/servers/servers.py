"""Servers that we start ourselves, all on 127.0.0.1, and end again: none outlives the process that started it."""

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
from flows.settings import Settings
from nmt_core.errors import ConfigError, NmtError
from nmt_core.execution import processes

HOSTS = ("127.0.0.1", "localhost")
"""Where our servers are: their address, and its name, by which browsers may ask for them as well."""

_HOST = HOSTS[0]
_UNAUTHORIZED = 401
_SECONDS_TO_ANSWER = 60  # of a server that listens, and may be busy
_GRACE_SECONDS = 20
_GRACE_SECONDS_EMBEDDED = 3  # the run's last state is in its database by then; it may wait for connections for ever
_GRACE_SECONDS_WHILE_STARTING = 1  # a server that makes its database hears nothing, and can be ended at any moment


class ServerError(NmtError):
    """A server does not start or does not answer."""


@contextlib.contextmanager
def held_port(preferred: int = 0) -> Iterator[int]:
    """Hold a port of 127.0.0.1, so that the system gives it to no other program: the preferred one if it is free.

    Inside the block the port is bound, but nobody listens. On Linux a server may bind it all the same, and again after
    its end, because both sides say SO_REUSEADDR; all servers that we start do so. Elsewhere the port is let go at once.
    """
    with _bound(preferred) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port = int(held.getsockname()[1])
        if sys.platform != "linux":
            held.close()
        yield port


def _bound(preferred: int) -> socket.socket:
    # At first without SO_REUSEADDR, which would also take a port that another of us holds. With it we also get the port
    # of a server that has just ended: for a minute there are remains of its connections.
    for port, reuse in ((preferred, 0), (preferred, 1), (0, 0)):
        found = socket.socket()
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
            found.bind((_HOST, port))
            return found
        except OSError:
            found.close()
    raise ServerError(f"no free port on {_HOST}")


def answers(url: str, timeout: float = _SECONDS_TO_ANSWER) -> bool:
    """Whether a health address says that all is well; where nobody listens, that is known at once."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=timeout) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


def lets_us_in(api: str) -> bool:
    """Whether an API of Prefect takes the password in PREFECT_API_AUTH_STRING, or asks for none."""
    password = base64.b64encode(os.environ.get("PREFECT_API_AUTH_STRING", "").encode()).decode()
    login = {"Authorization": f"Basic {password}"}
    request = urllib.request.Request(f"{api}/admin/version", headers=login)  # noqa: S310  an address from settings
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_SECONDS_TO_ANSWER).close()
    except urllib.error.HTTPError as error:
        return error.code != _UNAUTHORIZED
    except (OSError, ValueError):  # it has stopped answering, which the first real question will say
        return True
    return True


class Server:
    """A child process that ends with us, with its own descendants, whatever becomes of us."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            # Ctrl-C is for us alone: a server must still hear how the run ended
            self._process = processes.start([sys.executable, *command], os.environ | dict(environment), output)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def ended(self) -> bool:
        """Whether the process has gone."""
        return self._process.poll() is not None

    def wait_until(self, health_url: str, timeout: float = 120) -> None:
        """Return as soon as the health address answers.

        Raises:
            ServerError: the process ended, or nothing answered in time.
        """
        deadline = time.monotonic() + timeout
        while not answers(health_url, timeout=2):
            if self.ended() or time.monotonic() > deadline:
                why = f"ended with code {self._process.returncode}" if self.ended() else f"silent for {timeout:.0f} s"
                raise ServerError(f"{self.name} did not start ({why}): see {self.log}")
            time.sleep(0.05)

    def stop(self, grace: float = _GRACE_SECONDS) -> None:
        """End the process and all that it has started. A training from the UI gets time to write a checkpoint."""
        processes.end(self._process, grace)


def origins(port: int) -> list[str]:
    """Return the origins that pages of a server of ours have."""
    return [f"http://{host}:{port}" for host in HOSTS]


def start_prefect(settings: Settings, port: int, secret: str, *, embedded: bool) -> Server:
    """Start a Prefect server that only clients with the secret may ask; see `flows.servers.prefect_server`.

    An embedded one has no UI and no scheduler: it serves a single run.
    """
    environment = {
        "PREFECT_SERVER_API_AUTH_STRING": secret,
        "PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED": "true",
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": ",".join(origins(port)),
        "PREFECT_SERVER_UI_API_URL": "/api",  # with a host in it, the UI would not work under the other name
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
        "PYTHONSAFEPATH": "1",
    }
    if embedded:
        environment |= {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    else:
        environment["PREFECT_API_URL"] = f"http://{_HOST}:{port}/api"
    command = ["-m", "flows.servers.prefect_server", "--port", str(port)]
    return Server("the Prefect server", command, settings.home / "logs" / "prefect.log", environment)


def start_mlflow(settings: Settings, port: int) -> Server:
    """Start an MLflow server on the same database and files that runs write to directly."""
    command = ["-m", "mlflow", "server", "--host", _HOST, "--port", str(port), "--workers", "1"]
    # By itself uvicorn imports from the working folder first, where a folder called `mlflow` would hide MLflow
    command += ["--uvicorn-opts", f"--app-dir {shlex.quote(str(Path(__file__).parents[2]))}"]
    command += ["--no-serve-artifacts", "--default-artifact-root", settings.model_files.as_uri()]
    # Not as an argument: `ps` shows those to everybody on the machine, and the address may hold a password
    environment = dict.fromkeys(("MLFLOW_TRACKING_URI", "MLFLOW_BACKEND_STORE_URI"), settings.mlflow_tracking_uri)
    environment["PYTHONSAFEPATH"] = "1"
    return Server("the MLflow server", command, settings.home / "logs" / "mlflow.log", environment)


def worker_arguments(pool: str) -> list[str]:
    """Arguments of `prefect worker start` for a worker that runs flows as processes."""
    return ["--pool", pool, "--type", "process", "--no-create-pool-if-not-found"]


def worker_environment(settings: Settings) -> dict[str, str]:
    """What a worker and its flow runs want to find: `python` is then ours, and the home the same for all of them."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {"PATH": path, "NMT_HOME": str(settings.home)}


def start_worker(settings: Settings, pool: str) -> Server:
    """Start a worker for a work pool."""
    log = settings.home / "logs" / f"worker-{pool}.log"
    environment = worker_environment(settings) | {"PREFECT_WORKER_QUERY_SECONDS": "2"}  # the server is our own
    command = ["-m", "flows.servers.isolated", "prefect", "worker", "start", *worker_arguments(pool)]
    return Server(f"the worker of {pool}", command, log, environment)


def use_prefect(url: str, secret: str) -> None:
    """Have Prefect ask this server. It reads both when it is imported."""
    os.environ["PREFECT_API_URL"] = url
    os.environ["PREFECT_API_AUTH_STRING"] = secret


def use_known_prefect(settings: Settings) -> str:
    """Have Prefect ask the server in the settings, or the one of a running `nmt up`, with its secret.

    Returns:
        The address of its API; empty: neither is known.

    Raises:
        ConfigError: `nmt up` runs, and its secret is not for us.
    """
    running = settings.running().prefect
    url = settings.prefect_api_url or running
    if url and url.replace("//localhost:", f"//{_HOST}:") == running:
        try:
            secret = settings.secret_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(
                f"{settings.secret_file}: the password of the running `nmt up` cannot be read ({error.strerror}): only "
                "the user who has started it may use it; take another NMT_HOME, or have it ended"
            ) from None
        use_prefect(url, secret)
    elif url:
        os.environ["PREFECT_API_URL"] = url
    return url


def require_prefect(url: str, remedy: str) -> None:
    """Check that Prefect answers, and lets us in.

    Raises:
        ConfigError: it does not.
    """
    if not answers(f"{url}/health"):
        raise ConfigError(f"Prefect does not answer at {url}: {remedy}")
    if not lets_us_in(url):
        raise ConfigError(
            f"Prefect at {url} does not let us in: set PREFECT_API_AUTH_STRING to its user:password; "
            "`nmt up` keeps it in the file prefect/secret of its NMT_HOME"
        )


class PrefectApi:
    """The Prefect API that a run reports to: the one in the settings, that of `nmt up`, or an embedded one."""

    def __init__(self, settings: Settings) -> None:
        self._url = ""
        self._embedded: Server | None = None
        self._grace: float = _GRACE_SECONDS_WHILE_STARTING
        self._settings = settings

    @contextlib.contextmanager
    def connected(self) -> Iterator["PrefectApi"]:
        """Set PREFECT_API_URL, which Prefect reads when it is imported: import it inside this block, then `wait`."""
        self._url = use_known_prefect(self._settings)
        # Two servers that make the same database at once would stumble over each other
        with contextlib.ExitStack() as stack:
            if not self._url:
                port, secret = stack.enter_context(held_port()), new_secret()
                self._url = f"http://{_HOST}:{port}/api"
                use_prefect(self._url, secret)
                self._starting = stack.enter_context(contextlib.ExitStack())
                self._starting.enter_context(FileLock(self._settings.home / "prefect" / "starting.lock"))
                self._embedded = start_prefect(self._settings, port, secret, embedded=True)
                stack.callback(self._stop)
            yield self

    def wait(self) -> None:
        """Return when the API answers.

        Raises:
            NmtError: it does not.
        """
        if self._embedded:
            self._embedded.wait_until(f"{self._url}/health")
            self._grace = _GRACE_SECONDS_EMBEDDED
            self._starting.close()
        else:
            require_prefect(self._url, "start it, or unset PREFECT_API_URL to use an embedded one")

    def _stop(self) -> None:
        """End the embedded server, but let Prefect's background threads hand over what they still hold."""
        assert self._embedded is not None
        if "prefect.flows" in sys.modules and not self._embedded.ended():
            from prefect.events.worker import EventsWorker
            from prefect.logging.handlers import APILogWorker

            EventsWorker.drain_all(timeout=5)
            APILogWorker.drain_all(timeout=5)
        self._embedded.stop(self._grace)
