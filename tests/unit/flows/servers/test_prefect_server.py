"""Our Prefect server accepts clients with the password, and loses no click to a lock of its database."""

import concurrent.futures
import http.client
import os
import sqlite3
import stat
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from support.prefect_api import headers

from flows.servers.secret import kept_secret, new_secret
from flows.servers.servers import lets_us_in, use_known_prefect
from flows.settings import Settings
from nmt_core.errors import ConfigError
from nmt_core.execution.processes import this_process


def status(api: str, path: str, **given: str) -> int:
    """The status of an answer to a request with exactly these headers."""
    connection = http.client.HTTPConnection(urlsplit(api).netloc, timeout=60)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in ({"Host": urlsplit(api).netloc} | given).items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse().status
    connection.close()
    return answer


def test_only_its_own_name_and_its_own_pages_are_answered(prefect_server: Any) -> None:
    api = prefect_server.address
    port, secret = urlsplit(api).port, headers(api, prefect_server.secret)["Authorization"]
    path = "/api/admin/version"
    assert status(api, path) == 401
    assert status(api, path, Authorization="Basic bm10Om5tdA==") == 401
    assert status(api, path, Authorization=secret) == 200
    assert status(api, path, Authorization=secret, Host=f"localhost:{port}") == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", f"[::1]:{port}", "0.0.0.0", ""):
        assert status(api, path, Authorization=secret, Host=host) == 400, host
        assert status(api, "/api/health", Host=host) == 400, host
    for origin in (f"http://localhost:{port}", f"http://127.0.0.1:{port}"):
        assert status(api, path, Authorization=secret, Origin=origin) == 200
    for origin in (
        "http://evil.example",
        "null",
        f"https://127.0.0.1:{port}",
        "http://127.0.0.1",
        "http://localhost:1",
    ):
        assert status(api, path, Authorization=secret, Origin=origin) == 403, origin
        assert status(api, "/api/health", Origin=origin) == 403, origin
    for site in ("cross-site", "same-site"):
        assert status(api, path, Authorization=secret, Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors") == 403
        framed = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}
        assert status(api, "/api/health", Sec_Fetch_Site=site, **framed) == 403
        assert status(api, "/api/health", Sec_Fetch_Site=site, **framed | {"Sec_Fetch_Dest": "document"}) == 200


def test_a_post_without_a_token_is_refused(prefect_server: Any) -> None:
    own = headers(prefect_server.address, prefect_server.secret)
    url = f"{prefect_server.address}/flows/count"
    assert httpx.post(url, json={}, headers={"Authorization": own["Authorization"]}).status_code == 403
    assert httpx.post(url, json={}, headers=own).status_code == 200


def test_a_lock_between_reading_and_writing_is_outwaited(prefect_server: Any) -> None:
    """Another process writes again and again while the schedules of a deployment are paused and resumed.

    Without our settings, Prefect would begin to read, find that another process has written meanwhile, and fail at once
    with 503.
    """
    api, own = prefect_server.address, headers(prefect_server.address, prefect_server.secret)
    done, writes = threading.Event(), 0

    def write() -> None:
        nonlocal writes
        with sqlite3.connect(prefect_server.database, timeout=60) as connection:
            while not done.is_set():
                connection.execute("begin immediate")
                connection.execute("update csrf_token set updated = updated")
                connection.commit()
                writes += 1
                time.sleep(0.005)  # otherwise no other connection would get the lock
        connection.close()

    with httpx.Client(base_url=f"{api}/", headers=own, timeout=120) as client:
        deployment, schedule = scheduled(client)
        path = f"deployments/{deployment}/schedules/{schedule}"
        writer = threading.Thread(target=write)
        writer.start()
        try:
            with concurrent.futures.ThreadPoolExecutor(4) as clicks:
                active, answers = [bool(number % 2) for number in range(60)], []
                while len(answers) < 60 or writes < 10:  # on a busy machine the other gets the lock less often
                    patched = clicks.map(lambda value: client.patch(path, json={"active": value}), active)
                    answers += [answer.status_code for answer in patched]
        finally:
            done.set()
            writer.join()
    assert answers == [204] * len(answers)


def scheduled(client: httpx.Client) -> tuple[str, str]:
    """Make a deployment with a schedule, and return the ids of both."""
    flow = client.post("flows/", json={"name": "clicked"}).json()["id"]
    schedule = {"active": True, "schedule": {"cron": "0 3 * * *", "timezone": "UTC"}}
    made = client.post("deployments/", json={"name": "clicked", "flow_id": flow, "schedules": [schedule]}).json()
    return made["id"], made["schedules"][0]["id"]


def test_the_secret_is_random_kept_and_private(tmp_path: Path) -> None:
    file = tmp_path / "home" / "prefect" / "secret"
    secret = kept_secret(file)
    user, _, password = secret.partition(":")
    assert user == "nmt" and len(password) >= 40 and new_secret() != new_secret()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert kept_secret(file) == secret
    assert [each.name for each in file.parent.iterdir()] == ["secret"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_secret_that_others_could_read_or_write_is_replaced(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "secret"
    secret = kept_secret(file)
    file.chmod(mode)
    assert kept_secret(file) != secret
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_empty_secret_lets_no_client_in(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(0o600)
    assert len(kept_secret(file)) > 40


def test_a_secret_that_cannot_be_kept_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigError, match=f"{tmp_path}/file/secret: the password of the Prefect server cannot be stored"
    ):
        kept_secret(tmp_path / "file" / "secret")


@pytest.mark.parametrize("spelled", ["", "127.0.0.1", "localhost"])
def test_clients_find_the_secret_of_a_running_nmt_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: Any, spelled: str
) -> None:
    """This holds even if the environment has the password of another server."""
    monkeypatch.setenv("PREFECT_API_URL", "")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "nmt:of-another")
    address = prefect_server.address
    environment = {"NMT_HOME": str(tmp_path)}
    if spelled:
        environment["PREFECT_API_URL"] = address.replace("127.0.0.1", spelled)
    settings = Settings.load(environment)
    settings.secret_file.parent.mkdir(parents=True)
    settings.secret_file.write_text(f"{prefect_server.secret}\n")
    settings.servers_file.write_text(f'{{"process": "{this_process()}", "prefect": "{address}", "mlflow": ""}}')
    assert not lets_us_in(address)
    use_known_prefect(settings)
    assert os.environ["PREFECT_API_URL"] == environment.get("PREFECT_API_URL", address)
    assert os.environ["PREFECT_API_AUTH_STRING"] == prefect_server.secret
    assert lets_us_in(os.environ["PREFECT_API_URL"])


def test_a_secret_that_is_not_for_us_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    settings.servers_file.write_text(
        f'{{"process": "{this_process()}", "prefect": "http://127.0.0.1:1/api", "mlflow": ""}}'
    )
    with pytest.raises(
        ConfigError, match=f"{settings.secret_file}: the password of the running `nmt up` cannot be read"
    ):
        use_known_prefect(settings)
