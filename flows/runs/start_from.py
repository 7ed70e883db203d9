"""Resolution of `start_from`, teachers, members and rounds: addresses in the registry and in the store become folders.

This happens once, when a recipe is read, because `models:/NAME@champion` may be another model by the end of the run.
MLflow is imported only for an address in the registry.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.settings import Settings, lacks_database
from nmt_core.config import REVERSE, PipelineConfig
from nmt_core.errors import ArtifactError, ConfigError, ModelError, words_of
from nmt_core.export.members import check_members
from nmt_core.recipes.rounds import trainings
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

MADE_OF = {"train": "average", "tokenizer": "tokenizer"}
"""Stage of a registered model that each section can start from: its weights and its vocabulary."""

_TAKES = {
    "train": ("average", "train"),
    "tokenizer": ("tokenizer",),
    "synthesis": ("export",),
    "export": ("average",),
    "evaluate": ("export",),
}
"""Stages whose artifacts a section can name. A registered model stands for its artifact of the first stage."""
_REGISTERED = re.compile(r"models:/(?P<name>[^/@]+)(@(?P<alias>[^/@]+)|/(?P<version>\d+))")
_STORED = re.compile(r"([a-z]+)/[0-9a-f]{4,32}")


def tag_of(stage: str) -> str:
    """Return the tag of a model version that holds the fingerprint of a stage."""
    return f"nmt.{stage}"


def resolved(config: PipelineConfig, settings: Settings, *, debug: bool = False) -> PipelineConfig:
    """Return the configuration with absolute paths in every `start_from`, for teachers, members and in `rounds`.

    Args:
        config: Recipe as it was written.
        settings: Settings of this machine.
        debug: Passed to `Settings.prepare`, if MLflow is needed.

    Raises:
        NmtError: The model or artifact does not exist, or is no longer in the store, or the recipe of the other
            direction is wrong.
    """

    def place_of(section: str, option: str, address: str) -> str:
        if _is_registered(address):
            settings.prepare(debug=debug)
        return str(_place(section, f"{option}={address}", address, settings).absolute())

    changes: dict[str, Any] = {}
    for section in MADE_OF:
        values = getattr(config, section)
        if values.start_from:
            place = place_of(section, f"{section}.start_from", values.start_from)
            changes[section] = values.model_copy(update={"start_from": place})
    if config.synthesis.parts:
        parts = []
        for number, part in enumerate(config.synthesis.parts):
            option = f"synthesis.parts.{number}.teachers"
            if REVERSE in part.teachers:
                _require_rounds(option, config)
                parts.append(part)
                continue
            places = tuple(place_of("synthesis", option, teacher) for teacher in part.teachers)
            parts.append(part.model_copy(update={"teachers": places}))
        changes["synthesis"] = config.synthesis.model_copy(update={"parts": tuple(parts)})
    if bundles := [system.bundle for system in config.evaluate.systems if system.bundle]:
        folders = {bundle: place_of("evaluate", "evaluate.systems.bundle", bundle) for bundle in bundles}
        systems = [
            system.model_copy(update={"bundle": folders[system.bundle]}) if system.bundle else system
            for system in config.evaluate.systems
        ]
        changes["evaluate"] = config.evaluate.model_copy(update={"systems": tuple(systems)})
    if config.export.members:
        places = tuple(place_of("export", "export.members", member) for member in config.export.members)
        changes["export"] = config.export.model_copy(update={"members": places})
    if config.rounds.count:
        trainings(config)  # a wrong recipe of the other direction is reported before anything starts
        if (file := Path(config.rounds.other_direction)).is_file():
            changes["rounds"] = config.rounds.model_copy(update={"other_direction": str(file.absolute())})
    config = config.model_copy(update=changes) if changes else config
    check_members(config)
    return config


def _require_rounds(option: str, config: PipelineConfig) -> None:
    if config.rounds.count:
        return
    if config.languages.pairs:
        raise ConfigError(
            f"{option}={REVERSE}: it is the model of the round before, but this run has no rounds: set rounds.count to "
            "2 or more, or name a model here"
        )
    raise ConfigError(
        f"{option}={REVERSE}: it is the model of the other direction in a run with rounds, which this is not: run "
        f"the recipe that names {config.name} as its rounds.other_direction, or name a model here"
    )


def named_artifacts(config: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the artifacts that the configuration of a run starts from, as stage and fingerprint.

    They are named by their folders, because the home may have been moved. A folder elsewhere with such a name counts
    too.

    Args:
        config: `resolved` configuration as JSON.
    """
    addresses = [config.get(section, {}).get("start_from", "") for section in MADE_OF]
    for part in config.get("synthesis", {}).get("parts", ()):
        addresses += part.get("teachers", ())
    addresses += [system.get("bundle", "") for system in config.get("evaluate", {}).get("systems", ())]
    addresses += config.get("export", {}).get("members", ())
    places = map(Path, addresses)
    return {(place.parent.name, place.name) for place in places if place.parent.name in STAGES}


def _is_registered(address: str) -> bool:
    return address.startswith("models:")


def _place(section: str, option: str, address: str, settings: Settings) -> Path:
    if _is_registered(address):
        return _registered(option, address, _TAKES[section][0], settings).path
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
            f"{settings.store.root}: copy it there from the machine that made it, run its recipe again, or name "
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
