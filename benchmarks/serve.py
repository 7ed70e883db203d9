"""Requests per second and their latencies: `nmt serve` beside `mlflow models serve`, with the same registered model.

    .venv/bin/python benchmarks/serve.py MODEL SOURCE [--clients 1 8 64] [--seconds 20]
    .venv/bin/python benchmarks/serve.py MODEL SOURCE --clients 8 --soak 600

MODEL is the folder of a registered model, as `mlflow artifacts download` makes it. SOURCE is a file with a sentence in
each line. Each client sends one sentence, waits for its translation, and sends the next. Both servers run alone, in
turn, on the same number of CPU threads, with the model's own search. Latencies are milliseconds. With `--soak`, ours
alone answers for that many seconds, and ten rows show its memory.
"""

import argparse
import asyncio
import contextlib
import gzip
import itertools
import json
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
import psutil

_STARTS_WITHIN = 300.0
_HEAD = "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n"


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


class Served(NamedTuple):
    """A running server: the address of its translations, and its process."""

    url: str
    process: psutil.Process


@contextlib.contextmanager
def served(contender: Contender, model: str, threads: int) -> Iterator[Served]:
    """Start a server, yield it when it answers, and end it."""
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
            yield Served(address + contender.path, psutil.Process(server.pid))
        finally:
            server.terminate()
            server.wait(60)


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, trust_env=False).status_code == 200
    return False


async def load(contender: Contender, url: str, lines: Sequence[str], clients: int, seconds: float) -> list[float]:
    """Send sentences from that many clients for a time. Return the seconds of each answer.

    A client is one connection that is kept open, and little else: 64 clients of httpx take more of the processor than
    the server does.
    """
    sentences = itertools.cycle(lines)
    taken: list[float] = []
    address = httpx.URL(url)
    end = time.monotonic() + seconds

    async def ask() -> None:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        with contextlib.closing(writer):
            while (start := time.monotonic()) < end:
                body = json.dumps(contender.question(next(sentences))).encode()
                writer.write(_HEAD.format(path=address.path, host=address.host, bytes=len(body)).encode() + body)
                contender.answer(json.loads(await _body(reader)))
                taken.append(time.monotonic() - start)

    await asyncio.gather(*(ask() for _ in range(clients)))
    return taken


async def _body(reader: asyncio.StreamReader) -> bytes:
    """Return the body of an answer, which must be a good one."""
    status, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    length = next(int(field.partition(":")[2]) for field in fields if field.startswith("content-length:"))
    body = await reader.readexactly(length)
    if status.split(" ")[1] != "200":
        sys.exit(f"{status}: {body.decode()}")
    return body


def soak(model: str, lines: Sequence[str], clients: int, seconds: float, threads: int) -> None:
    """Print ten rows with the requests per second and the memory of our server under a constant load."""
    print("| minutes | requests/s | resident memory, MiB |\n| --- | --- | --- |")
    with served(CONTENDERS[0], model, threads) as server:
        for part in range(1, 11):
            taken = asyncio.run(load(CONTENDERS[0], server.url, lines, clients, seconds / 10))
            mebibytes = server.process.memory_info().rss / 2**20
            print(f"| {part * seconds / 600:.1f} | {len(taken) / (seconds / 10):.1f} | {mebibytes:.1f} |", flush=True)


def main() -> None:
    """Print a row for each server and number of clients."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--soak", type=float, metavar="SECONDS")
    arguments = parser.parse_args()
    model = str(arguments.model.absolute())
    opened = gzip.open if arguments.source.suffix == ".gz" else open
    with opened(arguments.source, "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in itertools.islice(file, 2_000) if line.strip()]
    if arguments.soak:
        soak(model, lines, arguments.clients[0], arguments.soak, arguments.threads)
        return
    print("| clients | server | requests/s | p50, ms | p99, ms |\n| --- | --- | --- | --- | --- |")
    rates: dict[tuple[str, int], float] = {}
    for contender in CONTENDERS:
        with served(contender, model, arguments.threads) as server:
            asyncio.run(load(contender, server.url, lines, 2, 2.0))  # both are warm
            for clients in arguments.clients:
                start = time.monotonic()
                taken = asyncio.run(load(contender, server.url, lines, clients, arguments.seconds))
                rate = len(taken) / (time.monotonic() - start)
                rates[contender.name, clients] = rate
                parts = (
                    statistics.quantiles([1_000 * seconds for seconds in taken], n=100)
                    if len(taken) > 1
                    else [0.0] * 99
                )
                print(f"| {clients} | {contender.name} | {rate:.1f} | {parts[49]:.0f} | {parts[98]:.0f} |", flush=True)
    ours, theirs = (contender.name for contender in CONTENDERS)
    for clients in arguments.clients:
        print(f"{clients} clients: {rates[ours, clients] / rates[theirs, clients]:.2f} times the requests")


if __name__ == "__main__":
    main()
