"""Lookup of a model by address: in the registry, in the artifact store, or in a folder."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flows.registry.copies import copy_folder
from flows.registry.fetching import StalledError, fetch_model
from flows.registry.in_use import in_use
from flows.settings import Settings
from nmt_core.bundle.folder import BUNDLE_FILE, read_search, sha256_of
from nmt_core.config import SearchConfig
from nmt_core.errors import ArtifactError, ConfigError, ModelError, words_of
from nmt_core.jobs.order import ModelVersion
from nmt_core.recipes.recipe import override_search

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

_REGISTERED = re.compile(r"models:/([^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>[^/@]+))")
_NEWEST = "latest"
_DIGITS = 12


@dataclass(frozen=True)
class Model:
    """Bundle with its version."""

    folder: Path
    version: ModelVersion

    def search(
        self, beam_size: int | None, long_lines: str, overrides: Sequence[str] = (), alignments: str = ""
    ) -> SearchConfig:
        """Return the model's own search settings with the given changes.

        Raises:
            ConfigError: A value is out of bounds.
            ModelError: The model's settings are damaged.
        """
        if beam_size is not None and not 1 <= beam_size <= 64:
            raise ConfigError(f"--beam {beam_size}: must be from 1 to 64")
        if long_lines not in ("", "split", "cut"):
            raise ConfigError(f"--long-lines {long_lines}: must be split or cut")
        if alignments not in ("", "none", "words", "pieces"):
            raise ConfigError(f"--alignments {alignments}: must be words, pieces or none")
        changes = {"search.beam_size": beam_size, "search.long_lines": long_lines, "search.alignments": alignments}
        own = [f"{key}={value}" for key, value in changes.items() if value]
        return override_search(read_search(self.folder), [*own, *overrides])


def pinned(address: str, asked: str, version: ModelVersion) -> str:
    """Return the address of the version that an unfinished job began with, if the same alias is given again.

    Args:
        address: Model as the user names it now.
        asked: Model as the user named it when the job began.
        version: Version that this was then.
    """
    is_alias = address == asked and address.startswith("models:/") and address != version.name
    return f"models:/{version.name}/{version.version}" if is_alias else address


@contextlib.contextmanager
def model_of(address: str, settings: Settings) -> Iterator[Model]:
    """Yield the model at an address `models:/...`, in a folder, or with the name of an export artifact.

    Args:
        address: Address, folder or name. An alias or `latest` is resolved once, at the start.
        settings: Settings that locate the registry and the store. A copy from the registry is below NMT_HOME while
            the block lasts, where workers on other machines find it.

    Raises:
        ModelError: The model does not exist.
    """
    if address.startswith("models:/"):
        settings.prepare()  # MLflow reads its environment when it is imported
        with copy_folder(settings.home) as copy:
            uri, name, version = _registered(address, settings)
            folder = _download(uri, copy, settings)
            yield _described(folder, name, version)
        return
    folder, name = Path(address), address
    if not folder.is_dir():
        try:
            artifact = settings.store.resolve(address)
        except ArtifactError:
            raise ModelError(
                f"model {address!r}: no such folder: give a folder that `export` made, the name of an export artifact, "
                "or models:/NAME@champion"
            ) from None
        folder, name = artifact.path, artifact.short
    with in_use(settings.store, folder):
        yield _described(folder.absolute(), name, "")


@contextlib.contextmanager
def bundle_of(address: str) -> Iterator[Path]:
    """Fetch a model for `nmt_core.Translator.load`, which finds this function among the entry points of the package.

    Args:
        address: of a registered model, such as `models:/NAME@champion`.

    Yields:
        The folder of the exported model, which lasts as long as the block.

    Raises:
        ModelError: there is no such model.
    """
    with model_of(address, Settings.load()) as model:
        yield model.folder


def resolve(address: str, settings: Settings) -> str:
    """Return the address of one version, `models:/NAME/VERSION`, for an address with an alias or `latest`.

    Other addresses, folders and names are returned as they are.

    Raises:
        ModelError: there is no such model, or the registry does not answer.
    """
    if not address.startswith("models:/"):
        return address
    settings.prepare()
    return _registered(address, settings)[0]


def _described(folder: Path, name: str, version: str) -> Model:
    if not (folder / BUNDLE_FILE).is_file():
        raise ModelError(f"{folder}: not a bundle, because it has no {BUNDLE_FILE}: give the folder that `export` made")
    sha256 = sha256_of(folder / BUNDLE_FILE)
    return Model(folder, ModelVersion(name=name, version=version or sha256[:_DIGITS], sha256=sha256))


def _registered(address: str, settings: Settings) -> tuple[str, str, str]:
    """Return the address with a number in place of an alias or `latest`, the name, and the version number.

    The address of a logged model has neither alias nor version. It is returned as its own name, without a number.
    """
    match = _REGISTERED.fullmatch(address)
    if not match:
        return address, address, ""
    name, version = match[1], match["version"] or ""
    if version.casefold() not in ("", _NEWEST) and not version.isdecimal():
        raise ModelError(
            f"model {address}: {version} is not a version (model stages are not supported, because their version may "
            f"change while a job runs): give a number, models:/{name}/{_NEWEST} or an alias such as "
            f"models:/{name}@champion"
        )
    if not version.isdecimal():
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        try:
            version = _number_of(MlflowClient(settings.mlflow_tracking_uri), name, match["alias"])
        except MlflowException as error:
            raise _not_found(address, error, settings) from None
    return f"models:/{name}/{version}", name, version


def _number_of(client: "MlflowClient", name: str, alias: str | None) -> str:
    """Return the number of the version with an alias, or of the newest version."""
    if alias:
        return str(client.get_model_version_by_alias(name, alias).version)
    client.get_registered_model(name)  # raises if there is none
    newest = client.search_model_versions(f"name='{name}'", max_results=1, order_by=["version_number DESC"])
    if not newest:
        raise ModelError(f"model {name}: has no version: `nmt run RECIPE` registers one")
    return str(newest[0].version)


def _download(uri: str, folder: Path, settings: Settings) -> Path:
    try:
        return fetch_model(uri, folder, settings)
    except StalledError:
        raise
    except ModelError as error:
        raise _not_found(uri, error, settings) from None


def _not_found(uri: str, error: Exception, settings: Settings) -> ModelError:
    return ModelError(f"model {uri}: {words_of(error)} (in {settings.mlflow_shown}): `nmt run RECIPE` registers one")
