"""Settings of this machine: where things live and which servers to use. Never part of a recipe or a fingerprint.

NMT_HOME             folder of all local state: artifacts, runs, databases (default: .nmt)
NMT_PROCESSES        training processes, on each node of a cluster (default: one per GPU; on this machine, or one)
NMT_THREADS          CPU threads for all of them together (default: all CPUs that we may use)
NMT_WORKERS          who does the shards of the data stages: local (default: NMT_THREADS processes), dask or ray (the
                     same on a cluster of this machine), or a cluster's address: dask://, tcp://, tls://, ray://host:port
NMT_SCRATCH          folder or fsspec address for files between the steps of a stage, which all workers reach (default:
                     beside the artifacts)
NMT_STORE            address of a store of objects, such as s3://bucket/nmt, in which machines share their artifacts
                     (default: none; they stay in NMT_HOME)
NMT_STRICT_VERSIONS  1: artifacts that other versions of Python or a library have made are not reused (default: they
                     are, and `nmt why` names the versions)
NMT_LAUNCHER         where training runs: local (default: this machine), slurm, or on Kubernetes trainjob or pytorchjob
NMT_NODES            nodes to train on: a number, or MIN:MAX for training that goes on with fewer (default: 1)
NMT_LAUNCH_TEMPLATE  file with what your cluster wants of a job (default: that of the package for NMT_LAUNCHER)
NMT_ALLOW_CODE       1: recipes may name code to run, `clean.scores[].command` and module:function; 0: they may not
                     (default: 1 for recipes of the command line, 0 for runs that a Prefect server hands out)
NMT_GPU_HOUR_PRICE   price of an hour of a GPU, for the cost of a run (default: none is told)
NMT_CPU_HOUR_PRICE   price of an hour of a busy CPU core (default: as above)
NMT_CURRENCY         currency of both (default: EUR)
NMT_NOTIFY           whom `nmt deploy` has Prefect tell about runs that fail: the web address of a webhook, or the type
                     and name of a block of the server, as in slack-webhook/team or sendgrid-email/team (default:
                     nobody)
NMT_PREFECT_PAGES, NMT_MLFLOW_PAGES
                     where browsers find the pages of both servers, for links to them (default: PREFECT_API_URL without
                     /api, and MLFLOW_TRACKING_URI)
PREFECT_API_URL      a Prefect server (default: that of a running `nmt up`, or an embedded one)
PREFECT_API_AUTH_STRING
                     user:password of that server, if it asks for them; ours do, and are found without it
MLFLOW_TRACKING_URI  an MLflow server or database (default: SQLite in NMT_HOME)
PREFECT_SERVER_API_PORT, MLFLOW_PORT
                     ports of the servers of `nmt up`, if they are free (default: 4200 and 5000)
NETRC                file with a name and a password for each site that asks for them (default: ~/.netrc)

This module imports neither Prefect nor MLflow: it sets the environment that both read when they are imported.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flows.settings import relocation
from flows.settings import values as values
from nmt_core.errors import without_password
from nmt_core.execution.processes import is_here
from nmt_core.stages.stage import Resources
from nmt_core.store.artifacts import Store
from nmt_core.store.digests import remember_in
from nmt_core.store.shared import Objects, SharedStore

_ENVIRONMENT = {
    "DO_NOT_TRACK": "true",  # MLflow takes "true" and no other spelling
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_UI_V2_ENABLED": "false",  # the second UI calls an analytics host, whatever the settings say
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # A call is tried again after 2, 4, 8, ... 128 s, so it outwaits four minutes without the API. By default it is one:
    # then lines of the log are lost, and a stage that ends meanwhile fails, as its report cannot be shown.
    "PREFECT_CLIENT_MAX_RETRIES": "7",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # otherwise 13 processes and 3.5 GB
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # a dead server must not hold up a run: the default waits for minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",
    "PYTHONSAFEPATH": "1",  # of processes that we start: a folder here that is called `flows` must not hide ours
}

_HASHES = "hashes.db"  # of large files, so that no process hashes again what has not changed

ALLOW_CODE = "NMT_ALLOW_CODE"


@dataclass(frozen=True)
class Prices:
    """What an hour costs."""

    gpu_hour: float = 0.0
    cpu_hour: float = 0.0
    """Of one processor core that is busy."""
    currency: str = "EUR"


@dataclass(frozen=True)
class RunningServers:
    """Addresses of the two servers, such as a running `nmt up` has written down; empty if there is none."""

    prefect: str = ""
    mlflow: str = ""


@dataclass(frozen=True)
class Settings:
    """What the environment says about this machine."""

    home: Path
    prefect_api_url: str
    mlflow_tracking_uri: str
    prefect_pages: str
    """Where browsers find Prefect's pages, if its API is asked at an address of its own; see `pages`."""
    mlflow_pages: str
    prefect_port: int
    """Which port `nmt up` takes if it is free; the next likewise."""
    mlflow_port: int
    gpus: tuple[str, ...]
    """GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    processes: int
    threads: int
    workers: str
    scratch: str
    shared_store: str
    launcher: str
    nodes: str
    node_processes: str
    """Training processes on each node of a cluster; "gpu" is one per GPU there, whatever this machine has."""
    launch_template: str
    prices: Prices
    allow_code: bool = False
    """Whether a recipe may name code to run."""

    @classmethod
    def load(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Read the environment.

        Raises:
            ConfigError: a number or a price is not one, or the workers or the launcher are of no known kind.
        """
        home = Path(environment.get("NMT_HOME") or ".nmt").absolute()
        remember_in(home / _HASHES)
        return cls(
            home=home,
            prefect_api_url=environment.get("PREFECT_API_URL", "").rstrip("/"),
            mlflow_tracking_uri=environment.get("MLFLOW_TRACKING_URI", "") or f"sqlite:///{home / 'mlflow.db'}",
            prefect_pages=values.pages(environment, "NMT_PREFECT_PAGES"),
            mlflow_pages=values.pages(environment, "NMT_MLFLOW_PAGES"),
            prefect_port=values.count(environment, "PREFECT_SERVER_API_PORT") or 4_200,
            mlflow_port=values.count(environment, "MLFLOW_PORT") or 5_000,
            gpus=values.gpus(environment),
            processes=values.count(environment, "NMT_PROCESSES") or len(values.gpus(environment)) or 1,
            threads=values.count(environment, "NMT_THREADS") or values.cpus(),
            workers=values.workers(environment),
            scratch=environment.get("NMT_SCRATCH", ""),
            shared_store=values.shared_store(environment),
            launcher=values.launcher(environment),
            nodes=values.nodes(environment),
            node_processes=str(values.count(environment, "NMT_PROCESSES") or "gpu"),
            launch_template=environment.get("NMT_LAUNCH_TEMPLATE", ""),
            prices=Prices(
                values.price(environment, "NMT_GPU_HOUR_PRICE"),
                values.price(environment, "NMT_CPU_HOUR_PRICE"),
                environment.get("NMT_CURRENCY", "") or "EUR",
            ),
            allow_code=values.switch(environment, ALLOW_CODE),
        )

    @property
    def store(self) -> Store:
        """All artifacts."""
        folder = self.home / "artifacts"
        return SharedStore(folder, Objects(self.shared_store)) if self.shared_store else Store(folder)

    @property
    def own_database(self) -> Path:
        """MLflow's database if nothing else is set."""
        return self.home / "mlflow.db"

    @property
    def registry(self) -> str:
        """The registry as runs write it down: `home` if it is in the home, which may move, else an address."""
        return "home" if self.mlflow_tracking_uri == f"sqlite:///{self.own_database}" else self.mlflow_shown

    @property
    def mlflow_shown(self) -> str:
        """The address of MLflow as it may be shown and logged: without a password."""
        return without_password(self.mlflow_tracking_uri)

    def pages(self) -> RunningServers:
        """Where people find the pages of both servers, without passwords; empty: no server shows them."""
        running = self.running()
        api, mlflow = self.prefect_api_url or running.prefect, self.mlflow_shown
        return RunningServers(
            prefect=self.prefect_pages or without_password(api.removesuffix("/api")),
            mlflow=self.mlflow_pages or (mlflow.rstrip("/") if mlflow.startswith("http") else running.mlflow),
        )

    @property
    def runs(self) -> Path:
        """Folder of the runs' summaries."""
        return self.home / "runs"

    @property
    def model_files(self) -> Path:
        """Where MLflow keeps files, if its database is ours."""
        return self.home / "mlflow"

    @property
    def servers_file(self) -> Path:
        """Where a running `nmt up` writes down its addresses."""
        return self.home / "servers.json"

    @property
    def resources(self) -> Resources:
        """What this machine gives to a stage."""
        return Resources(threads=self.threads, scratch=self.scratch)

    @property
    def secret_file(self) -> Path:
        """Where `nmt up` keeps the password of its Prefect server: user:password, which only this user can read."""
        return self.home / "prefect" / "secret"

    def running(self) -> RunningServers:
        """The servers of a live `nmt up` on the same home and machine."""
        try:
            found = json.loads(self.servers_file.read_text(encoding="utf-8"))
            servers = RunningServers(prefect=found["prefect"], mlflow=found["mlflow"])
            return servers if is_here(found["process"]) else RunningServers()
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there, or not by us
            return RunningServers()

    def prepare(self, *, debug: bool = False) -> None:
        """Make the home and set the environment of Prefect and MLflow. Call it before either is imported.

        If the home was moved or copied, MLflow's database is corrected, and a line says so.

        What the user has set himself stays.
        """
        (self.home / "prefect").mkdir(parents=True, exist_ok=True)  # Prefect's database cannot be opened without it
        relocation.follow(self.home, self.own_database)
        console = "DEBUG" if debug else "CRITICAL"  # its lines still reach the Prefect UI
        machine = {
            "PREFECT_HOME": str(self.home / "prefect"),
            "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": console,
            "PREFECT_INTERNAL_LOGGING_LEVEL": "ERROR" if debug else "CRITICAL",  # of threads that will try again
            "MLFLOW_TRACKING_URI": self.mlflow_tracking_uri,
        }
        for name, value in (_ENVIRONMENT | machine).items():
            os.environ[name] = os.environ.get(name) or value
        for name in ("NO_PROXY", "no_proxy"):  # a proxy cannot reach our own servers
            hosts = [host for host in os.environ.get(name, "").split(",") if host]
            os.environ[name] = ",".join(dict.fromkeys([*hosts, "127.0.0.1", "localhost"]))


def allow_code_of_its_owner() -> None:
    """Let the recipe of a command run the code that it names, unless NMT_ALLOW_CODE says otherwise."""
    os.environ[ALLOW_CODE] = os.environ.get(ALLOW_CODE) or "1"
