"""A retraining through PostgreSQL, Prefect, a worker, MLflow and S3, with the settings of infra/compose.yaml.

Its secrets are words that occur nowhere else, and must be found nowhere at all.
"""

import base64
import contextlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import s3fs
from support.curves import trains
from support.prefect_forms import fill
from support.small import STEPS
from support.until import patient, until

from nmt_core.config import CleanConfig

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.cpu(90)]
_SECONDS_BETWEEN_LOOKS = 0.1
_SITE = "https://prefect.localhost"
_MILLISECONDS = 120_000  # for whatever a page should show


class CommandLines:
    """All command lines that `ps` shows to every user of this machine while the block lasts."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "CommandLines":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_SECONDS_BETWEEN_LOOKS):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    self.seen.add(file.read_bytes())


@dataclass
class Retrained:
    """A retraining that has ended, and everything that was visible of it."""

    stack: Any
    config: dict[str, Any]
    state: dict[str, Any]
    command_lines: set[bytes] = field(repr=False)

    @property
    def name(self) -> str:
        """Return the name of the recipe and of the model."""
        return str(self.config["name"])

    @property
    def bucket(self) -> s3fs.S3FileSystem:
        """The store, as the worker sees it."""
        environment = self.stack.environment("worker")
        return s3fs.S3FileSystem(
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            key=environment["AWS_ACCESS_KEY_ID"],
            secret=environment["AWS_SECRET_ACCESS_KEY"],
            use_listings_cache=False,
            skip_instance_cache=True,
        )


@pytest.fixture(scope="module")
def retrained(stack: Any, small_recipe: dict[str, Any]) -> Retrained:
    """A whole retraining, submitted to the work pool as the UI does."""
    with CommandLines() as lines:
        state = stack.ended(stack.retrain(small_recipe))
    return Retrained(stack, small_recipe, state, lines.seen)


def said(retrained: Retrained) -> str:
    return (retrained.stack.folder / "worker.log").read_text()[-4_000:]


@pytest.mark.slow
def test_it_ends_with_a_registered_model(retrained: Retrained) -> None:
    assert retrained.state["type"] == "COMPLETED", (retrained.state, said(retrained))
    with retrained.stack.postgres.connect("mlflow") as mlflow:
        query = "SELECT alias FROM registered_model_aliases WHERE name = %s ORDER BY alias"
        assert mlflow.execute(query, [retrained.name]).fetchall() == [("challenger",), ("champion",)]
        assert mlflow.execute("SELECT DISTINCT status FROM runs").fetchall() == [("FINISHED",)]
    with retrained.stack.postgres.connect("prefect") as prefect:
        tasks = prefect.execute("SELECT name FROM task_run WHERE state_type = 'COMPLETED'").fetchall()
        assert {name for (name,) in tasks} == {*STEPS}
        (worker,) = prefect.execute("SELECT status FROM worker").fetchall()
    assert worker == ("ONLINE",)


@pytest.mark.slow
def test_its_links_lead_to_where_browsers_find_the_pages(retrained: Retrained) -> None:
    """The worker uses an address of MLflow that no machine outside its networks knows."""
    with retrained.stack.postgres.connect("prefect") as prefect:
        links = dict(prefect.execute("SELECT key, data::text FROM artifact WHERE key LIKE 'mlflow-%'").fetchall())
    assert links.keys() == {f"mlflow-{step}" for step in STEPS}
    assert all("(https://mlflow.localhost/#/experiments/" in link for link in links.values()), links


@pytest.mark.slow
def test_its_files_lie_in_s3(retrained: Retrained) -> None:
    files = {Path(file).name for file in retrained.bucket.find("mlflow")}
    assert {"MLmodel", "spm.model", "report.md"} <= files
    assert sum(file.endswith(".onnx") for file in files) >= 2
    assert not any(file.endswith((".pkl", ".pickle", ".pt", ".pth")) for file in files)


@pytest.mark.slow
def test_its_artifacts_lie_in_s3_too(retrained: Retrained) -> None:
    """Each stage has published its artifact in NMT_STORE. The files of a stage are below `stage/fingerprint`."""
    manifests = [file.split("/") for file in retrained.bucket.find("artifacts") if file.endswith("/manifest.json")]
    assert {stage for *_, stage, _, _ in manifests} == {*STEPS} - {"register"}


@pytest.mark.slow
def test_it_translates_what_it_has_made(retrained: Retrained, tmp_path: Path) -> None:
    stack = retrained.stack
    environment = stack.environment("worker") | {
        "NMT_HOME": str(tmp_path)
    }  # a machine that has nothing but the address
    command = [sys.executable, "-c", "from flows.cli.app import main; main()"]
    command += ["translate", "--model", f"models:/{retrained.name}@champion"]
    done = subprocess.run(command, env=environment, input="the cat sees a dog .\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1


@pytest.mark.slow
def test_prefect_refuses_requests_without_the_password(stack: Any) -> None:
    command = [sys.executable, "-m", "prefect", "flow", "ls"]
    environment = stack.environment("worker")
    del environment["PREFECT_API_AUTH_STRING"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "401" in done.stdout + done.stderr


@pytest.mark.slow
def test_prefect_lets_pages_of_no_other_site_read_or_write(stack: Any) -> None:
    api, login = stack.here("http://prefect:4200/api"), ("nmt", stack.values["NMT_PASSWORD"])
    for origin, allowed in {
        "https://prefect.localhost": "https://prefect.localhost",
        "https://evil.example": "",
    }.items():
        answer = httpx.get(f"{api}/admin/version", auth=login, headers={"Origin": origin}, trust_env=False)
        assert answer.headers.get("Access-Control-Allow-Origin", "") == allowed
    assert httpx.post(f"{api}/flows/count", json={}, auth=login, trust_env=False).status_code == 403, "without a token"


@pytest.mark.slow
@pytest.mark.parametrize("page", ["mlflow.localhost", "prefect.localhost"])
def test_the_proxy_shows_pages_with_the_password(stack: Any, page: str) -> None:
    statuses = []
    with httpx.Client(verify=False, trust_env=False) as client:  # the certificate is Caddy's own
        for login in ("nmt:wrong", f"nmt:{stack.values['NMT_PASSWORD']}"):
            words = base64.b64encode(login.encode()).decode()
            answer = client.get(
                f"https://127.0.0.1:{stack.ports['443']}/",
                headers={"Host": page, "Authorization": f"Basic {words}"},
                extensions={"sni_hostname": page},
                timeout=patient(60),
            )
            statuses.append(answer.status_code)
    assert statuses[0] == 401
    assert statuses[1] < 400


@pytest.mark.slow
def test_the_proxy_asks_for_mlflow_too(stack: Any) -> None:
    address = stack.here("http://proxy:5001/api/2.0/mlflow/experiments/search?max_results=1")
    assert httpx.get(address, timeout=patient(60), trust_env=False).status_code == 401
    login = ("nmt", stack.values["NMT_PASSWORD"])
    assert httpx.get(address, auth=login, timeout=patient(60), trust_env=False).status_code == 200


def rows(connection: psycopg.Connection[Any]) -> Iterator[bytes]:
    """Every row of every table of a database, as text."""
    tables = connection.execute("SELECT format('%I', tablename) FROM pg_tables WHERE schemaname = 'public'").fetchall()
    for (table,) in tables:
        for (row,) in connection.execute(f"SELECT t::text FROM {table} t"):  # type: ignore[arg-type]
            yield row.encode()


def places(retrained: Retrained) -> dict[str, list[bytes]]:
    """Return everything that is stored or shown, by kind of place."""
    stack, found = retrained.stack, {}
    for database in ("prefect", "mlflow"):
        with stack.postgres.connect(database) as connection:
            found[database] = list(rows(connection))
    files = [file for file in stack.folder.rglob("*") if file.is_file()]
    found["summaries"] = [file.read_bytes() for file in files if file.name == "summary.json"]
    found["manifests"] = [file.read_bytes() for file in files if file.name == "manifest.json"]
    found["all files"] = [file.read_bytes() for file in files]
    found["logs"] = [file.read_bytes() for file in stack.folder.glob("*.log")]
    bucket = retrained.bucket
    found["s3"] = [bucket.cat_file(file) for bucket_name in bucket.ls("") for file in bucket.find(bucket_name)]
    found["command lines"] = list(retrained.command_lines)
    return found


@pytest.mark.slow
def test_no_secret_is_found_anywhere(retrained: Retrained) -> None:
    """The name of the recipe is searched in the same way, so that a search in the wrong place cannot pass."""
    everything = places(retrained)
    for secret in retrained.stack.values.values():
        for place, texts in everything.items():
            assert not any(secret.encode() in text for text in texts), (secret, place)
    found_in = {place for place, texts in everything.items() if any(retrained.name.encode() in text for text in texts)}
    assert found_in >= everything.keys() - {"logs", "command lines"}
    assert any(b"torch.distributed.run" in line or b"torchrun" in line for line in everything["command lines"])
    assert any(b"Uvicorn running" in text or b"Worker" in text for text in everything["logs"])


@pytest.mark.nightly
def test_the_database_restarts_in_mid_run(stack: Any, small_recipe: dict[str, Any]) -> None:
    """PostgreSQL goes away for seconds while it trains: both servers lose all their connections."""
    longer = small_recipe | {"name": f"{small_recipe['name']}-again"}
    longer["train"] = longer["train"] | {"max_updates": 400, "validate_every": 100, "checkpoint_every": 100}
    flow_run = stack.retrain(longer)
    wait_for_training(stack)
    stack.postgres.stop()
    time.sleep(8)  # for which it is away
    stack.postgres.start()
    state = stack.ended(flow_run)
    assert state["type"] == "COMPLETED", (state, (stack.folder / "worker.log").read_text()[-4_000:])
    with stack.postgres.connect("mlflow") as mlflow:
        query = "SELECT count(*) FROM model_versions WHERE name = %s"
        assert mlflow.execute(query, [longer["name"]]).fetchone() == (1,)
        left = "SELECT name, start_time, lifecycle_stage FROM runs WHERE status = 'RUNNING'"
        assert mlflow.execute(left).fetchall() == []


def wait_for_training(stack: Any) -> None:
    """Return when updates are being made."""
    until(lambda: trains(stack.home), (stack.folder / "worker.log").read_text)


@pytest.fixture
def browser(chromium: Any, stack: Any) -> Iterator[Any]:
    """An empty page of a browser that knows the password. The certificate is Caddy's own, and its port is not 443."""
    rules = f"--host-resolver-rules=MAP prefect.localhost:443 127.0.0.1:{stack.ports['443']}"
    login = {"username": "nmt", "password": stack.values["NMT_PASSWORD"]}
    context = chromium(rules).new_context(http_credentials=login, ignore_https_errors=True)
    context.route(lambda url: not url.startswith(_SITE), lambda route: route.abort())  # nothing leaves this machine
    page = context.new_page()
    page.set_default_timeout(_MILLISECONDS)
    yield page
    context.close()


