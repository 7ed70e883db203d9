"""Translate lines with an exported or registered model; no Prefect, and no MLflow unless the model is in a registry."""

import contextlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from flows.register import SEARCH_FILE
from flows.settings import Settings
from nmt_core.config import SearchConfig
from nmt_core.errors import ArtifactError, ConfigError, DataError, ModelError

if TYPE_CHECKING:
    from nmt_core.translator import Translation, Translator

_STANDARD = "-"


def translate_file(model: str, source: str, target: str, beam_size: int | None, settings: Settings) -> Counter[str]:
    """Translate line by line from one file to another; "-" is standard input or output.

    Returns:
        How many lines ended with each status.

    Raises:
        NmtError: the model or the text cannot be read.
    """
    from nmt_core.translator import Translator

    with bundle_of(model, settings) as folder:
        translator = Translator.load(folder, _search(folder, beam_size), settings.threads)
    with _reading(source) as lines_in, _writing(target) as lines_out:
        return translate_lines(translator, lines_in, lines_out, source)


def translate_lines(translator: "Translator", source: BinaryIO, target: BinaryIO, name: str) -> Counter[str]:
    """Write exactly one line for each line read."""
    statuses: Counter[str] = Counter()
    lines = (_decoded(line, name, number) for number, line in enumerate(source, start=1))
    if source.isatty():  # somebody waits for each line
        translations: Iterator[Translation] = (
            translation for line in lines for translation in translator.translate([line])
        )
    else:
        translations = translator.translate_stream(lines)
    for translation in translations:
        target.write(translation.text.encode() + b"\n")
        statuses[translation.status] += 1
        if source.isatty():
            target.flush()
    target.flush()
    return statuses


@contextlib.contextmanager
def bundle_of(model: str, settings: Settings) -> Iterator[Path]:
    """The folder of a model given as `models:/...`, as a folder, or as the name of an export artifact.

    Raises:
        ModelError: there is none.
    """
    if model.startswith("models:/"):
        with tempfile.TemporaryDirectory(prefix="nmt-model-") as copy:
            yield _download(model, Path(copy), settings)
        return
    folder = Path(model)
    if not folder.is_dir():
        try:
            folder = settings.store.resolve(model).path
        except ArtifactError:
            raise ModelError(
                f"model {model!r}: no such folder: give one that holds encoder.onnx, the name of an export artifact, "
                "or models:/NAME@champion"
            ) from None
    yield folder


def _download(model: str, folder: Path, settings: Settings) -> Path:
    settings.prepare()
    import mlflow
    from mlflow.exceptions import MlflowException

    try:
        uri = settings.mlflow_tracking_uri
        return Path(
            mlflow.artifacts.download_artifacts(model, dst_path=str(folder), tracking_uri=uri), "artifacts/bundle"
        )
    except MlflowException as error:
        raise ModelError(
            f"model {model}: {' '.join(str(error).split())[:200]} (in {settings.mlflow_tracking_uri}): "
            "`nmt run RECIPE` registers one"
        ) from None


def _search(folder: Path, beam_size: int | None) -> SearchConfig | None:
    """The model's own search settings with another beam size; None if they are to stay as they are."""
    if beam_size is None:
        return None
    if not 1 <= beam_size <= 64:
        raise ConfigError(f"--beam {beam_size}: must be from 1 to 64")
    file = folder / SEARCH_FILE
    own = SearchConfig.model_validate_json(file.read_bytes()) if file.is_file() else SearchConfig()
    return own.model_copy(update={"beam_size": beam_size})


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}, line {number}: not UTF-8 ({error.reason}): convert the file to UTF-8") from None


@contextlib.contextmanager
def _reading(name: str) -> Iterator[BinaryIO]:
    if name == _STANDARD:
        yield sys.stdin.buffer
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115  # closed below; only the opening may fail like this
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}): give the path of a text file") from None
    with file:
        yield file


@contextlib.contextmanager
def _writing(name: str) -> Iterator[BinaryIO]:
    """A file that appears only when it is whole."""
    if name == _STANDARD:
        yield sys.stdout.buffer
        return
    draft = Path(f"{name}.partial")
    try:
        file = draft.open("wb")
    except OSError as error:
        raise DataError(f"{name}: cannot be written ({error.strerror}): give a path in a folder that exists") from None
    try:
        with file:
            yield file
        draft.replace(name)
    finally:
        draft.unlink(missing_ok=True)
