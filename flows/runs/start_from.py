"""What `start_from` names: addresses of the registry and of the store become the folders that they stand for.

Done once, where a recipe is read: `models:/NAME@champion` may stand for another model by the end of the run. MLflow is
imported only for an address of its own.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError, ConfigError, ModelError, words_of
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

MADE_OF = {"train": "average", "tokenizer": "tokenizer"}
"""What a registered model offers to each section to start from: its weights and its vocabulary, by their stages."""

_TAKES = {"train": ("average", "train"), "tokenizer": ("tokenizer",)}
_REGISTERED = re.compile(r"models:/(?P<name>[^/@]+)(@(?P<alias>[^/@]+)|/(?P<version>\d+))")
_STORED = re.compile(r"([a-z]+)/[0-9a-f]{4,32}")
_SQLITE = "sqlite:///"


def tag_of(stage: str) -> str:
    """Tag of a model version that holds the fingerprint of what this stage made for it."""
    return f"nmt.{stage}"


def resolved(config: PipelineConfig, settings: Settings, *, debug: bool = False) -> PipelineConfig:
    """The configuration with an absolute path wherever it says what to start from.

    Args:
        config: the recipe as it was written.
        settings: of this machine.
        debug: as of `Settings.prepare`, if MLflow must be asked.

    Raises:
        NmtError: there is no such model or artifact, or it is no longer in the store.
    """
    changes = {}
    for section in MADE_OF:
        values = getattr(config, section)
        if values.start_from:
            if _is_registered(values.start_from):
                settings.prepare(debug=debug)
            place = _place(section, values.start_from, settings)
            changes[section] = values.model_copy(update={"start_from": str(place.absolute())})
    return config.model_copy(update=changes) if changes else config


def _is_registered(address: str) -> bool:
    return address.startswith("models:")


def _place(section: str, address: str, settings: Settings) -> Path:
    knob = f"{section}.start_from={address}"
    if _is_registered(address):
        return _registered(knob, address, MADE_OF[section], settings).path
    stored = _STORED.fullmatch(address)
    if not stored or stored[1] not in STAGES:
        if not Path(address).exists():  # the stage would say so too, but hours later
            raise ConfigError(f"{knob}: there is no such file or folder, seen from {Path.cwd()}: correct the path")
        return Path(address)
    if stored[1] not in _TAKES[section]:
        forms = " or ".join(f"{stage}/FINGERPRINT" for stage in _TAKES[section])
        raise ConfigError(f"{knob}: {stored[1]} makes nothing to start from here: give {forms}")
    try:
        return settings.store.resolve(address).path
    except ArtifactError as error:
        raise ConfigError(f"{knob}: {error}") from None


def _registered(knob: str, address: str, stage: str, settings: Settings) -> Artifact:
    """What the stage made for a registered model."""
    version = _version(knob, address, settings)
    fingerprint = version.tags.get(tag_of(stage), "")
    if not fingerprint:
        raise ModelError(
            f"{knob}: version {version.version} does not say what {stage} made for it (tag {tag_of(stage)}): it was "
            f"registered by an older version or by others: give {stage}/FINGERPRINT or a folder"
        )
    artifact = settings.store.find(stage, fingerprint)
    if not artifact:
        raise ModelError(
            f"{knob}: version {version.version} is {stage}/{fingerprint}, which is no longer in "
            f"{settings.store.root}: copy it there from where it was made, run the recipe that made it again, or start "
            "from another model"
        )
    return artifact


def _version(knob: str, address: str, settings: Settings) -> "ModelVersion":
    parts, uri = _REGISTERED.fullmatch(address), settings.mlflow_tracking_uri
    if not parts:
        raise ConfigError(f"{knob}: must read models:/NAME@ALIAS or models:/NAME/VERSION")
    if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).is_file():  # else MLflow would make it
        raise ModelError(f"{knob}: {uri} is not there yet, so no model is registered: `nmt run RECIPE` registers one")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    try:
        if parts["alias"]:
            return client.get_model_version_by_alias(parts["name"], parts["alias"])
        return client.get_model_version(parts["name"], parts["version"])
    except MlflowException as error:
        raise ModelError(
            f"{knob}: {words_of(error)} (in {settings.mlflow_shown}): `nmt run RECIPE` registers one"
        ) from None
