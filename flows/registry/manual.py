"""What people do to the champion: promote a version, roll the champion back, look at what there is and how it came."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flows.registry import verdicts
from flows.registry.candidate import SCORE_TAG
from flows.registry.champions import CHALLENGER, CHAMPION, Author, Champions, Event
from flows.settings import Settings
from flows.tracking.paging import read_all
from nmt_core.errors import ConfigError, ModelError, words_of

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

_SQLITE = "sqlite:///"
_SHOWN_MODELS = 20


@dataclass(frozen=True)
class VersionRow:
    """A version as a list shows it."""

    version: str
    aliases: tuple[str, ...]
    bleu: str
    """Of the main test set."""
    verdict: str
    """What the gate said of it."""


def promote_by_hand(model: str, version: str, author: Author, settings: Settings, *, force: bool = False) -> str:
    """Make a version champion whatever a gate says of it; what was done, in a sentence.

    Args:
        model: name of the registered model.
        version: its number; empty: that of the challenger.
        author: who does it, and why.
        settings: where the registry is.
        force: even if the version was rolled back before.

    Raises:
        ConfigError: nobody says why.
        ModelError: there is no such version, or it was rolled back, or MLflow does not answer.
    """
    _require_a_reason(author, "promote")
    with _registry(settings) as client:
        champions = Champions(client, _existing(client, model, settings), settings)
        chosen = _chosen(champions, version)
        number = str(chosen.version)
        current = champions.current
        if current and str(current.version) == number:
            return f"{model} version {number} is champion already"
        event = champions.taken_back(chosen)
        if event and not force:
            raise ModelError(
                f"model {model}: version {number} is the model that was rolled back on {event.when:%Y-%m-%d} by "
                f"{event.who} ({event.why}): add --force (force in the form) if that is mended"
            )
        champions.promote(number, author)
    before = f", in place of version {current.version}" if current else ""
    return f"{model} version {number} is champion now{before}"


def roll_back_by_hand(model: str, author: Author, settings: Settings) -> str:
    """Restore the champion before this one; what was done, in a sentence.

    Raises:
        ConfigError: nobody says why.
        ModelError: there is no such model, or no champion before, or MLflow does not answer.
    """
    _require_a_reason(author, "rollback")
    with _registry(settings) as client:
        event = Champions(client, _existing(client, model, settings), settings).roll_back(author)
    return f"{model} version {event.version} is champion again, in place of version {event.before}"


def history_of(model: str, settings: Settings) -> tuple[list[VersionRow], list[Event]]:
    """The versions of a model, the newest first, and all changes of its champion, the oldest first.

    Raises:
        ModelError: there is no such model, or MLflow does not answer.
    """
    with _registry(settings) as client:
        champions = Champions(client, _existing(client, model, settings), settings)
        found = champions.versions()
        aliases = client.get_registered_model(model).aliases
        rows = [
            VersionRow(
                version=str(version.version),
                aliases=tuple(
                    sorted(alias for alias, number in aliases.items() if str(number) == str(version.version))
                ),
                bleu=f"{float(version.tags[SCORE_TAG]):.2f}" if SCORE_TAG in version.tags else "unknown",
                verdict=verdicts.kept(version).reason,
            )
            for version in sorted(found, key=lambda version: int(version.version), reverse=True)
        ]
        return rows, champions.history()


def names(settings: Settings) -> list[tuple[str, str]]:
    """The registered models, each with the number of its champion, which may be empty.

    Raises:
        ModelError: MLflow does not answer.
    """
    with _registry(settings) as client:
        models = read_all(client.search_registered_models)
        return [(model.name, str(model.aliases.get(CHAMPION, ""))) for model in models]


@contextmanager
def _registry(settings: Settings) -> Iterator["MlflowClient"]:
    """A client of the registry, whose errors are said in our words."""
    uri = settings.mlflow_tracking_uri
    if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).is_file():  # else MLflow would make it
        raise ModelError(f"{uri} is not there yet, so no model is registered: `nmt run RECIPE` registers one")
    settings.prepare()  # MLflow reads its environment when it is imported
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        yield MlflowClient(uri)
    except MlflowException as error:
        raise ModelError(f"MLflow at {uri} says: {words_of(error)}: see that it answers") from None


def _existing(client: "MlflowClient", model: str, settings: Settings) -> str:
    if not client.search_registered_models(f"name='{model}'"):
        page = client.search_registered_models(max_results=_SHOWN_MODELS)  # the first page is all that is shown
        known = ", ".join(found.name for found in page) + (", ..." if page.token else "")
        raise ModelError(
            f"model {model!r}: not registered in {settings.mlflow_tracking_uri}, which has {known or 'no models'}: "
            "`nmt models` lists them"
        )
    return model


def _chosen(champions: Champions, version: str) -> "ModelVersion":
    if not version:
        challenger = champions.with_alias(CHALLENGER)
        if not challenger:
            raise ModelError(f"model {champions.name}: has no challenger: name a version")
        return challenger
    there = {str(found.version): found for found in champions.versions()}
    if version not in there:
        raise ModelError(
            f"model {champions.name}: has no version {version!r}, only {', '.join(sorted(there, key=int))}: choose one"
        )
    return there[version]


def _require_a_reason(author: Author, command: str) -> None:
    if not author.why.strip():
        raise ConfigError(f"{command}: say why (--why, or why in the form): whoever looks into it later needs to know")
