"""Settings of this machine: its folders and servers. They are never part of a recipe or a fingerprint.

NMT_HOME             folder of all local state: artifacts, runs, databases (default: .nmt)
NMT_PROCESSES        training processes on each node (default: one per GPU; on this machine one if it has no GPU)
NMT_THREADS          CPU threads of all processes together (default: all CPUs that this process may use, at most the
                     quota of its container)
NMT_WORKERS          workers of the data stages: local (default: NMT_THREADS processes), dask or ray (a cluster on this
                     machine), or the address of a cluster: dask://, tcp://, tls:// or ray://host:port
NMT_SCRATCH          folder or fsspec address for temporary files of a stage, which all workers can reach (default:
                     beside the artifacts)
NMT_STORE            address of an object store, such as s3://bucket/nmt, in which machines share their artifacts
                     (default: none; artifacts stay in NMT_HOME)
NMT_STRICT_VERSIONS  1: do not reuse artifacts that other versions of Python or a library have made (default: reuse
                     them; `nmt why` shows the versions)
NMT_LAUNCHER         launcher of training: local (default: this machine), slurm, or on Kubernetes trainjob or pytorchjob
NMT_NODES            nodes to train on: a number, or MIN:MAX for training that continues with fewer (default: 1)
NMT_LAUNCH_TEMPLATE  file with the job options that your cluster needs (default: the package's file for NMT_LAUNCHER)
NMT_ALLOW_CODE       1: recipes may name code to run, `clean.scores[].command`, `evaluate.metrics[].command`, programs
                     and services of `evaluate.systems`, `search.judge.command`, and module:function; 0: they may not
                     (default: 1 for recipes of the command line, 0 for runs that a Prefect server starts)
NMT_GPU_HOUR_PRICE   price of a GPU hour, for the cost of a run (default: none, and no cost is shown)
NMT_CPU_HOUR_PRICE   price of an hour of a busy CPU core (default: none, and no cost is shown)
NMT_CURRENCY         currency of both prices (default: EUR)
NMT_NOTIFY           recipient of notifications about failed runs, which `nmt deploy` sets up in Prefect: the web
                     address of a webhook, or the type and name of a block of the server, as in slack-webhook/team or
                     sendgrid-email/team (default: none)
NMT_PREFECT_PAGES, NMT_MLFLOW_PAGES
                     addresses of the pages of both servers in a browser, for links (default: PREFECT_API_URL without
                     /api, and MLFLOW_TRACKING_URI)
NMT_SERVE_TOKEN      secret that `nmt serve` asks requests for (default: none, which is refused where other machines can
                     reach the service)
PREFECT_API_URL      address of a Prefect server (default: the server of a running `nmt up`, or an embedded one)
PREFECT_API_AUTH_STRING
                     user:password of that server if it needs them (default: for a server of `nmt up`, its own)
MLFLOW_TRACKING_URI  address of an MLflow server or database (default: SQLite in NMT_HOME)
PREFECT_SERVER_API_PORT, MLFLOW_PORT
                     preferred ports of the servers of `nmt up` (default: 4200 and 5000)
NETRC                file with a name and a password for each site that needs them (default: ~/.netrc)

This module imports neither Prefect nor MLflow: it sets the environment variables that both read on import.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flows.settings import relocation
from flows.settings import values as values
from nmt_core.errors import without_password
from nmt_core.execution.cpus import usable_cpus
from nmt_core.execution.processes import is_here
from nmt_core.stages.stage import Resources
from nmt_core.store.artifacts import Store
from nmt_core.store.digests import remember_in
from nmt_core.store.shared import Objects, SharedStore

_ENVIRONMENT = {
    "DO_NOT_TRACK": "true",  # MLflow accepts only "true"
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_UI_V2_ENABLED": "false",  # the second UI calls an analytics host in spite of the settings
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # A call is retried after 2, 4, 8, ... 128 s, so it survives four minutes without the API. The default survives one
    # minute: then log lines are lost, and a stage that ends meanwhile fails because its report cannot be shown.
    "PREFECT_CLIENT_MAX_RETRIES": "7",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # job execution takes 13 processes and 3.5 GB
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # a dead server must not delay a run: the default waits for minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    # MLflow offers addresses of its S3 store, which often the server alone can reach: clients would wait for
    # minutes without a message. All files go through the server unless these are set to true.
    "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "false",
    "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "false",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",
    "PYTHONSAFEPATH": "1",  # for child processes: a folder `flows` in the working folder must not hide this package
}

SQLITE = "sqlite:///"
"""Beginning of the address of a database that is a file."""

_HASHES = "hashes.db"  # hashes of large files, so that no process hashes an unchanged file again

ALLOW_CODE = "NMT_ALLOW_CODE"

EMBEDDED_PREFECT = "NMT_EMBEDDED_PREFECT"
"""Address of the Prefect API of a server that a run has started for itself. It has no pages, and ends with the run."""


@dataclass(frozen=True)
class Prices:
    """Prices of an hour."""

    gpu_hour: float = 0.0
    cpu_hour: float = 0.0
    """Price of an hour of a busy CPU core."""
    currency: str = "EUR"


@dataclass(frozen=True)
class RunningServers:
    """Addresses of the two servers of a running `nmt up`. They are empty if there is none."""

    prefect: str = ""
    mlflow: str = ""

    def flow_run(self, flow_run_id: str) -> str:
        """Return the address of the page of a Prefect run, or "" if no server shows it."""
        return f"{self.prefect}/runs/flow-run/{flow_run_id}" if self.prefect and flow_run_id else ""


@dataclass(frozen=True)
class Settings:
    """Settings of this machine, from the environment."""

    home: Path
    prefect_api_url: str
    mlflow_tracking_uri: str
    prefect_pages: str
    """Address of Prefect's pages, if it differs from the address of the API. See `pages`."""
    mlflow_pages: str
    prefect_port: int
    """Preferred port of Prefect's server in `nmt up`."""
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
    """Training processes on each node of a cluster. "gpu" means one per GPU of the node."""
    launch_template: str
    prices: Prices
    allow_code: bool = False
    """True if a recipe may name code to run."""
    embedded_prefect: str = ""
    """See `EMBEDDED_PREFECT`, which a run sets for its own processes."""

    @classmethod
    def load(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Read the environment.

        Raises:
            ConfigError: A number or a price is invalid, or the workers or the launcher are of an unknown kind.
        """
        home = Path(environment.get("NMT_HOME") or ".nmt").absolute()
        remember_in(home / _HASHES)
        return cls(
            home=home,
            prefect_api_url=environment.get("PREFECT_API_URL", "").rstrip("/"),
            mlflow_tracking_uri=environment.get("MLFLOW_TRACKING_URI", "") or f"{SQLITE}{home / 'mlflow.db'}",
            prefect_pages=values.pages(environment, "NMT_PREFECT_PAGES"),
            mlflow_pages=values.pages(environment, "NMT_MLFLOW_PAGES"),
            prefect_port=values.count(environment, "PREFECT_SERVER_API_PORT") or 4_200,
            mlflow_port=values.count(environment, "MLFLOW_PORT") or 5_000,
            gpus=values.gpus(environment),
            processes=values.count(environment, "NMT_PROCESSES") or len(values.gpus(environment)) or 1,
            threads=values.count(environment, "NMT_THREADS") or usable_cpus(),
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
            embedded_prefect=environment.get(EMBEDDED_PREFECT, ""),
        )

    @property
    def store(self) -> Store:
        """Store of all artifacts."""
        folder = self.home / "artifacts"
        return SharedStore(folder, Objects(self.shared_store)) if self.shared_store else Store(folder)

    @property
    def own_database(self) -> Path:
        """MLflow's database if nothing else is set."""
        return self.home / "mlflow.db"

    @property
    def registry(self) -> str:
        """Registry as runs record it: `home` if it is in the home, which may move, otherwise its address."""
        return "home" if self.mlflow_tracking_uri == f"{SQLITE}{self.own_database}" else self.mlflow_shown

    @property
    def mlflow_shown(self) -> str:
        """Address of MLflow without a password, for messages and logs."""
        return without_password(self.mlflow_tracking_uri)

    def pages(self) -> RunningServers:
        """Return the addresses of both servers' pages without passwords, empty where no server shows them."""
        running = self.running()
        api, mlflow = self.prefect_api_url or running.prefect, self.mlflow_shown
        if api == self.embedded_prefect:
            api = ""
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
        """Folder of MLflow's files, if its database is in the home."""
        return self.home / "mlflow"

    @property
    def servers_file(self) -> Path:
        """File with the addresses of a running `nmt up`."""
        return self.home / "servers.json"

    @property
    def resources(self) -> Resources:
        """Resources of this machine for a stage."""
        return Resources(threads=self.threads, scratch=self.scratch, cache=str(self.home / "systems"))

    @property
    def secret_file(self) -> Path:
        """File with the user:password of the Prefect server of `nmt up`, which only this user can read."""
        return self.home / "prefect" / "secret"

    def running(self) -> RunningServers:
        """Return the servers of a live `nmt up` on the same home and machine."""
        try:
            recorded = json.loads(self.servers_file.read_text(encoding="utf-8"))
            servers = RunningServers(prefect=recorded["prefect"], mlflow=recorded["mlflow"])
            return servers if is_here(recorded["process"]) else RunningServers()
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # missing, or not written by this package
            return RunningServers()

    def prepare(self, *, debug: bool = False) -> None:
        """Create the home and set the environment of Prefect and MLflow. Call it before either is imported.

        If the home was moved or copied, MLflow's database is corrected, and a line reports it. Variables that the user
        has set are not changed.
        """
        (self.home / "prefect").mkdir(parents=True, exist_ok=True)  # Prefect's database needs this folder
        relocation.follow(self.home, self.own_database)
        console = "DEBUG" if debug else "CRITICAL"  # its lines still reach the Prefect UI
        machine = {
            "PREFECT_HOME": str(self.home / "prefect"),
            "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": console,
            "PREFECT_INTERNAL_LOGGING_LEVEL": "ERROR" if debug else "CRITICAL",  # errors of threads that retry
            "MLFLOW_TRACKING_URI": self.mlflow_tracking_uri,
        }
        for name, value in (_ENVIRONMENT | machine).items():
            os.environ[name] = os.environ.get(name) or value
        for name in ("NO_PROXY", "no_proxy"):  # a proxy cannot reach servers on this machine
            hosts = [host for host in os.environ.get(name, "").split(",") if host]
            os.environ[name] = ",".join(dict.fromkeys([*hosts, "127.0.0.1", "localhost"]))


def allow_code_of_its_owner() -> None:
    """Allow the recipe of a command to run the code that it names, unless NMT_ALLOW_CODE forbids it."""
    os.environ[ALLOW_CODE] = os.environ.get(ALLOW_CODE) or "1"


def lacks_database(uri: str) -> bool:
    """Return True if an address names a database file that does not exist. MLflow would create an empty one."""
    return uri.startswith(SQLITE) and not Path(uri.removeprefix(SQLITE)).is_file()
