"""A stand-in for an API server, an operator and a kubelet, which shows nothing about a real Kubernetes.

It keeps the objects that it is given, runs the command of a job's container as one process of this machine (the pod),
streams the output of the process with the time before each line, and changes the job's conditions. On deletion the
process gets SIGTERM, and the object disappears when the process has ended. Tests can make it fail, and make it break
streams.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
_JOBS = re.compile(r"/apis/(?P<group>[^/]+)/[^/]+/namespaces/(?P<namespace>[^/]+)/(?P<plural>[a-z]+)(/(?P<name>.+))?")
_PODS = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods(/(?P<name>[^/]+)(?P<log>/log)?)?")
_END = {"TrainJob": ("Complete", "Failed"), "PyTorchJob": ("Succeeded", "Failed")}


@dataclass
class Running:
    """A job and its pod."""

    job: Object
    pod: str
    process: "subprocess.Popen[bytes]"
    lines: list[tuple[str, str]] = field(default_factory=list)
    """Time and text."""
    has_ended: threading.Event = field(default_factory=threading.Event)

    def follow_output(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            now = datetime.now(UTC)
            self.lines.append((f"{now:%Y-%m-%dT%H:%M:%S.%f}000Z", line.decode().rstrip("\n")))
        code = self.process.wait()
        end = _END[self.job["kind"]][code != 0]
        self.condition(end, "" if code == 0 else f"exit code {code}")
        self.has_ended.set()

    def condition(self, kind: str, message: str = "") -> None:
        conditions = self.job.setdefault("status", {}).setdefault("conditions", [])
        conditions.append({"type": kind, "status": "True", "reason": f"{kind}ByStandIn", "message": message})

    @property
    def phase(self) -> str:
        return "Running" if self.process.poll() is None else "Failed" if self.process.returncode else "Succeeded"


class KubernetesStandIn(ThreadingHTTPServer):
    """Server, and the faults that a test may cause."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.jobs: dict[str, Running] = {}
        self.requests: list[str] = []
        self.away = False
        """True if every request fails."""
        self.lines_of_a_stream = 0
        """Number of lines after which a stream of a log breaks. 0 means never."""
        self.refusal: tuple[int, str] | None = None
        """Status and body of the answer to every attempt to create a job."""
        self.hides_pods = False
        """True if jobs have no pods."""
        self.pod_status: Object = {}
        """Further values in the status of each pod."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def start_job(self, job: Object) -> None:
        name, kind = job["metadata"]["name"], job["kind"]
        if kind == "TrainJob":
            container, pod = job["spec"]["trainer"], f"{name}-node-0-0-x7x7x"
        else:
            container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
            pod = f"{name}-worker-0"
        command = [sys.executable if word == "python" else word for word in container["command"]]
        # The name of the first pod means nothing here; its address is this machine's.
        arguments = ["127.0.0.1:0" if ":29500" in word else word for word in container["args"]]
        process = subprocess.Popen(
            [*command, *arguments],
            env=os.environ | {each["name"]: each["value"] for each in container["env"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        running = self.jobs[name] = Running(job, pod, process)
        running.condition("Created" if kind == "PyTorchJob" else "Suspended", "for a moment")
        threading.Thread(target=running.follow_output, daemon=True).start()

    def delete_job(self, name: str) -> None:
        running = self.jobs[name]
        running.job["metadata"]["deletionTimestamp"] = "now"
        running.process.terminate()

        def remove() -> None:
            running.has_ended.wait()
            time.sleep(0.1)
            del self.jobs[name]

        threading.Thread(target=remove, daemon=True).start()

    def end(self) -> None:
        self.shutdown()
        self.server_close()
        for running in self.jobs.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.process.pid, signal.SIGKILL)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: KubernetesStandIn

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Suppress the log of requests."""

    def handle_one_request(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        place = urlsplit(self.path)
        self.server.requests.append(f"{self.command} {self.path}")
        if self.server.away:
            self._answer(503, {"kind": "Status", "message": "away"})
        elif found := _JOBS.fullmatch(place.path):
            self._job(found["name"] or "", body)
        elif found := _PODS.fullmatch(place.path):
            self._pod(found["name"] or "", found["log"], parse_qs(place.query))

    def _job(self, name: str, body: bytes) -> None:
        jobs = self.server.jobs
        if self.command == "POST":
            job = json.loads(body)
            if self.server.refusal:
                status, message = self.server.refusal
                self._answer(status, {"kind": "Status", "message": message})
            elif job["metadata"]["name"] in jobs:
                self._answer(409, {"kind": "Status", "reason": "AlreadyExists"})
            else:
                self.server.start_job(job)
                self._answer(201, job)
        elif name not in jobs:
            self._answer(404, {"kind": "Status", "reason": "NotFound"})
        elif self.command == "DELETE":
            self.server.delete_job(name)
            self._answer(200, {"kind": "Status", "status": "Success"})
        else:
            self._answer(200, jobs[name].job)

    def _pod(self, name: str, log: str | None, query: dict[str, list[str]]) -> None:
        found = [running for running in self.server.jobs.values() if name in {"", running.pod}]
        found = [] if self.server.hides_pods else found
        pods = [
            {"metadata": {"name": each.pod}, "status": {"phase": each.phase} | self.server.pod_status} for each in found
        ]
        if not name:
            wanted = query["labelSelector"][0].rpartition("=")[2]
            pods = [pod for pod, each in zip(pods, found, strict=True) if each.job["metadata"]["name"] == wanted]
            self._answer(200, {"kind": "PodList", "apiVersion": "v1", "items": pods})
        elif not found:
            self._answer(404, {"kind": "Status", "reason": "NotFound"})
        elif log:
            self._stream(found[0], float(query.get("sinceSeconds", ["inf"])[0]))
        else:
            self._answer(200, pods[0])

    def _stream(self, running: Running, since_seconds: float) -> None:
        """Send all lines that are recent enough, then new ones, in chunks. If set so, break after some lines."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent, allowed = 0, self.server.lines_of_a_stream
        began = datetime.now(UTC).timestamp() - since_seconds
        while True:
            is_complete = running.has_ended.is_set()
            for written, text in running.lines[sent:]:
                sent += 1
                if datetime.fromisoformat(written[:26]).replace(tzinfo=UTC).timestamp() < began:
                    continue
                data = f"{written} {text}\n".encode()
                if allowed and sent > allowed:
                    self._chunk(data[: len(data) // 2])
                    self.server.lines_of_a_stream += allowed  # the next stream comes further
                    self.close_connection = True
                    return
                self._chunk(data)
            if is_complete and sent == len(running.lines):
                self._chunk(b"")
                return
            time.sleep(0.02)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _answer(self, status: int, content: Object) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
