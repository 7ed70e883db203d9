"""Manifests for Kubernetes: the user's template with name, nodes and command filled in.

A kind of job is the custom resource of an operator: Kubeflow Trainer's TrainJob, or the older training operator's
PyTorchJob. Both derive the names of pods from the job, so the address of the first pod is known in advance.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flows.launchers.cluster_job import ClusterJob, training_environment
from nmt_core.errors import ConfigError, words_of

Manifest = dict[str, Any]

FOLDER = "nmt-pipeline/folder"
"""Annotation with the folder that a job belongs to."""
_PORT = 29_500
_PYTHON = "python"
"""Python of the image. It stands for the template's `command`, which our arguments follow."""


@dataclass(frozen=True)
class JobKind:
    """Custom resource that trains."""

    kind: str
    group: str
    version: str
    plural: str
    first_host: str
    """Name of its first pod in the cluster's DNS, with {name} for the name of the job."""
    pods: str
    """Label selector of its pods, with {name} for the name of the job."""
    container: str
    """Name of the training container in each pod."""
    is_good: Mapping[str, bool]
    """Conditions that end the job, each with True for success."""
    suspend: tuple[str, ...]
    """Path to the value by which the job is suspended."""
    fill: Callable[["Template", ClusterJob, list[str]], None]
    """Function that fills nodes and arguments into the template."""

    def is_suspended(self, job: Manifest) -> bool:
        """Return True if a queue, such as Kueue, or a person keeps the job from running."""
        value: Any = job
        for key in self.suspend:
            value = (value or {}).get(key)
        return value is True


class Template:
    """Manifest without the values that only the launcher knows."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self.manifest = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ConfigError(f"template {file}: cannot be read ({words_of(error, most=1_000)}): correct it") from None

    def section(self, *path: str) -> Manifest:
        """Return a mapping by its path of keys. In a list, a key selects the item of that name.

        Raises:
            ConfigError: The template has no such mapping.
        """
        place = self.manifest
        for key in path:
            if isinstance(place, list):
                place = next((item for item in place if isinstance(item, dict) and item.get("name") == key), None)
            else:
                place = place.get(key) if isinstance(place, dict) else None
        if not isinstance(place, dict):
            raise ConfigError(
                f"template {self._file}: {'.'.join(path) or 'the file'} must be a mapping: start from a fresh copy of "
                "the one in infra/k8s"
            )
        return place

    def set_environment(self, container: Manifest) -> None:
        """Add the environment variables of training. Values in the template take precedence."""
        added = [{"name": name, "value": value} for name, value in training_environment().items()]
        existing = container.get("env") or []
        named = {entry.get("name") for entry in existing}
        container["env"] = [*existing, *(entry for entry in added if entry["name"] not in named)]


def _fill_train_job(template: Template, job: ClusterJob, arguments: list[str]) -> None:
    trainer = template.section("spec", "trainer")
    trainer["numNodes"] = job.most_nodes
    trainer["args"] = arguments
    template.set_environment(trainer)


def _fill_pytorch_job(template: Template, job: ClusterJob, arguments: list[str]) -> None:
    workers = template.section("spec", "pytorchReplicaSpecs", "Worker")
    workers["replicas"] = job.most_nodes
    template.section("spec", "elasticPolicy").update(minReplicas=job.least_nodes, maxReplicas=job.most_nodes)
    container = template.section("spec", "pytorchReplicaSpecs", "Worker", "template", "spec", "containers", "pytorch")
    container["args"] = arguments
    template.set_environment(container)


KINDS = {
    "trainjob": JobKind(
        kind="TrainJob",
        group="trainer.kubeflow.org",
        version="v1alpha1",
        plural="trainjobs",
        first_host="{name}-node-0-0.{name}",
        pods="jobset.sigs.k8s.io/jobset-name={name}",
        container="node",
        is_good={"Complete": True, "Failed": False},
        suspend=("spec", "suspend"),
        fill=_fill_train_job,
    ),
    "pytorchjob": JobKind(
        kind="PyTorchJob",
        group="kubeflow.org",
        version="v1",
        plural="pytorchjobs",
        first_host="{name}-worker-0",
        pods="training.kubeflow.org/job-name={name}",
        container="pytorch",
        is_good={"Succeeded": True, "Failed": False},
        suspend=("spec", "runPolicy", "suspend"),
        fill=_fill_pytorch_job,
    ),
}
"""Kinds of jobs by the value of `NMT_LAUNCHER`."""


def manifest_of(kind: JobKind, job: ClusterJob, file: Path) -> Manifest:
    """Return the complete manifest of a job, from a template file.

    Raises:
        ConfigError: The file is not a template for this kind.
    """
    template = Template(file)
    whole = template.section()
    for key, value in (("apiVersion", f"{kind.group}/{kind.version}"), ("kind", kind.kind)):
        if whole.get(key) != value:
            raise ConfigError(
                f"template {file}: {key} is {whole.get(key)!r}, but NMT_LAUNCHER needs {value}: correct it"
            )
    metadata = template.section("metadata")
    metadata["name"] = job.name
    metadata["annotations"] = (metadata.get("annotations") or {}) | {FOLDER: str(job.folder)}
    endpoint = f"{kind.first_host.format(name=job.name)}:{_PORT}"
    kind.fill(template, job, job.command(endpoint, _PYTHON)[1:])
    return whole
