"""Servers are started on free ports, and end with what started them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.until import patient, until

from flows.servers.servers import PrefectApi, Server, ServerError, answers, held_port, start_mlflow
from flows.settings import Settings
from nmt_core.errors import ConfigError

_SLEEP = "import time; time.sleep(600)"
_WITH_A_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {_SLEEP!r}]); {_SLEEP}"


def test_a_port_in_use_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with held_port(port) as other:
            assert other != port
    with held_port(port) as found:
        assert found == port


def test_a_port_with_remains_of_connections_is_not_passed_over() -> None:
    """A server that has just ended leaves such connections."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        port = server.getsockname()[1]
        server.accept()[0].close()  # who closes first keeps the remains
        assert client.recv(1) == b""
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port))
    with held_port(port) as found:
        assert found == port


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port that is held cannot be bound by a server")
def test_a_port_that_is_held_belongs_to_the_server_that_is_told_of_it() -> None:
    with held_port() as port:
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        for _ in range(2):  # it may be started again
            with socket.create_server(("127.0.0.1", port)) as server:
                with socket.create_connection(server.getsockname()):
                    server.accept()[0].close()
                with held_port() as other:
                    assert other != port


def test_a_server_that_ends_at_once_is_an_error_that_names_its_log(tmp_path: Path, free_port: int) -> None:
    server = Server("the server", ["-c", "print('no port'); raise SystemExit(3)"], tmp_path / "log.txt", {})
    with pytest.raises(ServerError, match=f"the server did not start .ended with code 3.: see {tmp_path}/log.txt"):
        server.wait_until(f"http://127.0.0.1:{free_port}/health")
    assert (tmp_path / "log.txt").read_text() == "no port\n"


def test_a_server_answers_and_leaves_nothing_behind(tmp_path: Path, free_port: int) -> None:
    command = ["-m", "http.server", "--bind", "127.0.0.1", str(free_port)]
    server = Server("the server", command, tmp_path / "log.txt", {})
    server.wait_until(f"http://127.0.0.1:{free_port}/", timeout=patient(30))
    server.stop()
    assert server.ended()
    assert not answers(f"http://127.0.0.1:{free_port}/")


def test_descendants_end_as_well(tmp_path: Path) -> None:
    server = Server("the server", ["-c", _WITH_A_CHILD], tmp_path / "log.txt", {})
    process = psutil.Process(server.pid)
    children = until(process.children)
    server.stop()
    assert not any(child.is_running() for child in [process, *children])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent has died")
def test_a_server_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    log = str(tmp_path / "log.txt")
    code = (
        "import time; from pathlib import Path; from flows.servers.servers import Server;"
        f"print(Server('s', ['-c', {_SLEEP!r}], Path({log!r}), {{}}).pid, flush=True); {_SLEEP}"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout
    server = psutil.Process(int(starter.stdout.readline()))
    starter.kill()
    starter.communicate()
    until(lambda: not server.is_running())


def test_a_prefect_that_does_not_answer_is_named(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{free_port}/api"
    monkeypatch.setenv("PREFECT_API_URL", url)
    settings = Settings.load({"NMT_HOME": str(tmp_path), "PREFECT_API_URL": url})
    with PrefectApi(settings).connected() as api, pytest.raises(ConfigError, match=f"{url}.*unset PREFECT_API_URL"):
        api.wait()
    assert os.environ["PREFECT_API_URL"] == url


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_password_of_a_database_is_no_argument(tmp_path: Path, free_port: int) -> None:
    """`ps` shows arguments to every user of the machine."""
    address = f"postgresql+psycopg://nmt:{'planted'}@127.0.0.1:{free_port}/mlflow"
    settings = Settings.load({"NMT_HOME": str(tmp_path), "MLFLOW_TRACKING_URI": address})
    server = start_mlflow(settings, free_port)
    try:
        process = psutil.Process(server.pid)
        until(process.environ)  # it is empty while the process becomes another program
        assert process.environ()["MLFLOW_BACKEND_STORE_URI"] == address
        assert "mlflow" in process.cmdline()
        assert not any("planted" in word for word in process.cmdline())
    finally:
        server.stop(grace=1)
