"""Last step of a retraining: the exported bundle becomes a version of a registered MLflow model.

The version gets the alias `challenger`. It becomes `champion` if it passes the gate (`gate.py`).
"""

import hashlib
import importlib.metadata
import shutil
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.registry import verdicts
from flows.registry.candidate import Candidate
from flows.registry.champions import CHALLENGER, Champions, user_and_machine
from flows.registry.copies import copy_folder
from flows.registry.marks import MARK_TAG, Mark, mark_of, write
from flows.registry.model_card import CARD_FILE, LONGEST_DESCRIPTION, model_card
from flows.registry.packed_code import pack_code
from flows.runs.start_from import tag_of
from flows.runs.summary import RegisteredModel
from flows.settings import Settings
from flows.tracking.paging import read_all
from nmt_core.bundle.folder import SEARCH_FILE, read_bundle
from nmt_core.config import LanguagesConfig, PipelineConfig, SearchConfig
from nmt_core.errors import ModelError, words_of
from nmt_core.evaluate.verdict import Verdict
from nmt_core.store.artifacts import MANIFEST, REPORT, Artifact
from nmt_core.tokenizer.pretokenize import Pretokenizers

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import ModelSignature
    from mlflow.tracking import MlflowClient

_CARD_TAG = "nmt.card"
_REMEDY = "check that it answers, then run the same command again; finished stages are kept"


def register_model(
    config: PipelineConfig, candidate: Candidate, settings: Settings, run_id: str, tags: Mapping[str, str]
) -> RegisteredModel:
    """Register a bundle once, and judge it: repeated calls with the same export and evaluation return the same version.

    The description of an existing version follows the recipe, so that a corrected licence is corrected there too.

    Raises:
        ModelError: MLflow does not answer, or refuses.
    """
    import mlflow
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    name, tracking_uri = config.model_name, settings.mlflow_tracking_uri
    if not run_id:
        raise ModelError(f"register: MLflow at {tracking_uri} does not answer: {_REMEDY}")
    try:
        client = MlflowClient(tracking_uri)
        candidate = replace(candidate, teachers=_teachers(client, candidate))
        version = _find(client, name, candidate)
        reused = version is not None
        about = model_card(config, candidate, LONGEST_DESCRIPTION)
        card = {_CARD_TAG: hashlib.sha256(about.encode()).hexdigest()}
        mark = _mark(candidate, version, name, settings)
        write(settings.store, mark)  # before the version exists, so that `gc` never sees it without a mark
        if version is None:
            mlflow.set_tracking_uri(tracking_uri)
            with warnings.catch_warnings(), mlflow.start_run(run_id=run_id):
                warnings.simplefilter("ignore")
                model_id = _log_model(
                    candidate.export, config.search.without_judge, model_card(config, candidate), settings
                )
            all_tags = candidate.tags | card | {MARK_TAG: mark.id} | dict(tags)
            version = _create_version(client, name, about, model_id, run_id, all_tags)
        elif candidate.download and version.tags.get(_CARD_TAG) != card[_CARD_TAG]:
            _renew_card(client, version, about, card)
        if reused:
            client.set_model_version_tag(name, version.version, MARK_TAG, mark.id)
        client.set_registered_model_alias(name, CHALLENGER, version.version)
        verdict = _judged(config, candidate, version, client, settings)
        aliases = list(client.get_model_version(name, version.version).aliases)
    except MlflowException as error:
        raise ModelError(f"register: MLflow at {tracking_uri}: {words_of(error)}: {_REMEDY}") from None
    return RegisteredModel(
        name=name,
        version=str(version.version),
        aliases=aliases,
        verdict=verdict.reason,
        gate=verdict,
        reused=reused,
        made_of=dict(candidate.made_of),
        registry=settings.registry,
    )


def is_registered(name: str, candidate: Candidate, tracking_uri: str) -> bool:
    """Return True if a version of this candidate exists. False also if MLflow does not answer."""
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        return _find(MlflowClient(tracking_uri), name, candidate) is not None
    except MlflowException:
        return False


def _mark(candidate: Candidate, version: "ModelVersion | None", name: str, settings: Settings) -> Mark:
    """Return the mark of a version, with the same id if the version has a mark already."""
    stages = {"export": candidate.export.fingerprint, "evaluate": candidate.evaluate.fingerprint}
    mark = mark_of(settings.mlflow_shown, name, stages | dict(candidate.made_of), user_and_machine())
    identifier = version.tags.get(MARK_TAG, mark.id) if version else mark.id
    return mark.model_copy(update={"id": identifier})


def _judged(
    config: PipelineConfig,
    candidate: Candidate,
    version: "ModelVersion",
    client: "MlflowClient",
    settings: Settings,
) -> Verdict:
    """Judge a version and store the verdict with it. A version that is already champion keeps its stored verdict."""
    from flows.registry.gate import pass_gate  # a slow import: it translates and scores

    champions = Champions(client, version.name, settings)
    champion = champions.current
    if champion and champion.version == version.version:
        return verdicts.kept(champion).model_copy(update={"reason": "is champion already"})
    verdict = pass_gate(config, candidate, version, champions, settings)
    verdicts.keep(client, version, verdict)
    return verdict


