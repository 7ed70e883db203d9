"""Objects for Kubernetes follow the published schemas, as models that Kubeflow generates from its definitions.

An object that passes through the models unchanged has no field that they do not know, and no value of a wrong type. A
strict API server demands no more.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from flows.cli.manifest import show_manifest
from flows.launchers import cluster_launcher
from flows.launchers.cluster_job import cluster_job
from flows.settings import Settings
from nmt_core.errors import ConfigError
from nmt_core.recipes.recipe import load_recipe

FOLDER = Path("/shared/nmt/artifacts/train/0123456789abcdef0123.partial")
KINDS = ("trainjob", "pytorchjob")


def through_the_schema(manifest: dict[str, Any]) -> Any:
    """Return the manifest as the models of its kind read it."""
    if manifest["kind"] == "TrainJob":
        from kubeflow_trainer_api.models import TrainerV1alpha1TrainJob

        train_job = TrainerV1alpha1TrainJob.from_dict(manifest)
        assert train_job
        return json.loads(train_job.to_json())
    from kubeflow.training import ApiClient

    client = ApiClient()
    answer = SimpleNamespace(data=json.dumps(manifest))
    return client.sanitize_for_serialization(client.deserialize(answer, "KubeflowOrgV1PyTorchJob"))


def is_valid(manifest: dict[str, Any]) -> bool:
    try:
        return bool(through_the_schema(manifest) == manifest)
    except ValueError:
        return False


def manifest_for(launcher: str, **environment: str) -> dict[str, Any]:
    settings = Settings.load({"NMT_LAUNCHER": launcher, **environment})
    manifest: dict[str, Any] = yaml.safe_load(cluster_launcher(settings, "multi30k-en-de").manifest(FOLDER))
    return manifest


@pytest.mark.parametrize("nodes", ["1", "4", "1:4"])
@pytest.mark.parametrize("launcher", KINDS)
def test_it_is_valid(launcher: str, nodes: str) -> None:
    assert is_valid(manifest_for(launcher, NMT_NODES=nodes, NMT_PROCESSES="8"))


def _set(manifest: dict[str, Any], path: str, value: Any) -> None:
    *steps, last = path.split(".")
    for step in steps:
        manifest = manifest[int(step)] if isinstance(manifest, list) else manifest[step]
    manifest[last] = value


@pytest.mark.parametrize(
    ("launcher", "path", "value"),
    [
        ("trainjob", "spec.trainer.numNodes", "four"),
        ("trainjob", "spec.trainer.nodes", 4),
        ("trainjob", "spec.trainer.args", "--nnodes 4"),
        ("trainjob", "spec.runtimeRef", {}),
        ("trainjob", "spec.runtimePatches.0.trainingRuntimeSpec.template.spec.replicas", 1),
        ("pytorchjob", "spec.elasticPolicy.minReplicas", "one"),
        ("pytorchjob", "spec.elasticPolicy.minNodes", 1),
        ("pytorchjob", "spec.pytorchReplicaSpecs.Worker.replica", 4),
        ("pytorchjob", "spec.pytorchReplicaSpecs.Worker.template.spec.containers.0.arg", []),
        ("pytorchjob", "spec.pytorchReplicaSpecs.Worker.template.spec.terminationGracePeriod", 90),
    ],
)
def test_the_schema_would_find_a_mistake(launcher: str, path: str, value: Any) -> None:
    manifest = manifest_for(launcher)
    _set(manifest, path, value)
    assert not is_valid(manifest)


@pytest.mark.parametrize(
    ("launcher", "host"), [("trainjob", "{name}-node-0-0.{name}"), ("pytorchjob", "{name}-worker-0")]
)
def test_each_node_runs_torchrun_and_meets_at_the_first_pod(launcher: str, host: str) -> None:
    manifest = manifest_for(launcher, NMT_NODES="1:4")
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    if launcher == "trainjob":
        container, nodes = spec["trainer"], spec["trainer"]["numNodes"]
    else:
        worker = spec["pytorchReplicaSpecs"]["Worker"]
        container, nodes = worker["template"]["spec"]["containers"][0], worker["replicas"]
        assert (spec["elasticPolicy"]["minReplicas"], spec["elasticPolicy"]["maxReplicas"]) == (1, 4)
    assert nodes == 4
    assert container["command"] == ["python"]
    assert container["args"] == [
        *("-m", "nmt_core.train.node", "--nnodes", "1:4", "--nproc-per-node", "gpu", "--max-restarts", "100"),
        *("--rdzv-id", name, "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{host.format(name=name)}:29500"),
        *("-m", "nmt_core.train", "--config", f"{FOLDER}/config.json"),
    ]
    assert {"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "1"} in container["env"]
    assert manifest["metadata"]["annotations"] == {"nmt-pipeline/folder": str(FOLDER)}


@pytest.mark.parametrize("recipe", ["multi30k-en-de", "Größe 5_µ!", "", "-", "x" * 100])
@pytest.mark.parametrize("folder", [FOLDER, Path("/tmp/-"), Path("/")])
def test_a_name_is_a_label_of_dns_and_leaves_room(recipe: str, folder: Path) -> None:
    name = cluster_job(Settings.load({}), recipe, folder).name
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name) and len(name) <= 40


def test_a_name_is_the_same_for_the_same_training_alone() -> None:
    settings = Settings.load({})
    name = cluster_job(settings, "toy", FOLDER).name
    assert name == cluster_job(settings, "toy", FOLDER).name
    assert name.startswith("nmt-toy-01234567-")
    others = [FOLDER.with_name("0123456799.partial"), Path("/other") / FOLDER.relative_to("/")]
    assert name not in {cluster_job(settings, "toy", other).name for other in others}


@pytest.fixture
def own_template(tmp_path: Path) -> Callable[[Callable[[Any], object]], str]:
    """A copy of the template for a TrainJob, with a change."""

    def make(change: Callable[[Any], object]) -> str:
        template = yaml.safe_load(Path("infra/k8s/trainjob.yaml").read_text())
        change(template)
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(template))
        return str(tmp_path / "mine.yaml")

    return make


def test_what_the_users_template_sets_goes_before(own_template: Callable[..., str]) -> None:
    mine = own_template(
        lambda it: it["spec"]["trainer"].update(
            command=["/opt/python"], env=[{"name": "PYTHONUNBUFFERED", "value": "0"}]
        )
    )
    trainer = manifest_for("trainjob", NMT_LAUNCH_TEMPLATE=mine)["spec"]["trainer"]
    assert trainer["command"] == ["/opt/python"]
    assert [each["value"] for each in trainer["env"] if each["name"] == "PYTHONUNBUFFERED"] == ["0"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda it: it["spec"].pop("trainer"), r"spec\.trainer must be a mapping"),
        (lambda it: it.update(kind="PyTorchJob"), r"kind is 'PyTorchJob', but NMT_LAUNCHER needs TrainJob"),
        (
            lambda it: it.update(apiVersion="v1"),
            r"apiVersion is 'v1', but .* needs trainer\.kubeflow\.org/v1alpha1",
        ),
        (lambda it: it.update(metadata=None), r"metadata must be a mapping"),
    ],
)
def test_a_template_of_another_shape_is_an_error(
    own_template: Callable[..., str], change: Callable[[Any], object], message: str
) -> None:
    with pytest.raises(ConfigError, match=rf"template .*mine\.yaml: {message}"):
        manifest_for("trainjob", NMT_LAUNCH_TEMPLATE=own_template(change))


def test_a_template_that_is_no_yaml_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("{")
    with pytest.raises(ConfigError, match=r"mine\.yaml: cannot be read .*: correct it"):
        manifest_for("pytorchjob", NMT_LAUNCH_TEMPLATE=str(tmp_path / "mine.yaml"))


def test_infra_shows_the_templates_that_are_used() -> None:
    shown = {path.name: path.read_bytes() for path in Path("infra").glob("*/*") if path.suffix in {".yaml", ".sbatch"}}
    used = {path.name: path.read_bytes() for path in Path("flows/launchers/templates").iterdir()}
    assert shown == used and len(used) == 3


def test_the_command_shows_what_would_be_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NMT_HOME", str(tmp_path))
    config = load_recipe("quickstart")
    show_manifest(config, "pytorchjob")
    assert is_valid(yaml.safe_load(capsys.readouterr().out))
    monkeypatch.setenv("NMT_LAUNCHER", "slurm")
    show_manifest(config)
    assert capsys.readouterr().out.startswith("# sbatch --parsable --job-name=nmt-quickstart-")
    assert not list(tmp_path.iterdir())


def test_there_is_nothing_to_show_for_this_machine() -> None:
    with pytest.raises(ConfigError, match=r"launcher local submits nothing: choose slurm, trainjob, pytorchjob"):
        show_manifest(load_recipe("quickstart"), "local")
