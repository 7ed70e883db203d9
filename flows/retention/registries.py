"""Registered versions of models, in every registry that runs of this home have used."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from flows.registry.marks import MARK_TAG
from flows.runs.start_from import tag_of
from flows.runs.summary import RunSummary
from flows.settings import SQLITE, Settings, lacks_database
from flows.tracking.paging import read_all
from nmt_core.errors import ModelError, without_password, words_of
from nmt_core.stages.table import STAGES

Name = tuple[str, str]
"""Stage and fingerprint."""

_VERSIONS_OF_A_PAGE = 10_000
_MODELS_OF_A_PAGE = 1_000


@dataclass
class Registered:
    """Artifacts that versions of registered models were made of, with and without an alias."""

    with_alias: set[Name] = field(default_factory=set)
    others: set[Name] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    """Ids of the marks of these versions in stores."""


def registered(settings: Settings, runs: Iterable[RunSummary], gone: Collection[str] = ()) -> Registered:
    """Query the registry of the settings, and each registry in which a run of this home has registered a model.

    Args:
        settings: Settings of this machine.
        runs: Runs of this home.
        gone: Registries that no longer exist, as the error names them. They are not queried.

    Raises:
        ModelError: A registry does not answer, so the needs of its models are unknown.
    """
    used = dict.fromkeys(run.model.registry for run in runs if run.model and run.model.registry)
    gone = {without_password(address) for address in gone}
    registered_artifacts = Registered()
    for registry in dict.fromkeys([settings.registry, *used]):
        if registry not in gone:
            _ask(registry, settings, registered_artifacts, is_used=registry in used)
    return registered_artifacts


def _ask(registry: str, settings: Settings, registered_artifacts: Registered, *, is_used: bool) -> None:
    """Add the versions of one registry.

    Raises:
        ModelError: The registry does not answer.
    """
    uri = _address(registry, settings)
    if lacks_database(uri):
        if is_used:
            raise _unknown(registry, uri, "the database does not exist")
        return
    settings.prepare()  # MLflow reads its environment when it is imported
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        client = MlflowClient(uri)
        models = read_all(client.search_registered_models, max_results=_MODELS_OF_A_PAGE)
        aliases = {(model.name, str(version)) for model in models for version in model.aliases.values()}
        for version in read_all(client.search_model_versions, "", max_results=_VERSIONS_OF_A_PAGE):
            made_of = {(stage, print_) for stage in STAGES if (print_ := version.tags.get(tag_of(stage)))}
            has_alias = (version.name, str(version.version)) in aliases
            (registered_artifacts.with_alias if has_alias else registered_artifacts.others).update(made_of)
            registered_artifacts.marks.update({version.tags[MARK_TAG]} if MARK_TAG in version.tags else ())
    except MlflowException as error:
        raise _unknown(registry, uri, words_of(error)) from None


def _address(registry: str, settings: Settings) -> str:
    """Return the tracking URI of a registry as a run recorded it."""
    if registry == settings.registry:
        return settings.mlflow_tracking_uri  # with the password, if it has one
    return f"{SQLITE}{settings.own_database}" if registry == "home" else registry


def _unknown(registry: str, uri: str, problem: str) -> ModelError:
    """Return the error that explains why nothing may be removed, with the remedy."""
    return ModelError(
        f"MLflow at {without_password(uri)} cannot list its registered models, whose artifacts must be kept "
        f"({problem}): check that it answers and that MLFLOW_TRACKING_URI names it, then run the same command again; "
        f"if this registry no longer exists, add --gone {registry}"
    )
