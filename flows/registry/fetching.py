"""Fetch a registered model from MLflow, within a time that ends.

Clients of MLflow have no limit for the time of a file, and their threads keep a process alive that wants to end. So a
process of its own fetches from a server: it is ended when no byte has come for a while.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_core.errors import ModelError, words_of
from nmt_core.execution import processes

if TYPE_CHECKING:
    from flows.settings import Settings

SECONDS_WITHOUT_A_BYTE = 180.0
"""Time after which a model whose files do not grow is given up. A busy machine imports MLflow for a minute."""

_DIRECT = "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD"
_SECONDS_BETWEEN_LOOKS = 0.1
_GRACE_SECONDS = 2.0


class StalledError(ModelError):
    """Model whose files have stopped coming."""


def fetch_model(uri: str, folder: Path, settings: "Settings", seconds: float = SECONDS_WITHOUT_A_BYTE) -> Path:
    """Download the files of a registered model into a folder, and return the folder of its bundle.

    Args:
        uri: address such as `models:/NAME/3`.
        folder: existing folder for the files.
        settings: settings that name the registry, whose environment is prepared.
        seconds: time that may pass without a byte.

    Raises:
        ModelError: The registry has no such model.
        StalledError: Its files do not come.
    """
    address = settings.mlflow_tracking_uri
    if not address.startswith("http"):
        return Path(_download(uri, folder, address), "artifacts/bundle")
    with tempfile.TemporaryDirectory(prefix="nmt-fetch-") as temporary:
        answer = Path(temporary) / "answer.json"
        command = [sys.executable, "-m", __name__, uri, str(folder), address, str(answer)]
        environment = os.environ | {"MLFLOW_TRACKING_URI": address}  # it also says where models are registered
        process = processes.start(command, environment, subprocess.DEVNULL)
        try:
            _wait(process, folder, seconds, f"model {uri}: no byte of it has come from {settings.mlflow_shown}")
        finally:
            if process.poll() is None:
                processes.end(process, _GRACE_SECONDS)
        if not answer.exists():
            raise ModelError(
                f"model {uri}: the process that fetched it ended with code {process.returncode}: try again"
            )
        known = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in known:
        raise ModelError(known["error"])
    return Path(known["folder"], "artifacts/bundle")


def _wait(process: "subprocess.Popen[bytes]", folder: Path, seconds: float, missing: str) -> None:
    """Wait for the end of a process, as long as a folder grows."""
    size, since = 0, time.monotonic()
    while process.poll() is None:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        now = _bytes_in(folder)
        if now != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since > seconds:
            direct = os.environ.get(_DIRECT, "false") != "false"
            raise StalledError(
                f"{missing} for {seconds:g} s: check that this machine reaches it, and that its store of files answers"
                + (f"; unset {_DIRECT}, so that the files come through the server" if direct else "")
            )


def _bytes_in(folder: Path) -> int:
    """Return the disk space of the files in a folder: MLflow gives a file its size before its content."""
    return sum(file.stat().st_blocks for file in folder.rglob("*") if file.is_file())


def _download(uri: str, folder: Path, tracking_uri: str) -> str:
    import mlflow
    from mlflow.exceptions import MlflowException

    try:
        return str(mlflow.artifacts.download_artifacts(uri, dst_path=str(folder), tracking_uri=tracking_uri))
    except MlflowException as error:
        raise ModelError(words_of(error)) from None


def _main(uri: str, folder: str, tracking_uri: str, answer: str) -> None:
    """Fetch a model, and write its folder or what went wrong to a file."""
    known: dict[str, str] = {}
    try:
        known["folder"] = _download(uri, Path(folder), tracking_uri)
    except (ModelError, OSError) as error:
        known["error"] = words_of(error)
    written = Path(f"{answer}.partial")
    written.write_text(json.dumps(known), encoding="utf-8")
    written.rename(answer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m flows.registry.fetching", description="Fetch the files of a registered model into a folder."
    )
    for name, meaning in (
        ("uri", "models:/NAME/VERSION"),
        ("folder", "folder for the files"),
        ("tracking_uri", "address of the MLflow server"),
        ("answer", "file for the result"),
    ):
        parser.add_argument(name, help=meaning)
    _main(**vars(parser.parse_args()))
