"""A small pipeline through the real command line, in a folder of its own; one finished run is shared by many tests."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_SMALL = {
    "corpus.toy.pairs": 2_000,
    "corpus.toy.held_out": 20,
    "tokenizer.vocab_size": 700,
    "model.d_model": 32,
    "model.d_ff": 64,
    "model.num_heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "train.max_updates": 40,
    "train.warmup_updates": 10,
    "train.max_tokens": 1_024,
    "train.slice_tokens": 1_024,
    "train.validate_every": 20,
    "train.checkpoint_every": 20,
    "train.keep_checkpoints": 2,
    "average.checkpoints": 2,
    "export.parity_sentences": 5,
}
_LIMIT = 280


@dataclass(frozen=True)
class Nmt:
    """The command line with a home of its own."""

    home: Path
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the tester's own settings, and no way out of this machine."""
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("NMT_", "PREFECT_", "MLFLOW_"))
        }
        dead = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
        return own | dead | {"NMT_HOME": str(self.home), "NMT_THREADS": "1"}

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command in a process group of its own, as a shell does."""
        self.home.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", "from flows.cli import main; main()", *arguments],
            cwd=self.home,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def close(self) -> None:
        """End what a failed test has left running; the children of a command end with it."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def __call__(self, *arguments: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end and see that it ends with `code`."""
        process = self.start(*arguments, **environment)
        out, error = process.communicate(timeout=_LIMIT)
        assert process.returncode == code, f"{arguments} ended with {process.returncode}:\n{out}\n{error}"
        return subprocess.CompletedProcess(arguments, code, out, error)

    def run(self, *arguments: str, code: int = 0, **environment: str) -> dict[str, Any]:
        """`nmt run` of the small recipe; its summary."""
        done = self("run", *small(), "--json", *arguments, code=code, **environment)
        summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return summary

    def select(self, database: str, query: str) -> list[tuple[Any, ...]]:
        """Look into a database of the home."""
        with sqlite3.connect(self.home / database) as connection:
            return connection.execute(query).fetchall()


def small() -> list[str]:
    """The quickstart, as small as it works, as arguments."""
    return ["quickstart", *(part for key, value in _SMALL.items() for part in ("--set", f"{key}={value}"))]


def did(summary: dict[str, Any]) -> dict[str, str]:
    """What became of each stage of a run."""
    return {stage["name"]: stage["status"] for stage in summary["stages"]}


@pytest.fixture
def nmt(tmp_path: Path) -> Iterator[Nmt]:
    """The command line in an empty home."""
    nmt = Nmt(tmp_path / "home")
    yield nmt
    nmt.close()


@pytest.fixture(scope="session")
def make_nmt() -> Callable[[Path], Nmt]:
    """Makes a command line with this home."""
    return Nmt


@pytest.fixture(scope="session")
def recipe() -> list[str]:
    """Arguments that name the small recipe."""
    return small()


@pytest.fixture(scope="session")
def statuses() -> Callable[[dict[str, Any]], dict[str, str]]:
    """Tells what became of each stage of a run."""
    return did


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Nmt, dict[str, Any]]]:
    """A home with one finished run, and its summary. Tests may add runs, but not take away."""
    nmt = Nmt(tmp_path_factory.mktemp("finished"))
    yield nmt, nmt.run()
    nmt.close()
