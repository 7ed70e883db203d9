"""The images of infra/Dockerfile, built on Debian and run as intended: by an unprivileged user, and read-only."""

import json
import secrets
from collections.abc import Iterator

import pytest
from support import containers
from support.small import SMALL
from support.until import until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3_000), pytest.mark.cpu(300)]
MODEL = "models:/quickstart@champion"
CLOSED = ["--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--network", "none"]


def nmt(image: str, home: str, *command: str, data: str = "") -> str:
    """Run a command in a container that has a home and no network."""
    options = ["--rm", "--init", "--interactive", *CLOSED, "--volume", f"{home}:/var/lib/nmt"]
    return containers.podman("run", *options, image, "nmt", *command, input=data, timeout=2_500)


@pytest.fixture(scope="module")
def trained(cpu: str, home: str) -> str:
    """Home in which the image has run the smallest quickstart."""
    nmt(cpu, home, "run", "quickstart", *(word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")))
    return home


def test_the_quickstart_runs_and_its_model_translates(cpu: str, trained: str) -> None:
    assert nmt(cpu, trained, "translate", "--model", MODEL, data="I am a student.\nthe cat .\n").count("\n") == 1


def test_a_stranger_can_change_nothing(cpu: str) -> None:
    tries = "id -u; touch /opt/nmt/x || touch /etc/x || touch /home/nmt/x || echo refused; touch /tmp/x && echo written"
    assert containers.podman("run", "--rm", *CLOSED, cpu, "sh", "-c", tries).split() == ["1000", "refused", "written"]


@pytest.mark.parametrize(("target", "most"), [("cpu", 1_700), ("serve", 420)])
def test_an_image_is_no_larger_than_stated(target: str, most: int) -> None:
    size = json.loads(containers.podman("image", "inspect", containers.build(target)))[0]["Size"]
    assert size < most * 1_000_000, f"{size:,} bytes"


def test_a_change_of_the_sources_is_one_small_layer(cpu: str) -> None:
    layers = json.loads(containers.podman("history", "--format", "json", cpu))
    assert layers[0]["size"] < 20_000_000 < 500_000_000 < max(layer["size"] for layer in layers)


def test_the_threads_follow_the_quota(cpu: str) -> None:
    code = "from flows.settings import Settings; print(Settings.load({}).threads)"
    counts = [
        containers.podman("run", "--rm", *CLOSED, *quota, cpu, "python", "-c", code)
        for quota in (("--cpus", "0.5"), ("--cpus", "1.0"), ("--cpuset-cpus", "0"))
    ]
    assert counts == ["1", "1", "1"]
    own = containers.podman("run", "--rm", *CLOSED, cpu, "python", "-c", "import os; print(os.cpu_count())")
    assert containers.podman("run", "--rm", *CLOSED, cpu, "python", "-c", code) == own, "all, where there is no quota"


@pytest.mark.parametrize("target", ["cpu", "serve"])
def test_the_bill_of_materials_states_licences_that_allow_this(target: str) -> None:
    file = containers.podman("run", "--rm", *CLOSED, containers.build(target), "cat", "/opt/nmt/sbom.cdx.json")
    components = json.loads(file)["components"]
    python = {part["name"]: part for part in components if part["purl"].startswith("pkg:pypi/")}
    assert len(python) > 40 and any(part["purl"].startswith("pkg:deb/") for part in components)
    assert ("torch" in python) is (target == "cpu")
    licences = {name: part["licenses"][0]["license"]["name"] for name, part in python.items() if "licenses" in part}
    assert not {name: text for name, text in licences.items() if "GPL" in text.replace("LGPL", "")}
    assert len(licences) > 0.9 * len(python), sorted(python.keys() - licences.keys())


@pytest.fixture
def served(serve: str, trained: str) -> Iterator[str]:
    """A container that serves the registered model, without an init process."""
    name = f"nmt-serve-{secrets.token_hex(4)}"
    find = ["find", "/home-of-all/mlflow", "-name", "MLmodel"]
    mounted = ["--volume", f"{trained}:/home-of-all:ro"]
    model = containers.podman("run", "--rm", *CLOSED, *mounted, serve, *find).removesuffix("/MLmodel")
    options = [*CLOSED, *mounted, "--env", f"__pyfunc_model_path__={model}", "--cpus", "1"]
    containers.podman("run", "--detach", "--name", name, *options, serve)
    yield name
    containers.run("podman", "rm", "--force", "--time", "0", name)


def test_a_model_is_served_without_torch(served: str) -> None:
    check = json.loads(containers.podman("inspect", served))[0]["Config"]["Healthcheck"]["Test"]
    until(
        lambda: containers.run("podman", "exec", served, *check[1:]).returncode == 0,
        lambda: containers.run("podman", "logs", served).stderr,
        every=1,
    )
    ask = (
        "import json, urllib.request as u; body = json.dumps({'inputs': ['I am a student.', 'the cat .']}).encode();"
        "request = u.Request('http://127.0.0.1:5001/invocations', body, {'Content-Type': 'application/json'});"
        "print(json.dumps(json.load(u.urlopen(request))))"
    )
    assert len(json.loads(containers.podman("exec", served, "python", "-c", ask))["predictions"]) == 2
    gone = (
        "import importlib.util as i; print([n for n in ('torch', 'prefect', 'polars', 'nmt_core') if i.find_spec(n)])"
    )
    assert containers.podman("exec", served, "python", "-c", gone) == "[]"
    containers.podman("stop", "--time", "60", served)
    assert json.loads(containers.podman("inspect", served))[0]["State"]["ExitCode"] == 0, "SIGTERM, not SIGKILL"
