"""Measure the loader alone: tokens per second of one process, memory, and seconds to the middle of an epoch, by size.

    .venv/bin/python benchmarks/loader.py [--pairs N ...] [--seconds S] [--folder FOLDER]
    .venv/bin/python benchmarks/loader.py --encoded FOLDER ...

Token shards are generated (`synthetic.py`; 20 M pairs take 1.5 GB). The smaller corpora are the first shards of the
largest. Each cell of the table is a process, which reads, plans, collates and discards updates of one batch of
`--batch-tokens` tokens a side, from the start, over as many epochs as fit into the time.

- Tokens count both sides without padding, over the seconds from the first update to the last, and over the CPU seconds
  of the whole process in that time: the loader's thread, pyarrow's, and the thread that takes updates.
- Memory is the resident set: before the shards are opened (interpreter, torch, pyarrow), a quarter of the time after
  the first update, at the end, and at its peak.
- Middle is the time from making the loader to the first update of the second half of epoch 0, and start the time to its
  first update.
- Useful is the share of tokens in batches that are not padding, over all updates that were read.

Then a real trainer trains in one process on one thread. The time that it waited for the loader is compared with the
time of its updates, without the first ones. The wait for the first update is start-up, and shown separately. The
smaller the model, the less time the loader has. The default model has three layers on either side and is 256 wide.

With `--encoded`, only the useful share of encoded text is printed. The folders are artifacts of the stage `encode`.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import synthetic
import watched

from nmt_core.batches.loader import Loader, Share
from nmt_core.batches.plan import Batching, Plan
from nmt_core.batches.shards import TRAIN_FILES, TokenShards
from nmt_core.config import ModelConfig, TrainConfig

_BATCHINGS: tuple[Batching, ...] = ("padded", "packed")
_VOCABULARY = 8_000
_WARM_UP_UPDATES = 10
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1", "GOMP_SPINCOUNT": "10000"}


def main() -> None:
    """Measure, and print the tables. A child measures one cell."""
    arguments = _arguments()
    if arguments.child:
        job = json.loads(arguments.child)
        print(json.dumps(_CHILDREN[job.pop("what")](**job)))
    elif arguments.encoded:
        print("| Encoded text | " + " | ".join(_BATCHINGS) + " |\n| --- | ---: | ---: |")
        for folder in arguments.encoded:
            limits = {"batch_tokens": arguments.batch_tokens, "seconds": arguments.seconds}
            shares = [_child("load", folder=str(folder), files=None, batching=share, **limits) for share in _BATCHINGS]
            print(f"| {folder} | " + " | ".join(f"{share['useful']:.4f}" for share in shares) + " |", flush=True)
    elif arguments.folder:
        _measure(arguments, arguments.folder)
    else:
        with tempfile.TemporaryDirectory(prefix="bench-loader-") as folder:
            _measure(arguments, Path(folder))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The loader alone, and how long training waits for it.")
    parser.add_argument("--pairs", type=int, nargs="+", default=[200_000, 2_000_000, 20_000_000], help="ascending")
    parser.add_argument("--batch-tokens", type=int, default=16_384, help="of a batch on either side (16,384)")
    parser.add_argument("--seconds", type=float, default=20, help="of each cell (20)")
    parser.add_argument("--updates", type=int, default=100, help="of the training run; 0: none (100)")
    parser.add_argument("--d-model", type=int, default=256, help="of the model that is trained (256)")
    parser.add_argument("--processes", type=int, default=2, help="that make the shards (2)")
    parser.add_argument("--folder", type=Path, help="for the shards, which are kept for the next run (temporary)")
    parser.add_argument("--encoded", type=Path, nargs="+", help="artifacts of the stage encode: useful share alone")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(arguments: argparse.Namespace, folder: Path) -> None:
    data = folder / f"shards-{max(arguments.pairs)}"
    if not data.exists():
        began = time.perf_counter()
        draft = folder / "shards.partial"
        synthetic.write(draft, max(arguments.pairs), _VOCABULARY, arguments.processes)
        draft.rename(data)
        print(f"{max(arguments.pairs):,} pairs made in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    print(
        "| Pairs | Batches | Tokens/s | per CPU-second | Start, s | Middle, s | Useful | RSS before, MB | early | end "
        "| peak |\n| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    )
    limits = {"batch_tokens": arguments.batch_tokens, "seconds": arguments.seconds}
    for pairs in arguments.pairs:
        files = -(-pairs // synthetic.SHARD_PAIRS)
        for batching in _BATCHINGS:
            one = _child("load", folder=str(data), files=files, batching=batching, **limits)
            memory = " | ".join(f"{one[name] / 1e6:,.0f}" for name in ("before", "early", "end", "peak"))
            print(
                f"| {one['pairs']:,} | {batching} | {one['tokens'] / one['wall']:,.0f} "
                f"| {one['tokens'] / one['cpu']:,.0f} | {one['start']:.2f} | {one['middle']:.2f} "
                f"| {one['useful']:.4f} | {memory} |",
                flush=True,
            )
    if arguments.updates:
        print("\n| Training | Waiting | ms an update | First update waited, s |\n| --- | ---: | ---: | ---: |")
        for batching in _BATCHINGS:
            training = {"updates": arguments.updates, "d_model": arguments.d_model}
            one = _child("train", folder=str(data), batching=batching, **training)
            print(
                f"| {batching} | {one['share']:.2%} | {one['milliseconds']:,.0f} | {one['first']:.2f} |",
                flush=True,
            )


def _child(what: str, **job: Any) -> dict[str, Any]:
    """Return the result of a process that does one job."""
    command = [sys.executable, __file__, "--child", json.dumps({"what": what, **job})]
    done = subprocess.run(command, env=os.environ | _ONE_THREAD, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"{what} ended with {done.returncode}")
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


def _load(folder: str, files: int | None, batching: Batching, batch_tokens: int, seconds: float) -> dict[str, float]:
    """Read updates for some time."""
    before = _resident_bytes()
    shards = TokenShards(sorted(Path(folder).glob(TRAIN_FILES))[:files])
    plan = Plan(shards, batching, micro_batch_tokens=batch_tokens, max_tokens=batch_tokens, seed=1)
    share = Share(max_tokens_per_pass=batch_tokens)
    middle = int(shards.tokens_of_groups.sum(axis=0).max() // batch_tokens // 2)
    tokens = computed = early = 0
    began = time.perf_counter()
    with Loader(shards, plan, batching, share) as loader:
        updates = iter(loader)
        next(updates)
        start, cpu = time.perf_counter(), time.process_time()
        while (passed := time.perf_counter() - start) < seconds:
            for done in next(updates).passes:
                tokens += done.source_tokens + done.target_tokens
                computed += done.batch.computed_tokens
            if not early and passed > seconds / 4:
                early = _resident_bytes()
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        end = _resident_bytes()
    seek = time.perf_counter()
    with Loader(shards, plan, batching, share, (0, middle)) as loader:
        next(iter(loader))
        seek = time.perf_counter() - seek
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figures = {"pairs": shards.pairs, "tokens": tokens, "wall": wall, "cpu": cpu, "useful": tokens / computed}
    memory = {"before": before, "early": early, "end": end, "peak": peak}
    return figures | memory | {"start": start - began, "middle": seek}


def _train(folder: str, batching: Batching, updates: int, d_model: int) -> dict[str, float]:
    """Train, and see how long the trainer waits."""
    layers = {"encoder_layers": 3, "decoder_layers": 3}
    model = ModelConfig(d_model=d_model, d_ff=4 * d_model, num_heads=4, **layers)
    config = TrainConfig(
        max_updates=updates + _WARM_UP_UPDATES,
        batching=batching,
        max_tokens=4_096,
        max_tokens_per_pass=4_096,
        checkpoint_every=updates * 2 + _WARM_UP_UPDATES,
        validate_every=updates * 2 + _WARM_UP_UPDATES,
    )
    with tempfile.TemporaryDirectory() as run_folder, watched.one_process("cpu") as world:
        run = watched.train(Path(folder), Path(run_folder), world, (model, config))
    seconds = run.starts[-1] - run.starts[_WARM_UP_UPDATES]
    return {
        "share": (run.waited[-1] - run.waited[_WARM_UP_UPDATES]) / seconds,
        "milliseconds": seconds / (len(run.starts) - 1 - _WARM_UP_UPDATES) * 1e3,
        "first": run.waited[0],
    }


def _resident_bytes() -> int:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * resource.getpagesize()


_CHILDREN: dict[str, Any] = {"load": _load, "train": _train}


if __name__ == "__main__":
    main()
