"""A webhook on this machine, for Prefect to call."""

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.until import until


class Webhook:
    """What a chat's server is to Prefect: it takes whatever is posted, and here keeps it."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        """Paths that were called, with their queries."""
        self.bodies: list[dict[str, Any]] = []
        """What was posted, as it came."""
        told = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # so `http.server` calls it
                told.paths.append(self.path)
                told.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/failures"

    def told_of(self, flow_run: str) -> dict[str, Any]:
        """What was posted about a flow run, as soon as something is."""
        return until(
            lambda: [body for body in list(self.bodies) if body["flow_run"] == flow_run],
            lambda: f"nobody was told: {self.bodies}",
        )[0]


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    thread = threading.Thread(target=webhook.server.serve_forever)
    thread.start()
    yield webhook
    webhook.server.shutdown()
    thread.join()
    webhook.server.server_close()
