"""Job of a cluster, the same for all kinds: its name, folder, nodes, and the command of each node.

Options that depend on the cluster (account, partition, image, volumes, time limit) are in a template. The package has
one for each kind, which the user may copy and edit.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from flows.settings import Settings
from nmt_core.errors import ConfigError
from nmt_core.execution.torchrun import TRAINING_ENVIRONMENT, Rendezvous, torchrun_command

_DEFAULTS = {"slurm": "train.sbatch", "trainjob": "trainjob.yaml", "pytorchjob": "pytorchjob.yaml"}
_LONGEST_RECIPE = 20
"""Maximum length of the recipe in a job's name.

The whole name stays below 40 characters, because clusters append theirs and allow 63.
"""


@dataclass(frozen=True)
class ClusterJob:
    """Training job."""

    name: str
    """DNS label that is always the same for the same training, so that a running job is found again."""
    folder: Path
    """Absolute path of the job's folder, which all nodes share."""
    nodes: str
    """Number of nodes: "4", or "1:4" for training that continues with fewer."""
    processes: str
    """Training processes on each node: a number, or "gpu" for one per GPU."""

    @property
    def least_nodes(self) -> int:
        """Minimum number of nodes."""
        return int(self.nodes.partition(":")[0])

    @property
    def most_nodes(self) -> int:
        """Maximum number of nodes."""
        return int(self.nodes.rpartition(":")[2])

    def command(self, endpoint: str, python: str) -> list[str]:
        """Return the command of each node. `endpoint` is host:port of the first node."""
        rendezvous = Rendezvous(self.nodes, self.processes, endpoint, self.name)
        return torchrun_command(self.folder, rendezvous, python, "nmt_core.train.node")


def cluster_job(settings: Settings, recipe: str, folder: Path) -> ClusterJob:
    """Return the job that trains in `folder`, the partial artifact of a recipe's `train` stage."""
    place = folder.resolve()
    words = (_label(recipe)[:_LONGEST_RECIPE].strip("-"), _label(place.name)[:8].strip("-"))
    # The folder is part of the name, so that the same recipe in another home is another job.
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:6]
    name = "-".join(["nmt", *filter(None, words), digest])
    return ClusterJob(name, place, settings.nodes, settings.node_processes)


def training_environment() -> dict[str, str]:
    """Return the environment variables of training processes. Values that the user has set take precedence."""
    return {name: os.environ.get(name, value) for name, value in TRAINING_ENVIRONMENT.items()}


def look_anew(folder: Path) -> None:
    """Make the file system list a folder again: NFS caches for up to a minute that a file does not exist."""
    os.listdir(folder)  # noqa: PTH208  # opening the folder is the purpose


def template_of(settings: Settings) -> Path:
    """Return the user's template, or the package's template for the kind of cluster.

    Raises:
        ConfigError: The user's template cannot be read.
    """
    if not settings.launch_template:
        return Path(str(resources.files("flows.launchers") / "templates" / _DEFAULTS[settings.launcher]))
    template = Path(settings.launch_template).absolute()
    if not template.is_file():
        raise ConfigError(f"NMT_LAUNCH_TEMPLATE={settings.launch_template}: no such file: correct the path")
    return template


def _label(text: str) -> str:
    """Return a text as a part of a DNS label: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
