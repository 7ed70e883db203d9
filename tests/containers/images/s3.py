"""An S3 server that keeps what it has over a restart: moto's, which records requests and repeats them when it starts.

It takes the command line of SeaweedFS in infra/compose.yaml. Unlike that server it accepts every key.
"""

import os
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

options = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
PORT = int(options["s3.port"])
RECORDING = Path(options["dir"]) / "recording"
RECORDING.touch()
# A server that was killed leaves part of a line.
whole, mark, _ = RECORDING.read_text(encoding="utf-8").rpartition("\n")
RECORDING.write_text(whole + mark, encoding="utf-8")
os.environ["MOTO_RECORDER_FILEPATH"] = str(RECORDING)

from moto.moto_api._internal.recorder.models import Recorder  # noqa: E402  # it reads the environment
from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: E402
from werkzeug.serving import run_simple  # noqa: E402

ready = threading.Event()
one_at_a_time = threading.Lock()
record = Recorder._record_request


def record_alone(self: Recorder, *arguments: Any) -> None:
    """Record a request while no other thread writes."""
    with one_at_a_time:
        record(self, *arguments)


Recorder._record_request = record_alone
moto = DomainDispatcherApplication(create_backend_app)


def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Answer the health check of SeaweedFS, and leave all else to moto."""
    if environ["PATH_INFO"] == "/healthz":
        start("200 OK" if ready.is_set() else "503 Service Unavailable", [])
        return []
    return moto(environ, start)


def repeat() -> None:
    """Repeat what was recorded, then record what comes."""
    for step in ("replay-recording", "start-recording"):
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}/moto-api/recorder/{step}", data=b"", method="POST")
        while True:
            try:
                urllib.request.urlopen(request)
                break
            except OSError:  # not listening yet
                ready.wait(0.2)
    ready.set()


threading.Thread(target=repeat, daemon=True).start()
run_simple(options.get("s3.ip.bind", "127.0.0.1"), PORT, application, threaded=True)
