"""A model is fetched, or a message gives the reason. The command never waits silently without an end."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flows.registry.fetching import StalledError, fetch_model
from flows.registry.models import model_of
from flows.settings import Settings
from nmt_core.errors import ModelError

_DIRECT = "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD"


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Undo the environment variables that `prepare` sets."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that takes every request and never answers."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def take() -> None:
            while True:
                try:
                    taken.append(listening.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield f"http://user:secret@127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()
    for connection in taken:
        connection.close()


def settings_of(home: Path, address: str) -> Settings:
    return Settings.load({"NMT_HOME": str(home), "MLFLOW_TRACKING_URI": address})


def test_a_server_that_sends_nothing_is_given_up(tmp_path: Path, silent_server: str) -> None:
    settings = settings_of(tmp_path, silent_server)
    with pytest.raises(StalledError) as raised:
        fetch_model("models:/quickstart/1", tmp_path, settings, seconds=0.5)
    message = str(raised.value)
    assert all(fact in message for fact in ("models:/quickstart/1", "0.5 s", "127.0.0.1")), message
    assert "secret" not in message
    assert _DIRECT not in message, "files come through the server already"
    assert not [child for child in psutil.Process().children() if "fetching" in " ".join(child.cmdline())]


def test_it_names_the_setting_by_which_clients_ask_s3_themselves(
    tmp_path: Path, silent_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_DIRECT, "true")
    with pytest.raises(StalledError, match=f"unset {_DIRECT}"):
        fetch_model("models:/quickstart/1", tmp_path, settings_of(tmp_path, silent_server), seconds=0.2)


def test_files_go_through_the_server_unless_a_setting_decides_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.environment_variables import MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD as DOWNLOAD
    from mlflow.environment_variables import MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD as UPLOAD

    for variable in (DOWNLOAD, UPLOAD):
        monkeypatch.setenv(variable.name, "")
    settings_of(tmp_path, "http://127.0.0.1:9").prepare()
    assert [(variable.is_set(), variable.get()) for variable in (DOWNLOAD, UPLOAD)] == [(True, False), (True, False)]
    monkeypatch.setenv(DOWNLOAD.name, "true")
    settings_of(tmp_path, "http://127.0.0.1:9").prepare()
    assert DOWNLOAD.get() is True


def test_what_the_server_refuses_is_reported_at_once(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with (
        pytest.raises(ModelError, match=r"refused|Max retries"),
        model_of("models:/quickstart/1", settings_of(tmp_path, f"http://127.0.0.1:{free_port}")),
    ):
        pass