def _find(client: "MlflowClient", name: str, candidate: Candidate) -> "ModelVersion | None":
    fingerprints = candidate.export.fingerprint, candidate.evaluate.fingerprint
    tags = tag_of("export"), tag_of("evaluate")
    for version in read_all(client.search_model_versions, f"name='{name}'"):
        if tuple(version.tags.get(tag) for tag in tags) == fingerprints:
            return version
    return None


def _teachers(client: "MlflowClient", candidate: Candidate) -> dict[str, str]:
    """Return the registered versions of the candidate's teachers and members with their verdicts, by their names."""
    found = {}
    teachers = [one["teacher"] for one in candidate.synthesise.report()["teachers"]] if candidate.synthesise else []
    for name in dict.fromkeys([*teachers, *candidate.other_members]):
        stage, _, fingerprint = name.partition("/")
        if stage not in ("export", "average") or not fingerprint.isalnum():  # a folder that is not in a store
            continue
        versions = read_all(client.search_model_versions, f"tags.`{tag_of(stage)}` LIKE '{fingerprint}%'")
        described = [f"{each.name} version {each.version}, which {verdicts.kept(each).reason}" for each in versions]
        found[name] = "; ".join(described)
    return found


def _log_model(export: Artifact, search: SearchConfig, card: str, settings: Settings) -> str:
    """Copy the bundle, its code, its search defaults and its card into MLflow. Return the id of the logged model."""
    import mlflow

    with copy_folder(settings.home) as folder:
        bundle = folder / "bundle"
        shutil.copytree(export.path, bundle, ignore=shutil.ignore_patterns(MANIFEST, REPORT))
        (bundle / SEARCH_FILE).write_text(search.model_dump_json(indent=1), encoding="utf-8")
        (folder / CARD_FILE).write_text(f"{card}\n", encoding="utf-8")
        code = pack_code(folder)
        logged = mlflow.pyfunc.log_model(
            name="model",
            python_model=str(code.model),
            artifacts={"bundle": str(bundle), "card": str(folder / CARD_FILE)},
            code_paths=[str(code.package)],
            signature=_signature(),
            input_example=_example(read_bundle(bundle).languages),
            pip_requirements=_requirements(export.path),
        )
    return str(logged.model_id)


_PACKAGES = (
    "mlflow",
    "numpy",
    "sentencepiece",
    "sentencex",
    "pydantic",
    "ftfy",
    "ahocorasick-rs",
    "onnxruntime",
    "onnxruntime-gpu",
)
"""Packages that a registered model needs."""


def _example(languages: LanguagesConfig) -> Any:
    """Return lines with which MLflow tries the model, and the target language if it needs one."""
    lines = ["A line of text.", "Another line."]
    return (lines, {"to": languages.pairs[0]}) if len(languages.targets) > 1 else lines


def _signature() -> "ModelSignature":
    """Return the parameters of a model: the options of the search, and the form of the output.

    The input has no schema: with one, MLflow refuses all lines if one is null, and drops columns without a word.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema

    types: dict[Any, DataType] = {bool: DataType.boolean, int: DataType.long, float: DataType.double}
    options = [
        ParamSpec(name, types.get(field.annotation, DataType.string), None)  # None: as the model was registered
        for name, field in SearchConfig.model_fields.items()
        if name != "judge"  # a registered model runs no program
    ]
    output = ParamSpec("output", DataType.string, "text")
    glossary = ParamSpec("glossary", DataType.string, [], shape=(-1,))
    to = ParamSpec("to", DataType.string, "")
    params = ParamSchema([*options, output, glossary, to])
    return ModelSignature(outputs=Schema([ColSpec(DataType.string)]), params=params)


def _requirements(bundle: Path) -> list[str]:
    """Return the packages that the model needs, in the versions installed here.

    The package onnxruntime-gpu is listed as onnxruntime, which has the same code.
    """
    versions = Pretokenizers.read(bundle).require_packages()
    for name in _PACKAGES:
        try:
            versions[name.removesuffix("-gpu")] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return [f"{name}=={version}" for name, version in versions.items()]


def _create_version(
    client: "MlflowClient", name: str, about: str, model_id: str, run_id: str, tags: Mapping[str, Any]
) -> "ModelVersion":
    """Create a version, and the model if this is its first.

    If MLflow's answer to a request is lost, its client asks once more, and MLflow may do twice what it was asked.
    """
    from mlflow.exceptions import MlflowException

    if not client.search_registered_models(f"name='{name}'"):
        try:
            client.create_registered_model(name, description=about)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another run may just have made it, too
                raise
    source = f"models:/{model_id}"
    version = client.create_model_version(
        name, source=source, run_id=run_id, tags=dict(tags), model_id=model_id, description=about
    )
    for twin in read_all(client.search_model_versions, f"source_path='{source}'"):
        if str(twin.version) != str(version.version):
            with suppress(MlflowException):  # who may register a model may not be allowed to delete a version
                client.delete_model_version(name, twin.version)
    return version


def _renew_card(client: "MlflowClient", version: "ModelVersion", about: str, card: Mapping[str, str]) -> None:
    """Update the description of a version from the recipe, and of the model if it has that version's description."""
    model = client.get_registered_model(version.name)
    if model.description == version.description:
        client.update_registered_model(version.name, about)
    client.update_model_version(version.name, version.version, about)
    for tag, value in card.items():
        client.set_model_version_tag(version.name, version.version, tag, value)
