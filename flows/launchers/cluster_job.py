"""What is asked of a cluster, the same for all kinds: name, folder, nodes, and what each node runs.

What we cannot know of a cluster (account, partition, image, volumes, time limit) stands in a template, which comes with
the package and which the user may copy and edit.
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
"""Of a job's name; the whole stays below 40 characters, since clusters append theirs and allow 63."""


@dataclass(frozen=True)
class ClusterJob:
    """One training job."""

    name: str
    """A DNS label, and the same for the same training: by it a job is found again that runs already."""
    folder: Path
    """Absolute path of the job's folder, which all nodes share."""
    nodes: str
    """How many: "4", or "1:4" for training that goes on with fewer."""
    processes: str
    """Training processes on each: a number, or "gpu" for one per GPU."""

    @property
    def least_nodes(self) -> int:
        """With how many nodes the job goes on."""
        return int(self.nodes.partition(":")[0])

    @property
    def most_nodes(self) -> int:
        """How many nodes the job would like."""
        return int(self.nodes.rpartition(":")[2])

    def command(self, endpoint: str, python: str) -> list[str]:
        """What each node runs; `endpoint` is host:port of its first node."""
        return torchrun_command(self.folder, Rendezvous(self.nodes, self.processes, endpoint, self.name), python)


def cluster_job(settings: Settings, recipe: str, folder: Path) -> ClusterJob:
    """The job that trains in `folder`, the unfinished artifact of a recipe's `train` stage."""
    place = folder.resolve()
    words = (_label(recipe)[:_LONGEST_RECIPE].strip("-"), _label(place.name)[:8].strip("-"))
    # The folder is part of the name, so that the same recipe in another home is another job.
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:6]
    name = "-".join(["nmt", *filter(None, words), digest])
    return ClusterJob(name, place, settings.nodes, settings.node_processes)


def training_environment() -> dict[str, str]:
    """What training processes want to find; what the user has set himself goes before."""
    return {name: os.environ.get(name, value) for name, value in TRAINING_ENVIRONMENT.items()}


def look_anew(folder: Path) -> None:
    """Have the file system ask what is in a folder: NFS remembers for up to a minute that a file was not there."""
    os.listdir(folder)  # noqa: PTH208  # of which opening the folder is the point


def template_of(settings: Settings) -> Path:
    """File of the user's own template, or of the one for his kind of cluster that comes with the package.

    Raises:
        ConfigError: the user's own cannot be read.
    """
    if not settings.launch_template:
        return Path(str(resources.files("flows.launchers") / "templates" / _DEFAULTS[settings.launcher]))
    template = Path(settings.launch_template).absolute()
    if not template.is_file():
        raise ConfigError(f"NMT_LAUNCH_TEMPLATE={settings.launch_template}: there is no such file: correct the path")
    return template


def _label(text: str) -> str:
    """As a part of a DNS label: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
