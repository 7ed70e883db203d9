"""Requests per second and their latencies: `nmt serve` beside `mlflow models serve`, with the same registered model.

    .venv/bin/python benchmarks/serve.py MODEL SOURCE [--clients 1 8 64] [--seconds 20]

MODEL is the folder of a registered model, as `mlflow artifacts download` makes it. SOURCE is a file with a sentence in
each line. Each client sends one sentence, waits for its translation, and sends the next. Both servers run alone, in
turn, on the same number of CPU threads, with the model's own search. Latencies are milliseconds.
"""

import argparse
import asyncio
import contextlib
import gzip
import itertools
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

_STARTS_WITHIN = 300.0


class Contender(NamedTuple):
    """A server: how it is started, and what it is asked."""

    name: str
    command: Callable[[str, int], list[str]]
    path: str
    question: Callable[[str], dict[str, Any]]
    answer: Callable[[Any], str]


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


CONTENDERS = (
    Contender(
        "nmt serve",
        lambda model, port: [_program("nmt"), "serve", f"{model}/artifacts/bundle", "--port", str(port)],
        "/translate",
        lambda line: {"text": [line]},
        lambda found: str(found["translations"][0]),
    ),
    Contender(
        "mlflow models serve",
        lambda model, port: [
            *(_program("mlflow"), "models", "serve", "--model-uri", model, "--env-manager", "local"),
            *("--host", "127.0.0.1", "--port", str(port)),
        ],
        "/invocations",
        lambda line: {"inputs": [line]},
        lambda found: str(found["predictions"][0]),
    ),
)


@contextlib.contextmanager
def served(contender: Contender, model: str, threads: int) -> Iterator[str]:
    """Start a server, yield the address of its translations, and end it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as home, Path(home, "log").open("wb") as log:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"NMT_THREADS": str(threads), "NMT_HOME": home, "PATH": path}
        server = subprocess.Popen(contender.command(model, port), env=environment, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + _STARTS_WITHIN
            while not _answers(f"{address}/health"):
                if server.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{contender.name} did not start:\n{Path(home, 'log').read_text()}")
                time.sleep(0.2)
            yield address + contender.path
        finally:
            server.terminate()
            server.wait(60)


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, trust_env=False).status_code == 200
    return False


async def load(contender: Contender, url: str, lines: Sequence[str], clients: int, seconds: float) -> list[float]:
    """Send sentences from that many clients for a time. Return the seconds of each answer."""
    sentences = itertools.cycle(lines)
    taken: list[float] = []
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=300, limits=limits, trust_env=False) as client:
        end = time.monotonic() + seconds

        async def ask() -> None:
            while (start := time.monotonic()) < end:
                answer = await client.post(url, json=contender.question(next(sentences)))
                answer.raise_for_status()
                contender.answer(answer.json())
                taken.append(time.monotonic() - start)

        await asyncio.gather(*(ask() for _ in range(clients)))
    return taken


def main() -> None:
    """Print a row for each server and number of clients."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    opened = gzip.open if arguments.source.suffix == ".gz" else open
    with opened(arguments.source, "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in itertools.islice(file, 2_000) if line.strip()]
    print("| clients | server | requests/s | p50, ms | p99, ms |\n| --- | --- | --- | --- | --- |")
    rates: dict[tuple[str, int], float] = {}
    for contender in CONTENDERS:
        with served(contender, str(arguments.model.absolute()), arguments.threads) as url:
            asyncio.run(load(contender, url, lines, 2, 2.0))  # both are warm
            for clients in arguments.clients:
                start = time.monotonic()
                taken = asyncio.run(load(contender, url, lines, clients, arguments.seconds))
                rate = len(taken) / (time.monotonic() - start)
                rates[contender.name, clients] = rate
                parts = statistics.quantiles([1_000 * each for each in taken], n=100) if len(taken) > 1 else [0.0] * 99
                print(f"| {clients} | {contender.name} | {rate:.1f} | {parts[49]:.0f} | {parts[98]:.0f} |", flush=True)
    ours, theirs = (contender.name for contender in CONTENDERS)
    for clients in arguments.clients:
        print(f"{clients} clients: {rates[ours, clients] / rates[theirs, clients]:.2f} times the requests")


if __name__ == "__main__":
    main()
