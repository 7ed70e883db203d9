"""Resolution of `start_from`: addresses in the registry and in the store become folders.

This happens once, when a recipe is read, because `models:/NAME@champion` may be another model by the end of the run.
MLflow is imported only for an address in the registry.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from flows.settings import Settings, lacks_database
from nmt_core.config import PipelineConfig
from nmt_core.errors import ArtifactError, ConfigError, ModelError, words_of
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

MADE_OF = {"train": "average", "tokenizer": "tokenizer"}
"""Stage of a registered model that each section can start from: its weights and its vocabulary."""

_TAKES = {"train": ("average", "train"), "tokenizer": ("tokenizer",)}
_REGISTERED = re.compile(r"models:/(?P<name>[^/@]+)(@(?P<alias>[^/@]+)|/(?P<version>\d+))")
_STORED = re.compile(r"([a-z]+)/[0-9a-f]{4,32}")


def tag_of(stage: str) -> str:
    """Return the tag of a model version that holds the fingerprint of a stage."""
    return f"nmt.{stage}"


def resolved(config: PipelineConfig, settings: Settings, *, debug: bool = False) -> PipelineConfig:
    """Return the configuration with absolute paths in every `start_from`.

    Args:
        config: Recipe as it was written.
        settings: Settings of this machine.
        debug: Passed to `Settings.prepare`, if MLflow is needed.

    Raises:
        NmtError: The model or artifact does not exist, or is no longer in the store.
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
    option = f"{section}.start_from={address}"
    if _is_registered(address):
        return _registered(option, address, MADE_OF[section], settings).path
    stored = _STORED.fullmatch(address)
    if not stored or stored[1] not in STAGES:
        if not Path(address).exists():  # the stage would fail too, but hours later
            raise ConfigError(f"{option}: no such file or folder (relative to {Path.cwd()}): correct the path")
        return Path(address)
    if stored[1] not in _TAKES[section]:
        forms = " or ".join(f"{stage}/FINGERPRINT" for stage in _TAKES[section])
        raise ConfigError(f"{option}: an artifact of {stored[1]} cannot be used here: give {forms}")
    try:
        return settings.store.resolve(address).path
    except ArtifactError as error:
        raise ConfigError(f"{option}: {error}") from None


def _registered(option: str, address: str, stage: str, settings: Settings) -> Artifact:
    """Return the artifact of a stage that a registered model was made from."""
    version = _version(option, address, settings)
    fingerprint = version.tags.get(tag_of(stage), "")
    if not fingerprint:
        raise ModelError(
            f"{option}: version {version.version} has no tag {tag_of(stage)}, because an older version or another "
            f"program registered it: give {stage}/FINGERPRINT or a folder"
        )
    artifact = settings.store.find(stage, fingerprint)
    if not artifact:
        raise ModelError(
            f"{option}: version {version.version} is {stage}/{fingerprint}, which is no longer in "
            f"{settings.store.root}: copy it there from the machine that made it, run its recipe again, or start from "
            "another model"
        )
    return artifact


def _version(option: str, address: str, settings: Settings) -> "ModelVersion":
    parts, uri = _REGISTERED.fullmatch(address), settings.mlflow_tracking_uri
    if not parts:
        raise ConfigError(f"{option}: must be models:/NAME@ALIAS or models:/NAME/VERSION")
    if lacks_database(uri):
        raise ModelError(
            f"{option}: {uri} does not exist yet, so no model is registered: `nmt run RECIPE` registers one"
        )
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    try:
        if parts["alias"]:
            return client.get_model_version_by_alias(parts["name"], parts["alias"])
        return client.get_model_version(parts["name"], parts["version"])
    except MlflowException as error:
        raise ModelError(
            f"{option}: {words_of(error)} (in {settings.mlflow_shown}): `nmt run RECIPE` registers one"
        ) from None
