"""A web server on the loopback that behaves or misbehaves as a test requires."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

Request = BaseHTTPRequestHandler
Answer = Callable[[Request], None]


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    """Make a fixed answer. A header overrides the correct one."""

    def send(request: Request) -> None:
        request.send_response(status)
        told = {"Content-Type": "application/octet-stream", "Content-Length": str(len(body))}
        for name, value in (told | {name.replace("_", "-"): value for name, value in headers.items()}).items():
            if value:
                request.send_header(name, value)
        request.end_headers()
        with suppress(OSError):  # the client may have gone
            request.wfile.write(body)

    return send


def file(body: bytes, etag: str = '"one"', *, cut: int = 0, **headers: str) -> Answer:
    """Make the answers of a good server for a file and its parts.

    With `cut`, the connection breaks after this many bytes.
    """

    def send(request: Request) -> None:
        status, start, told = 200, 0, {"ETag": etag, "Content-Length": str(len(body))}
        wanted = re.match(r"bytes=(\d+)-", request.headers.get("Range", ""))
        if wanted and request.headers.get("If-Range") == etag:
            status, start = 206, int(wanted[1])
            if start >= len(body):
                answer(416, Content_Range=f"bytes */{len(body)}")(request)
                return
            told["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            told["Content-Length"] = str(len(body) - start)
        sent = body[start : start + cut] if cut else body[start:]
        answer(status, sent, **told | headers)(request)

    return send


@dataclass
class WebServer:
    """Web server that serves each path with the next of its answers. The last answer is repeated."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        server, change = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with change:
                    server.requests.append(self)
                    answers = server.answers.get(self.path, [answer(404)])
                    chosen = answers.pop(0) if len(answers) > 1 else answers[0]
                chosen(self)

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"

    def serve(self, path: str, *answers: Answer) -> str:
        """Set the answers of a path, and return its address."""
        self.answers[f"/{path}"] = list(answers) or [answer(404)]
        return f"{self.root}/{path}"

    def serve_json(self, path: str, content: object, **headers: str) -> str:
        return self.serve(path, answer(200, json.dumps(content).encode(), Content_Type="application/json", **headers))

    def asked(self, header: str) -> list[str | None]:
        """Return the values of a header in the requests so far."""
        return [request.headers.get(header) for request in self.requests]


@pytest.fixture
def web() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def good() -> Callable[..., Answer]:
    """Make the answer of a server that serves a file well."""
    return file


@pytest.fixture
def says() -> Callable[..., Answer]:
    """Make a fixed answer."""
    return answer
