"""Which versions of models are registered, in every registry that runs of this home have used."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from flows.registry.marks import MARK_TAG
from flows.runs.start_from import tag_of
from flows.runs.summary import RunSummary
from flows.settings import Settings
from flows.tracking.paging import read_all
from nmt_core.errors import ModelError, without_password, words_of
from nmt_core.stages.table import STAGES

Name = tuple[str, str]
"""Stage and fingerprint."""

_SQLITE = "sqlite:///"
_VERSIONS_OF_A_PAGE = 10_000
_MODELS_OF_A_PAGE = 1_000


@dataclass
class Registered:
    """What versions of registered models were made of."""

    with_alias: set[Name] = field(default_factory=set)
    others: set[Name] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    """Ids of the marks that these versions have left in stores."""


def registered(settings: Settings, runs: Iterable[RunSummary], gone: Collection[str] = ()) -> Registered:
    """Ask the registry of the settings, and each one in which a run of this home has registered a model.

    Args:
        settings: of this machine.
        runs: the runs of this home.
        gone: registries that are there no more, as the error names them, and are not asked.

    Raises:
        ModelError: one does not answer, so nobody knows what its models need.
    """
    used = dict.fromkeys(run.model.registry for run in runs if run.model and run.model.registry)
    gone = {without_password(each) for each in gone}
    found = Registered()
    for registry in dict.fromkeys([settings.registry, *used]):
        if registry not in gone:
            _ask(registry, settings, found, is_used=registry in used)
    return found


def _ask(registry: str, settings: Settings, found: Registered, *, is_used: bool) -> None:
    """Add what one registry knows.

    Raises:
        ModelError: it does not answer.
    """
    uri = _address(registry, settings)
    if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).is_file():  # else MLflow would make it
        if is_used:
            raise _unknown(registry, uri, "the database is not there")
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
            (found.with_alias if has_alias else found.others).update(made_of)
            found.marks.update({version.tags[MARK_TAG]} if MARK_TAG in version.tags else ())
    except MlflowException as error:
        raise _unknown(registry, uri, words_of(error)) from None


def _address(registry: str, settings: Settings) -> str:
    """The tracking URI of a registry that a run has written down."""
    if registry == settings.registry:
        return settings.mlflow_tracking_uri  # with the password, if it has one
    return f"{_SQLITE}{settings.own_database}" if registry == "home" else registry


def _unknown(registry: str, uri: str, problem: str) -> ModelError:
    """Why nothing may be removed, and what to do."""
    return ModelError(
        f"MLflow at {without_password(uri)} does not say which models are registered, and what they need must not be "
        f"removed: {problem}: see that it answers and that MLFLOW_TRACKING_URI names it, then run the same command "
        f"again; if this registry and its models are there no more, add --gone {registry}"
    )
