"""A process that has imported what `nmt` imports, and forks for each command of a test.

To start Python and import Prefect, MLflow and torch takes four CPU-seconds, and a fork of a process that has done so
0.03.
A fork is a process as any other: it has its own streams, folder, environment, session and exit code, and can be
killed. It does not test the imports and their order, nor how the interpreter frees its memory at its end. The README's
commands and the tests that say `anew=True` start Python from nothing.

This process has one thread and has opened nothing, so no lock can be held by a thread that a fork lacks. Libraries that
start threads when they are imported (`THREADED`) are therefore left to the forks, and so are all modules of ours that
import them. Polars and pyarrow start threads only for jemalloc, which `QUIET` forbids, and Polars one that waits to
delete what it has spilled to disk (`IDLE`), which no test does. Prefect reads its settings when it is imported; its
modules are put aside, and read their settings anew when a fork imports them (`PutAside`).
"""

import atexit
import contextlib
import faulthandler
import gc
import importlib
import importlib.abc
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

THREADED = {"onnxruntime"}
"""Libraries that start threads when they are imported."""
QUIET = dict.fromkeys(("_RJEM_MALLOC_CONF", "JE_ARROW_MALLOC_CONF"), "background_thread:false")
"""Environment in which the allocators of Polars and pyarrow start no thread."""
IDLE = {"polars-ooc-clea"}
"""Threads that hold nothing and wait for what never comes."""
IMPORTED = (
    *("torch", "torch.distributed.checkpoint", "sacrebleu", "sentencepiece", "safetensors.torch"),
    *("onnx", "redis.asyncio", "polars", "pyarrow.parquet", "pyarrow.compute", "graphviz", "jinja2", "markdown_it"),
    *("nmt_core.stages.table", "nmt_core.recipes.recipe", "nmt_core.train.launch", "nmt_core.models.build"),
    *("nmt_core.corpus.download", "nmt_core.corpus.toy", "nmt_core.corpus.mix", "nmt_core.corpus.split"),
    *("nmt_core.tokenizer.learn", "nmt_core.batches.encode", "nmt_core.documents.opening", "nmt_core.pages.page"),
    *("flows.cli.app", "flows.settings", "flows.display.progress", "flows.runs.forecast", "flows.cli.closing"),
    *("flows.servers.servers", "flows.html_report.training", "flows.launchers"),
    *("prefect", "prefect.flows", "prefect.tasks", "prefect.artifacts", "prefect.runtime", "prefect.deployments"),
    *("prefect.events", "prefect.logging.handlers", "prefect.client.orchestration", "prefect.events.worker"),
    *("mlflow", "mlflow.tracking", "mlflow.pyfunc", "mlflow.store.tracking.sqlalchemy_workspace_store"),
    *("mlflow.store.model_registry.sqlalchemy_workspace_store", "mlflow.system_metrics.metrics.network_monitor"),
    *("sqlalchemy.dialects.sqlite", "alembic.command", "pydantic.v1", "anyio._backends._asyncio"),
    *("httpx", "rich.live", "rich.table", "fsspec", "ftfy"),
)
MOST_BYTES = 1 << 20
STREAMS = 3


class Blocked(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook that keeps libraries that start threads out of this process.

    They are found, but importing one fails.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`."""
        is_blocked = fullname.partition(".")[0] in THREADED
        return importlib.util.spec_from_loader(fullname, self) if is_blocked else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """See `Loader.create_module`."""
        raise ModuleNotFoundError(spec.name, name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """See `Loader.exec_module`."""


class PutAside(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook that holds the modules of Prefect, and gives them back with the present settings."""

    def __init__(self) -> None:
        names = [name for name in sys.modules if name.partition(".")[0] == "prefect"]
        self.modules = {name: sys.modules.pop(name) for name in names}
        self.spec = self.modules["prefect"].__spec__

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`."""
        return importlib.util.spec_from_loader(fullname, self) if fullname == "prefect" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """See `Loader.create_module`."""
        return self.modules["prefect"]

    def exec_module(self, module: ModuleType) -> None:
        """See `Loader.exec_module`."""
        sys.meta_path.remove(self)
        module.__spec__ = self.spec
        sys.modules.update(self.modules)
        self.modules["prefect.context"].refresh_global_settings_context()
        logging = self.modules["prefect.logging.configuration"]
        logging.PROCESS_LOGGING_CONFIG.clear()
        logging.setup_logging()


def import_all() -> None:
    """Import what commands need, and put Prefect aside."""
    importlib.import_module("torch._dynamo")  # which looks for what is not to be imported
    blocked = Blocked()
    sys.meta_path.insert(0, blocked)
    for name in IMPORTED:
        if name == "prefect":
            assert not {"prefect", "mlflow"} & sys.modules.keys(), (
                "a module of ours would hold settings of this process"
            )
        importlib.import_module(name)
    sys.meta_path.remove(blocked)
    sys.meta_path.insert(0, PutAside())
    gc.collect()
    gc.freeze()  # the memory that forks share stays shared


class Forker:
    """Process that forks on request until the other end of the channel is closed."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._statuses: dict[int, int] = {}
        """Descriptor of the pipe on which the end of each fork is reported, by process id."""
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def serve(self) -> bool:
        """Serve, and return True in each fork, or False in this process when nothing more is asked."""
        while True:
            ready, _, _ = select.select([self._channel, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 4_096)
                self._report()
            if self._channel in ready:
                request, files, _, _ = socket.recv_fds(self._channel, MOST_BYTES, STREAMS + 1)
                if not request:
                    return False
                if self._fork(json.loads(request), files):
                    return True

    def _fork(self, request: dict[str, Any], files: list[int]) -> bool:
        """Fork, and return True in the new process."""
        threads = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
        assert len(set(threads) - IDLE) == 1, f"to fork is not safe beside other threads: {threads}"
        process = os.fork()
        if process == 0:
            self._become(request, files)
            return True
        self._statuses[process] = files.pop()
        for file in files:
            os.close(file)
        return False

    def _report(self) -> None:
        """Report the status of the forks that have ended."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                process, status = ended
                file = self._statuses.pop(process)
                with contextlib.suppress(BrokenPipeError):
                    os.write(file, str(status).encode())
                os.close(file)

    def _become(self, request: dict[str, Any], files: list[int]) -> None:
        """Turn a fork into what a new interpreter would be."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if request["session"]:
            os.setsid()
        for stream, file in enumerate(files[:STREAMS]):
            os.dup2(file, stream)
        os.chdir(request["folder"])
        self._channel.send(str(os.getpid()).encode())  # not sooner: a caller may signal the new session at once
        self._channel.close()
        for file in (*files, *self._statuses.values(), self._woken, self._wake):
            os.close(file)
        os.environ.clear()
        os.environ.update(request["environment"])
        if os.environ.get("PYTHONFAULTHANDLER"):
            faulthandler.enable()
        sys.argv[:] = ["-c", *request["arguments"]]
        sys.path[0] = ""


def life() -> bool:
    """Run this process. Return True in a fork that has a command to run."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    import_all()
    channel.send(b"ready")
    return Forker(channel).serve()


def end(code: object) -> NoReturn:
    """Do what an interpreter does at its end, except freeing its memory, most of which a fork would copy for that."""
    threading._shutdown()
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)


if __name__ == "__main__" and life():
    from flows.cli.app import main

    try:
        main()
    except SystemExit as exit_:
        end(exit_.code)
    end(None)