@pytest.mark.ui
def test_a_stage_is_started_from_its_form(stack: Any, browser: Any) -> None:
    download, clean = (stack.prefect(f"deployments/name/{stage}/quickstart")["id"] for stage in ("download", "clean"))
    before = stack.prefect(f"deployments/{download}/create_flow_run", {"state": {"type": "SCHEDULED"}})["id"]
    assert stack.ended(before)["type"] == "COMPLETED", "what it cleans"
    browser.goto(f"{_SITE}/deployments/deployment/{clean}/run")
    max_words = browser.locator(
        ".schema-form-property", has=browser.get_by_text("Max Words (Optional)", exact=True)
    ).last
    fill(max_words.locator("input"), "12")
    labels = browser.locator(".schema-form-property__label").all_inner_texts()
    shown = [label.removesuffix(" (Optional)") for label in labels]
    options = [option["title"] for option in CleanConfig.model_json_schema()["properties"].values()]
    in_order = ["input", "force", "changes", "clean", *options, "recipe"]
    assert shown == in_order, "in the order of the form and of its section, which a database may lose"
    with browser.expect_response(re.compile(rf"/deployments/{clean}/create_flow_run")) as answer:
        browser.get_by_role("button", name="Submit").click()
    run = answer.value.json()["id"]
    assert stack.ended(run)["type"] == "COMPLETED"
    assert stack.prefect(f"flow_runs/{run}")["parameters"]["clean"]["max_words"] == 12
