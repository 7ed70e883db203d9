"""Manual changes of the champion: promotion, rollback, and lists of versions and changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flows.registry import verdicts
from flows.registry.candidate import SCORE_TAG
from flows.registry.champions import CHALLENGER, CHAMPION, Author, Champions, Event
from flows.settings import Settings, lacks_database
from flows.tracking.paging import read_all
from nmt_core.errors import ConfigError, ModelError, words_of

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

_SHOWN_MODELS = 20


@dataclass(frozen=True)
class VersionRow:
    """Version as a list shows it."""

    version: str
    aliases: tuple[str, ...]
    bleu: str
    """BLEU on the main test set."""
    verdict: str
    """Verdict of the gate."""


def promote_by_hand(
    model: str, version: str, author: Author, settings: Settings, *, force: bool = False, pair: str = ""
) -> str:
    """Make a version the champion regardless of the gate's verdict, and return a sentence that describes the change.

    Args:
        model: Name of the registered model.
        version: Version number. Empty means the challenger.
        author: Author of the change, with the reason.
        settings: Settings that locate the registry.
        force: Promote the version even if it was rolled back before.
        pair: Pair of languages with a champion of its own. Empty means all pairs.

    Raises:
        ConfigError: No reason is given.
        ModelError: The version does not exist or was rolled back, the pair has no champion of its own, or MLflow does
            not answer.
    """
    _require_a_reason(author, "promote")
    with _registry(settings) as client:
        champions = Champions(client, _existing(client, model, settings), settings)
        chosen = _chosen(champions, version)
        number = str(chosen.version)
        _require_own_champion(champions, pair)
        named = f" for {pair}" if pair else ""
        current = champions.of_pair(pair)
        if current and str(current.version) == number and not _pairs_of_others(champions, number, pair):
            return f"{model} version {number} is already champion{named}"
        event = champions.taken_back(chosen, pair)
        if event and not force:
            raise ModelError(
                f"model {model}: version {number} is the model that was rolled back on {event.when:%Y-%m-%d} by "
                f"{event.who} ({event.why}): add --force (force in the form) if that problem is fixed"
            )
        champions.promote(number, author, pair=pair)
    before = f", in place of version {current.version}" if current and str(current.version) != number else ""
    return f"{model} version {number} is champion{named} now{before}"


def _require_own_champion(champions: Champions, pair: str) -> None:
    """Raise an error if a pair of languages has no champion of its own.

    Raises:
        ModelError: The pair has none.
    """
    if pair and pair not in champions.pairs:
        known = f"only {', '.join(champions.pairs)} have one" if champions.pairs else "no pair has one"
        raise ModelError(
            f"model {champions.name}: has no champion of its own for {pair}, {known}: correct the pair, or set "
            "registry.champion to pair in the recipe and run it"
        )


def _pairs_of_others(champions: Champions, version: str, pair: str) -> list[str]:
    """Return the pairs with another champion than this version. Empty if only one pair is asked for."""
    if pair:
        return []
    own = {one: champions.of_pair(one) for one in champions.pairs}
    return [one for one, champion in own.items() if champion and str(champion.version) != version]


def roll_back_by_hand(model: str, author: Author, settings: Settings, pair: str = "") -> str:
    """Restore the previous champion, and return a sentence that describes the change.

    Args:
        model: Name of the registered model.
        author: Author of the change, with the reason.
        settings: Settings that locate the registry.
        pair: Pair of languages with a champion of its own. Empty means the champion for all pairs.

    Raises:
        ConfigError: No reason is given.
        ModelError: The model does not exist or has no previous champion, the pair has no champion of its own, or
            MLflow does not answer.
    """
    _require_a_reason(author, "rollback")
    with _registry(settings) as client:
        champions = Champions(client, _existing(client, model, settings), settings)
        _require_own_champion(champions, pair)
        event = champions.roll_back(author, pair)
    named = f" for {pair}" if pair else ""
    return f"{model} version {event.version} is champion{named} again, in place of version {event.before}"


def history_of(model: str, settings: Settings) -> tuple[list[VersionRow], list[Event]]:
    """Return the versions of a model, newest first, and all changes of its champion, oldest first.

    Raises:
        ModelError: The model does not exist, or MLflow does not answer.
    """
    with _registry(settings) as client:
        champions = Champions(client, _existing(client, model, settings), settings)
        versions = champions.versions()
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
            for version in sorted(versions, key=lambda version: int(version.version), reverse=True)
        ]
        return rows, champions.history()


def names(settings: Settings) -> list[tuple[str, str]]:
    """Return the registered models, each with the number of its champion, which may be empty.

    Raises:
        ModelError: MLflow does not answer.
    """
    with _registry(settings) as client:
        models = read_all(client.search_registered_models)
        return [(model.name, str(model.aliases.get(CHAMPION, ""))) for model in models]


@contextmanager
def _registry(settings: Settings) -> Iterator["MlflowClient"]:
    """Yield a client of the registry, and turn its errors into `ModelError`s."""
    uri = settings.mlflow_tracking_uri
    if lacks_database(uri):
        raise ModelError(f"{uri} does not exist yet, so no model is registered: `nmt run RECIPE` registers one")
    settings.prepare()  # MLflow reads its environment when it is imported
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        yield MlflowClient(uri)
    except MlflowException as error:
        raise ModelError(f"MLflow at {uri}: {words_of(error)}: check that it answers") from None


def _existing(client: "MlflowClient", model: str, settings: Settings) -> str:
    if not client.search_registered_models(f"name='{model}'"):
        page = client.search_registered_models(max_results=_SHOWN_MODELS)  # the first page is all that is shown
        known = ", ".join(registered.name for registered in page) + (", ..." if page.token else "")
        raise ModelError(
            f"model {model!r}: not registered in {settings.mlflow_tracking_uri}, which has {known or 'no models'}: "
            "`nmt models` lists them"
        )
    return model


def _chosen(champions: Champions, version: str) -> "ModelVersion":
    if not version:
        challenger = champions.with_alias(CHALLENGER)
        if not challenger:
            raise ModelError(f"model {champions.name}: has no challenger: give a version")
        return challenger
    there = {str(registered.version): registered for registered in champions.versions()}
    if version not in there:
        raise ModelError(
            f"model {champions.name}: has no version {version!r}, only {', '.join(sorted(there, key=int))}: choose one"
        )
    return there[version]


def _require_a_reason(author: Author, command: str) -> None:
    if not author.why.strip():
        raise ConfigError(
            f"{command}: no reason is given: add --why (why in the form), which is recorded in the model's history"
        )
