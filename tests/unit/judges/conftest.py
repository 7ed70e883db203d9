"""A translation service on this machine that speaks the forms of four kinds of services over HTTP."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Service:
    """Service that turns text into capitals, with what it was asked and how it shall fail."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        """Path, body and headers of each request."""
        self.failures: list[tuple[int, str, dict[str, str]]] = []
        """Status, body and headers of the next answers."""
        self.loses = 0
        """Number of translations that are missing in each answer."""
        self.key = ""
        """Key without which the service refuses."""
        self.started = threading.Event()
        self.goes_on = threading.Event()
        self.goes_on.set()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append(
                    (self.path, body, {name.lower(): value for name, value in self.headers.items()})
                )
                service.started.set()
                service.goes_on.wait(60)
                status, text, headers = service.answer(*service.requests[-1])
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, str, dict[str, str]]:
        if self.failures:
            return self.failures.pop(0)
        keys = {body.get("api_key"), *(value.rpartition(" ")[2] for value in headers.values())}
        if self.key and self.key not in keys:
            return 403, f"wrong key {headers.get('authorization', '')}", {}
        if path == "/chat/completions":
            text = body["messages"][0]["content"].partition(" alone: ")[2].upper()
            return 200, json.dumps({"choices": [{"message": {"role": "assistant", "content": f" {text}\n"}}]}), {}
        sources = body["text"] if path == "/v2/translate" else body["q"]
        texts = [source.upper() for source in sources][self.loses :]
        answers = {
            "/translate": {"translatedText": texts},
            "/v2/translate": {"translations": [{"detected_source_language": "DE", "text": text} for text in texts]},
            "/language/translate/v2": {"data": {"translations": [{"translatedText": text} for text in texts]}},
        }
        return (200, json.dumps(answers[path]), {}) if path in answers else (404, "no such path", {})


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    thread = threading.Thread(target=service.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield service
    service.goes_on.set()
    service.server.shutdown()
    service.server.server_close()
    thread.join()
