"""Settings are read from environment variables, and wrong ones are refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flows.settings import EMBEDDED_PREFECT, RunningServers, Settings
from nmt_core.errors import ConfigError
from nmt_core.execution.cpus import usable_cpus
from nmt_core.execution.processes import this_process
from nmt_core.store.artifacts import Store
from nmt_core.store.shared import SharedStore


def test_the_defaults_stay_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.load({})
    assert settings.home == tmp_path / ".nmt"
    assert settings.mlflow_tracking_uri == f"sqlite:///{tmp_path}/.nmt/mlflow.db"
    assert settings.prefect_api_url == ""
    assert settings.threads == usable_cpus()
    assert not list(tmp_path.iterdir()), "reading the settings touches nothing"


def test_the_environment_decides() -> None:
    environment = {"NMT_HOME": "/data", "NMT_PROCESSES": "4", "NMT_THREADS": "8", "MLFLOW_TRACKING_URI": "http://m"}
    settings = Settings.load(environment | {"PREFECT_API_URL": "http://p/api/"})
    assert (settings.home, settings.processes, settings.resources.threads) == (Path("/data"), 4, 8)
    assert (settings.mlflow_tracking_uri, settings.prefect_api_url) == ("http://m", "http://p/api")


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        (None, ("0", "1", "2")),
        ("2, GPU-7d1c", ("2", "GPU-7d1c")),
        ("", ()),
        ("-1", ()),
    ],
)
def test_gpus_are_those_that_may_be_seen(
    visible: str | None, gpus: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.settings.values.DEVICES", tmp_path)
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert Settings.load(environment).gpus == (), "a machine that has none"
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    settings = Settings.load(environment)
    assert (settings.gpus, settings.processes) == (gpus, len(gpus) or 1)


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "²"])
def test_a_wrong_number_is_an_error_that_says_so(value: str) -> None:
    with pytest.raises(ConfigError, match=r"NMT_THREADS=.*whole number of at least 1"):
        Settings.load({"NMT_THREADS": value})


def test_the_servers_of_a_dead_nmt_up_are_not_used(tmp_path: Path) -> None:
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    assert settings.running() == RunningServers()
    addresses = {"prefect": "http://127.0.0.1:1/api", "mlflow": "http://127.0.0.1:2"}
    settings.servers_file.write_text(json.dumps({"process": this_process(), **addresses}))
    assert settings.running() == RunningServers(**addresses)
    dead = subprocess.run(
        [sys.executable, "-c", "from nmt_core.execution.processes import this_process; print(this_process())"],
        capture_output=True,
        text=True,
        check=True,
    )
    settings.servers_file.write_text(json.dumps({"process": dead.stdout.strip(), **addresses}))
    assert settings.running() == RunningServers()


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"prefect": "", "mlflow": ""}', '{"process": 1, "prefect": "a", "mlflow": "b"}', '{"process": "a b"}'],
)
def test_a_file_that_names_no_process_names_no_servers(text: str, tmp_path: Path) -> None:
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    settings.servers_file.write_text(text)
    assert settings.running() == RunningServers()


def test_a_process_that_has_the_number_of_a_dead_nmt_up_is_not_taken_for_it(tmp_path: Path) -> None:
    """After a reboot, or as the first process of a container, another program may have its id."""
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    host, number, start = this_process().split(" ")
    boot, _, ticks = start.partition("/")
    addresses = {"prefect": "http://127.0.0.1:1/api", "mlflow": "http://127.0.0.1:2"}
    left_over = f"{host} {number} {boot}/{int(ticks) - 1}"
    elsewhere = f"another-{host} {number} {start}"
    for process in (left_over, elsewhere):
        settings.servers_file.write_text(json.dumps({"process": process, **addresses}))
        assert settings.running() == RunningServers(), process


def test_prepare_keeps_what_the_user_has_set(tmp_path: Path) -> None:
    code = (
        "import os, sys; from flows.settings import Settings; Settings.load().prepare();"
        "print(os.environ['MLFLOW_HTTP_REQUEST_TIMEOUT'], os.environ['DO_NOT_TRACK'], os.environ['PREFECT_HOME'],"
        "os.environ['NO_PROXY'], {'prefect', 'mlflow', 'torch'} & sys.modules.keys())"
    )
    environment = {"NMT_HOME": str(tmp_path), "MLFLOW_HTTP_REQUEST_TIMEOUT": "77", "NO_PROXY": "example.org"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["77", "true", f"{tmp_path}/prefect", "example.org,127.0.0.1,localhost", "set()"]
    assert (tmp_path / "prefect").is_dir()


@pytest.mark.parametrize(
    "value",
    ["local", "dask", "ray", "dask://scheduler:8786", "tcp://10.0.0.1:8786", "tls://s:8786", "ray://head:10001"],
)
def test_the_environment_chooses_the_workers(value: str) -> None:
    assert Settings.load({"NMT_WORKERS": value}).workers == value
    assert Settings.load({"NMT_WORKERS": ""}).workers == "local"


@pytest.mark.parametrize(
    "value", ["spark", "dask://", "dask://host", "local://host:1", "http://host:8786", "dask:8786"]
)
def test_workers_of_an_unknown_kind_are_an_error_that_says_so(value: str) -> None:
    with pytest.raises(ConfigError, match=rf"NMT_WORKERS='{value}': must be local, dask, ray, or the address"):
        Settings.load({"NMT_WORKERS": value})


def test_training_stays_on_this_machine_unless_told_otherwise() -> None:
    settings = Settings.load({})
    assert (settings.launcher, settings.nodes, settings.node_processes) == ("local", "1", "gpu")
    assert settings.launch_template == ""


@pytest.mark.parametrize(("launcher", "nodes"), [("slurm", "4"), ("trainjob", "1:4"), ("pytorchjob", "2:2")])
def test_the_environment_chooses_the_cluster(launcher: str, nodes: str) -> None:
    environment = {"NMT_LAUNCHER": launcher, "NMT_NODES": nodes, "NMT_PROCESSES": "8", "NMT_LAUNCH_TEMPLATE": "my.yaml"}
    settings = Settings.load(environment)
    assert (settings.launcher, settings.nodes, settings.node_processes) == (launcher, nodes, "8")
    assert settings.launch_template == "my.yaml"


def test_an_unknown_launcher_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(ConfigError, match=r"NMT_LAUNCHER='lsf': must be local, slurm, trainjob or pytorchjob"):
        Settings.load({"NMT_LAUNCHER": "lsf"})


@pytest.mark.parametrize("value", ["0", "many", "4:2", "0:4", "1:2:3", "1:", "²"])
def test_a_wrong_number_of_nodes_is_an_error_that_says_so(value: str) -> None:
    with pytest.raises(ConfigError, match=rf"NMT_NODES='{value}': must be a number of nodes such as 4, or MIN:MAX"):
        Settings.load({"NMT_LAUNCHER": "slurm", "NMT_NODES": value})


def test_several_nodes_need_a_cluster() -> None:
    with pytest.raises(ConfigError, match=r"NMT_NODES='2': without a cluster there is only one node: .*NMT_LAUNCHER"):
        Settings.load({"NMT_NODES": "2"})


def test_the_address_of_mlflow_is_shown_without_its_password() -> None:
    settings = Settings.load({"MLFLOW_TRACKING_URI": "http://nmt:sesame@mlflow:5000"})
    assert settings.mlflow_shown == "http://nmt:***@mlflow:5000"


def test_the_shared_store_is_an_address(tmp_path: Path) -> None:
    assert type(Settings.load({}).store) is Store
    shared = Settings.load({"NMT_HOME": str(tmp_path), "NMT_STORE": "s3://bucket/nmt/"}).store
    assert isinstance(shared, SharedStore)
    assert (shared.root, shared.objects.url) == (tmp_path / "artifacts", "s3://bucket/nmt")
    with pytest.raises(ConfigError, match=r"NMT_STORE='/data': must be an address such as s3://bucket/nmt"):
        Settings.load({"NMT_STORE": "/data"})


def test_ports_of_the_servers_are_those_that_prefect_and_mlflow_call_theirs() -> None:
    usual, own = Settings.load({}), Settings.load({"PREFECT_SERVER_API_PORT": "4300", "MLFLOW_PORT": "5100"})
    assert (usual.prefect_port, usual.mlflow_port, own.prefect_port, own.mlflow_port) == (4_200, 5_000, 4_300, 5_100)
    with pytest.raises(ConfigError, match="MLFLOW_PORT='x': must be a whole number"):
        Settings.load({"MLFLOW_PORT": "x"})


def test_links_lead_to_where_browsers_find_the_pages(tmp_path: Path) -> None:
    home = {"NMT_HOME": str(tmp_path)}
    assert Settings.load(home).pages() == RunningServers(), "a database has no pages"
    inside = home | {
        "PREFECT_API_URL": "http://nmt:sesame@prefect:4200/api",
        "MLFLOW_TRACKING_URI": "http://proxy:5001/",
    }
    assert Settings.load(inside).pages() == RunningServers("http://nmt:***@prefect:4200", "http://proxy:5001")
    outside = {"NMT_PREFECT_PAGES": "https://prefect.example/", "NMT_MLFLOW_PAGES": "https://mlflow.example"}
    assert Settings.load(inside | outside).pages() == RunningServers(
        "https://prefect.example", "https://mlflow.example"
    )


def test_no_link_leads_to_the_server_that_a_run_has_started_for_itself(tmp_path: Path) -> None:
    api = "http://127.0.0.1:1/api"
    embedded = {"NMT_HOME": str(tmp_path), "PREFECT_API_URL": api, EMBEDDED_PREFECT: api}
    assert Settings.load(embedded).pages() == RunningServers()
    assert Settings.load(embedded | {"PREFECT_API_URL": "http://127.0.0.1:2/api"}).pages().prefect


def test_links_lead_to_a_running_nmt_up(tmp_path: Path) -> None:
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    addresses = {"prefect": "http://127.0.0.1:1/api", "mlflow": "http://127.0.0.1:2"}
    settings.servers_file.write_text(json.dumps({"process": this_process(), **addresses}))
    assert settings.pages() == RunningServers("http://127.0.0.1:1", "http://127.0.0.1:2")


def test_a_page_that_is_no_web_address_is_an_error_that_says_so() -> None:
    with pytest.raises(ConfigError, match="NMT_MLFLOW_PAGES='mlflow:5000': must be a web address such as https://"):
        Settings.load({"NMT_MLFLOW_PAGES": "mlflow:5000"})
