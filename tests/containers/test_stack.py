"""infra/compose.yaml in containers: a retraining through all services, what is reachable from where, and what survives.

PostgreSQL and Caddy are Debian's. moto's server replaces SeaweedFS and accepts every key. The rest is as in the compose
file.
"""

import base64
import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support import containers
from support.compose import Project
from support.small import SMALL
from support.until import until

from flows.servers.servers import held_port
from nmt_core.recipes.recipe import load_recipe

pytestmark = [pytest.mark.containers, pytest.mark.timeout(6_000), pytest.mark.cpu(1_000)]
SERVICES = ("postgres", "s3", "buckets", "mlflow", "prefect", "proxy", "worker", "deployments")
LASTING = tuple(service for service in SERVICES if service not in ("buckets", "deployments"))


def hashed(password: str) -> str:
    """Return the hash of a password as Caddy wants it."""
    image = containers.build_stand_in("proxy")
    done = containers.run(
        "podman", "run", "--rm", "--interactive", image, "caddy", "hash-password", input=f"{password}\n"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    """Everything up and healthy."""
    values = {name: secrets.token_hex(12) for name in ("NMT_PASSWORD", "NMT_POSTGRES_PASSWORD", "NMT_S3_SECRET")}
    values |= {"NMT_PASSWORD_HASH": hashed(values["NMT_PASSWORD"]), "NMT_DOMAIN": "localhost"}
    with held_port() as http, held_port() as https:
        ports = {"80": http, "443": https}
    made = Project(values, ports)
    try:
        made.create()
        made.up(*SERVICES)
        yield made
    finally:
        made.remove()


def recipe(updates: int) -> dict[str, Any]:
    """Return the smallest quickstart, under a name that occurs nowhere else."""
    changes = [f"{key}={value}" for key, value in SMALL.items()]
    config = load_recipe("quickstart", changes).model_dump(mode="json")
    train = config["train"] | {"max_updates": updates, "validate_every": updates // 4, "checkpoint_every": updates // 4}
    return config | {"name": f"stack{secrets.token_hex(4)}", "train": train}


@pytest.fixture(scope="module")
def trained(project: Project) -> str:
    """Name of a model that a retraining through all services has registered."""
    config = recipe(updates=40)
    state = project.ended(project.retrain(config))
    assert state["type"] == "COMPLETED", (state, project.log("worker"))
    return str(config["name"])


def client(project: Project, **others: str) -> dict[str, str]:
    """Return what a machine outside needs: an address, a login, and the certificate of the proxy's authority."""
    login = {"MLFLOW_TRACKING_USERNAME": "nmt", "MLFLOW_TRACKING_PASSWORD": project.values["NMT_PASSWORD"]}
    files = {"NMT_HOME": "/tmp/nmt", "REQUESTS_CA_BUNDLE": "/authority.crt", "HOME": "/tmp"}
    return login | files | {"MLFLOW_TRACKING_URI": "https://mlflow.localhost"} | others


def translated(project: Project, name: str, **others: str) -> "subprocess.CompletedProcess[str]":
    command = ["nmt", "translate", "--model", f"models:/{name}@champion"]
    return project.outside(command, client(project, **others), "I am a student.\n")


def test_a_model_is_pulled_through_the_proxy_and_translates(project: Project, trained: str) -> None:
    done = translated(project, trained)
    assert done.returncode == 0 and done.stdout.count("\n") == 1, done.stderr


def test_a_client_of_mlflow_without_our_settings_gets_it_too(project: Project, trained: str) -> None:
    """The server offers files at the address of S3, which this client cannot reach. The proxy removes that offer."""
    code = f"import mlflow; print(mlflow.artifacts.download_artifacts('models:/{trained}@champion', dst_path='/tmp'))"
    done = project.outside(["python", "-c", code], client(project))
    assert done.returncode == 0, done.stderr


def test_a_wrong_password_is_refused_with_a_word(project: Project, trained: str) -> None:
    done = translated(project, trained, MLFLOW_TRACKING_PASSWORD="wrong")
    assert done.returncode != 0 and "401" in done.stderr, done.stderr


def test_the_pages_of_both_servers_are_shown_with_the_password(project: Project) -> None:
    statuses = {}
    for page in ("prefect", "mlflow"):
        for password in ("wrong", project.values["NMT_PASSWORD"]):
            login = base64.b64encode(f"nmt:{password}".encode()).decode()
            code = (
                "import ssl, sys, urllib.error, urllib.request as u\n"
                "own = {'Authorization': 'Basic ' + sys.argv[1]}\n"
                f"request = u.Request('https://{page}.localhost/', headers=own)\n"
                "try: answer = u.urlopen(request, context=ssl.create_default_context(cafile='/authority.crt'))\n"
                "except urllib.error.HTTPError as error: answer = error\n"
                "print(answer.status, b'<html' in answer.read().lower())"
            )
            statuses[page, password == "wrong"] = project.outside(["python", "-c", code, login], {}).stdout.split()
    assert statuses == {
        ("prefect", True): ["401", "False"],
        ("prefect", False): ["200", "True"],
        ("mlflow", True): ["401", "False"],
        ("mlflow", False): ["200", "True"],
    }


def test_nothing_but_the_proxy_is_reached_from_outside(project: Project) -> None:
    """Addresses of every container in every network, tried from a machine that has only the outer network."""
    ports = (80, 443, 4200, 5000, 5001, 5432, 8080, 8081, 8333)
    places = {}
    for service in LASTING:
        networks = json.loads(containers.podman("inspect", project.full(service)))[0]["NetworkSettings"]["Networks"]
        places |= {network["IPAddress"]: service for network in networks.values()}
    code = (
        "import json, socket, sys\n"
        "found = []\n"
        f"for place, service in {places!r}.items():\n"
        f"    for port in {ports!r}:\n"
        "        with socket.socket() as s:\n"
        "            s.settimeout(1)\n"
        "            if s.connect_ex((place, port)) == 0: found.append([service, port])\n"
        "print(json.dumps(found))"
    )
    done = project.outside(["python", "-c", code], {})
    assert {tuple(one) for one in json.loads(done.stdout)} == {("proxy", 80), ("proxy", 443), ("proxy", 5001)}


def test_a_run_survives_the_death_of_each_server(project: Project) -> None:
    config = recipe(updates=400)
    flow_run = project.retrain(config)
    until(lambda: trains(project), lambda: project.log("worker"), every=2)
    for service in ("proxy", "mlflow", "s3", "prefect", "postgres"):
        kill(project, service)
    state = project.ended(flow_run)
    assert state["type"] == "COMPLETED", (state, project.log("worker"))
    assert translated(project, str(config["name"])).returncode == 0


def kill(project: Project, service: str) -> None:
    """Kill the process of a container, and wait until the engine has started it again."""
    before = project.state(service)["Pid"]
    os.kill(before, signal.SIGKILL)
    until(lambda: project.state(service)["Pid"] not in (0, before), f"{service} is not started again", every=1)
    project.wait(service)


def trains(project: Project) -> bool:
    """Return True while updates are made."""
    look = "ls /var/lib/nmt/artifacts/train/*.partial/metrics.jsonl"
    return project.execute("worker", "sh", "-c", look).returncode == 0


def test_all_down_and_all_up_loses_nothing(project: Project, trained: str) -> None:
    containers.podman("stop", *[project.full(service) for service in reversed(LASTING)])
    assert {project.state(service)["ExitCode"] for service in ("worker", "prefect", "mlflow")} <= {0, 143}, "not killed"
    project.up(*LASTING)
    assert translated(project, trained).returncode == 0


def test_volumes_are_restored_elsewhere(
    project: Project, trained: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Back up as the page on backups describes: the volumes of PostgreSQL and S3, while both are stopped."""
    folder = tmp_path_factory.mktemp("backup")
    kept = ("postgres", "s3")
    containers.podman("stop", *[project.full(service) for service in reversed(LASTING)])
    for volume in kept:
        containers.podman("volume", "export", "--output", str(folder / f"{volume}.tar"), project.full(volume))
    other = Project(project.values, project.ports)
    try:
        other.create()
        for volume in kept:
            containers.podman("volume", "import", other.full(volume), str(folder / f"{volume}.tar"))
        other.up(*LASTING)
        assert translated(other, trained).returncode == 0
    finally:
        other.remove()
        project.up(*LASTING)
