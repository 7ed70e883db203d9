"""Cost of growing: what more processes, hosts and workers cost, and what a network between hosts carries.

    .venv/bin/python benchmarks/growth.py updates [--updates 50]
    .venv/bin/python benchmarks/growth.py data [--pairs 200000] [--workers 1 2 4]
    .venv/bin/python benchmarks/growth.py translate BUNDLE [--lines 20000] [--workers 1 2 4]

`updates` needs root: it makes hosts of network namespaces (`tests/support/network.py`) and trains on them with gloo,
one thread a process, on synthetic shards. Each process has a micro-batch of its own, whatever their number.

- Bytes an update: of all packets, headers included, that the processes send each other, inside a host (its loopback)
  and between hosts, from one point of the curve to a later one.
- Formula: bytes of numbers alone, of P parameters in fp32, for n processes in groups of s that share the weights. DDP
  reduces gradients in a ring, 2 (n - 1) 4 P in all. FSDP gathers the L weights of the layers twice and the others once,
  and reduces the gradients, for which gloo sends as much as for DDP: (n - 1) 4 (P + L + 2 P). NCCL sends half as much
  for gradients. HSDP does so inside each host, and reduces its part of the gradients between r = n / s hosts,
  2 (r - 1) 4 P in all.
- CPU ms: of each process an update. Wall-clock times beside other work say nothing, so they are not given.

`data` runs the stages up to `clean` on the toy corpus by workers of Dask and Ray, `translate` one job by several
processes that share it over an S3 server of this machine. CPU-seconds are of all processes, start included.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import synthetic
import torch
from torch import nn

from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.execution.torchrun import CONFIG
from nmt_core.models.build import build_model
from nmt_core.models.transformer import Transformer
from nmt_core.train.trainer import LOG_EVERY

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.hosts import OnHosts  # hosts and the network between them are made as tests make them
from support.network import Network, network

_VOCABULARY = 4_000
_TOKENS = 512
_SHARDS = 20
_MODEL = {"d_model": 128, "d_ff": 512, "num_heads": 4, "encoder_layers": 3, "decoder_layers": 3}
_ROWS = (
    *(("ddp", 1, 1), ("ddp", 1, 2), ("ddp", 2, 1), ("ddp", 1, 4), ("ddp", 4, 1)),
    *(("fsdp", 1, 2), ("fsdp", 2, 1), ("fsdp", 4, 1), ("hsdp", 2, 2)),
)
"""Kind, hosts, and processes on each."""


def main() -> None:
    """Measure what is asked for, and print a table."""
    parser = argparse.ArgumentParser(description="What growing costs.")
    kinds = parser.add_subparsers(required=True)
    updates = kinds.add_parser("updates")
    updates.add_argument("--updates", type=int, default=50, help="that are counted (50)")
    updates.set_defaults(measure=measure_updates)
    data = kinds.add_parser("data")
    data.add_argument("--pairs", type=int, default=200_000)
    data.set_defaults(measure=measure_data)
    translate = kinds.add_parser("translate")
    translate.add_argument("bundle", type=Path)
    translate.add_argument("--lines", type=int, default=20_000)
    translate.set_defaults(measure=measure_translation)
    for command in (data, translate):
        command.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} processors, load before the start {os.getloadavg()[0]:.1f}\n")
    arguments.measure(arguments)


def measure_updates(arguments: argparse.Namespace) -> None:
    """Print the price of an update by kind, hosts and processes."""
    model = ModelConfig.model_validate(_MODEL)
    built = build_model(model, _VOCABULARY)
    assert isinstance(built, Transformer)
    size, of_layers = (
        _bytes_of(part.parameters()) for part in (built, nn.ModuleList([*built.encoder, *built.decoder]))
    )
    print(f"P = {size // 4:,} parameters, 4 P = {size / 1e6:.2f} MB, of which layers {of_layers / 1e6:.2f} MB\n")
    print("| Parallel | Hosts x processes | MB between hosts | Formula | MB in hosts | Formula | CPU ms an update |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="bench-growth-") as name:
        data = Path(name) / "data"
        synthetic.write(data, 50_000, _VOCABULARY)
        for parallel, hosts, processes in _ROWS:
            with network(hosts) as joined:
                between, inside, cpu = _train(Path(name), data, joined, parallel, processes, arguments.updates)
            n = hosts * processes
            outer, inner = _formula(parallel, hosts, processes, size, of_layers)
            print(
                f"| {parallel} | {hosts} x {processes} | {between / 1e6:.2f} | {outer / 1e6:.2f} | {inside / 1e6:.2f} "
                f"| {inner / 1e6:.2f} | {cpu / n * 1e3:.0f} |",
                flush=True,
            )


def _bytes_of(parameters: Iterable[torch.Tensor]) -> int:
    return 4 * sum(parameter.numel() for parameter in parameters)


def _formula(parallel: str, hosts: int, processes: int, size: int, of_layers: int) -> tuple[float, float]:
    """Return the bytes of an update between hosts and inside them.

    Args:
        parallel: ddp, fsdp or hsdp.
        hosts: number of hosts.
        processes: number of processes on each.
        size: size of all weights in bytes.
        of_layers: size of the weights of the layers. FSDP keeps the others from the forward to the backward pass.
    """
    reduced, gathered = 2 * size, size + of_layers
    if parallel == "hsdp":
        return (hosts - 1) * reduced, (processes - 1) * (gathered + reduced) * hosts
    whole = (hosts * processes - 1) * (reduced + (gathered if parallel == "fsdp" else 0))
    return (whole, 0.0) if processes == 1 else (0.0, whole)


def _train(
    folder: Path, data: Path, joined: Network, parallel: str, processes: int, updates: int
) -> tuple[float, float, float]:
    """Return bytes between and inside hosts, and CPU-seconds of all processes, of an update."""
    n = len(joined.hosts) * processes
    train = {
        "max_updates": LOG_EVERY + updates,
        "max_tokens": _TOKENS * n,
        "micro_batch_tokens": _TOKENS,
        "max_tokens_per_pass": _TOKENS * n,
        "validate_every": 10_000,
        "checkpoint_every": 10_000,
        "parallel": parallel,
        "precision": "fp32",
        "shard_size": processes if parallel == "hsdp" else 0,
    }
    job = {"train": TrainConfig.model_validate(train).model_dump(), "data": str(data)}
    job["model"] = ModelConfig.model_validate(_MODEL).model_dump()
    launcher = OnHosts(joined.hosts, processes=processes, settings={"OMP_NUM_THREADS": "1"})
    seen: list[tuple[int, float, float, float]] = []
    with tempfile.TemporaryDirectory(dir=folder) as name:
        Path(name, CONFIG).write_text(json.dumps(job))
        with launcher.launch(Path(name)) as launched:
            for line in launched.lines():
                if line.startswith("{") and "train_loss" in line:
                    inside = sum(_loopback_bytes(host.within) for host in joined.hosts)
                    seen.append((json.loads(line)["update"], joined.sent(), inside, _cpu_seconds(launcher)))
            launched.wait()
    if len(seen) < 2:
        sys.exit(f"{parallel} on {len(joined.hosts)} hosts did not train")
    first, last = seen[0], seen[-1]
    between, inside, cpu = ((last[i] - first[i]) / (last[0] - first[0]) for i in (1, 2, 3))
    return between, inside, cpu


def _loopback_bytes(within: list[str]) -> float:
    shown = subprocess.run([*within, "cat", "/proc/net/dev"], capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in shown.splitlines() if line.strip().startswith("lo:")]
    return float(line.split()[9])


def _cpu_seconds(launcher: OnHosts) -> float:
    """CPU time of the training processes, which are the last descendants of each node."""
    total = 0.0
    for node in launcher.running:
        for process in psutil.Process(node.pid).children(recursive=True):
            if process.cmdline()[-3:-2] == ["nmt_core.train"] and "nmt_core.train.node" not in process.cmdline():
                total += sum(process.cpu_times()[:2])
    return total


def measure_data(arguments: argparse.Namespace) -> None:
    """Print what the data stages take with workers of Dask and Ray."""
    print(
        f"| Workers | Number | Seconds of `clean`, {arguments.pairs:,} pairs in {_SHARDS} shards | CPU-seconds of all |"
    )
    print("| --- | ---: | ---: | ---: |")
    for kind in ("local", "dask", "ray"):
        for workers in arguments.workers:
            with tempfile.TemporaryDirectory(prefix="bench-growth-") as home:
                settings = {"NMT_HOME": home, "NMT_WORKERS": kind, "NMT_THREADS": str(workers)}
                shard = f"clean.shard_pairs={arguments.pairs // _SHARDS}"
                sizes = ["--set", f"corpus.toy.pairs={arguments.pairs}", "--set", shard]
                code = "from flows.cli.app import main; main()"
                command = [sys.executable, "-c", code, "run", "quickstart", "--until", "clean", "--json", *sizes]
                spent, done = _measured(lambda: _output(command, settings))  # noqa: B023  # called at once
            (row,) = [row for row in json.loads(done.splitlines()[-1])["stages"] if row["name"] == "clean"]
            print(f"| {kind} | {workers} | {row['cost']['seconds']:.1f} | {spent:.1f} |", flush=True)


def measure_translation(arguments: argparse.Namespace) -> None:
    """Print what a translation job takes with several processes that share it in S3."""
    from flows.servers.servers import Server, held_port

    print(f"| Processes | Seconds, {arguments.lines:,} lines | CPU-seconds of all | Requests to the store |")
    print("| ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="bench-growth-") as folder, held_port() as port:
        log = Path(folder, "s3.log")
        server = Server("S3", ["-m", "moto.server", "-p", str(port)], log, {})
        server.wait_until(f"http://127.0.0.1:{port}/moto-api/", timeout=300)
        settings = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
        settings |= {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "NMT_HOME": folder, "NMT_THREADS": "1"}
        _output([sys.executable, "-c", "import fsspec; fsspec.filesystem('s3').mkdir('bench')"], settings)
        source = Path(folder, "source.txt")
        source.write_text("".join(f"I am student number {number}.\n" for number in range(arguments.lines)))
        for workers in arguments.workers:
            place, before = f"s3://bench/{workers}", _requests(log)
            code = "from flows.cli.app import main; main()"
            words = ["translate", "--model", str(arguments.bundle), "-i", str(source), "-o", f"{place}/out.txt"]
            command = [sys.executable, "-c", code, *words, "--job", f"{place}/job"]
            began = time.monotonic()
            spent, _ = _measured(lambda: _together(command, settings, workers))  # noqa: B023  # called at once
            seconds = time.monotonic() - began
            print(f"| {workers} | {seconds:.1f} | {spent:.1f} | {_requests(log) - before:,} |", flush=True)
        server.stop()


def _requests(log: Path) -> int:
    return log.read_text(errors="replace").count("HTTP/1.1")


def _together(command: list[str], settings: dict[str, str], number: int) -> None:
    running = [subprocess.Popen(command, env=os.environ | settings) for _ in range(number)]
    codes = [process.wait() for process in running]
    if any(codes):
        sys.exit("a translation failed")


def _output(command: list[str], settings: dict[str, str]) -> str:
    return subprocess.run(command, env=os.environ | settings, stdout=subprocess.PIPE, text=True, check=True).stdout


def _measured(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU-seconds of all children that end within a call, and its result."""

    def spent() -> float:
        times = os.times()
        return times.children_user + times.children_system

    before = spent()
    result = call()
    return spent() - before, result


if __name__ == "__main__":
    main()
