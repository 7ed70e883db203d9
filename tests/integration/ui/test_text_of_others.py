"""Hostile text of a corpus in a real browser: Prefect and MLflow show it, and the browser fetches nothing for it."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.display.markdown import cells, in_mlflow
from flows.display.reports import markdown
from flows.servers.servers import Server, held_port

pytestmark = [pytest.mark.ui, pytest.mark.timeout(900), pytest.mark.cpu(60)]

EVIL = "http://evil.example/t.gif"
TEXT = f"![x]({EVIL}) <img src={EVIL}> **bold** [click](javascript:alert(1)) ~~a~~ & \"b\" 'c' d@e.org www.f.org | _g_"


def ask(url: str, body: Any) -> Any:
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, data, headers, method="POST"), timeout=120) as response:
        return json.loads(response.read())


@pytest.fixture
def prefect(tmp_path: Path, prefect_database: Path) -> Iterator[str]:
    """Server whose pages are the pages of the installed version, without the changes that `nmt up` makes."""
    with held_port() as port:
        (tmp_path / "prefect.db").write_bytes(prefect_database.read_bytes())
        environment = {
            "PREFECT_HOME": str(tmp_path),
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_SERVER_UI_V2_ENABLED": "false",
            "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        }
        command = ["-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        server = Server("Prefect", command, tmp_path / "log", environment)
        server.wait_until(f"http://127.0.0.1:{port}/api/health", timeout=400)
        yield f"http://127.0.0.1:{port}"
        server.stop()


@pytest.fixture
def mlflow(tmp_path: Path, mlflow_database: Path) -> Iterator[str]:
    with held_port() as port:
        (tmp_path / "mlflow.db").write_bytes(mlflow_database.read_bytes())
        environment = {
            "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{tmp_path / 'mlflow.db'}",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        command = ["-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        server = Server("MLflow", command, tmp_path / "mlflow.log", environment)
        server.wait_until(f"http://127.0.0.1:{port}/health", timeout=400)
        yield f"http://127.0.0.1:{port}"
        server.stop()


def test_prefect_shows_a_report_and_a_table_as_they_are(prefect: str, page: Any, asked_outside: list[str]) -> None:
    report = markdown("evaluate", {"items_in": 1, "samples": [{"source": TEXT[:58]}], "reason": TEXT})
    shown = {
        "report": ("markdown", report),
        "table": ("table", json.dumps(cells([{"why": TEXT}]))),
        "live": ("markdown", TEXT),
    }
    for key, (kind, data) in shown.items():
        artifact = ask(
            f"{prefect}/api/artifacts/", {"key": key, "type": kind, "data": data, "description": "of a test"}
        )
        page.goto(f"{prefect}/artifacts/artifact/{artifact['id']}")
        if key == "live":  # the browser would fetch it, and this test would see it
            page.locator(f"img[src='{EVIL}']").first.wait_for(state="attached")
            page.wait_for_timeout(2_000)
            assert EVIL in asked_outside
        else:
            page.get_by_text(TEXT, exact=True).first.wait_for()
            page.wait_for_timeout(2_000)
            assert page.locator(f"img[src='{EVIL}']").count() == 0
            assert [address for address in asked_outside if "evil" in address] == []


def test_mlflow_shows_a_description_as_it_is(mlflow: str, page: Any, asked_outside: list[str]) -> None:
    api = f"{mlflow}/api/2.0/mlflow/registered-models/create"
    ask(api, {"name": "card", "description": f"## Limits\n\n- Hard: {in_mlflow(TEXT)}"})
    page.goto(f"{mlflow}/#/models/card")
    page.get_by_text(f"Hard: {TEXT}", exact=True).first.wait_for()
    page.wait_for_timeout(2_000)
    assert page.locator(f"img[src='{EVIL}']").count() == 0
    assert asked_outside == []
