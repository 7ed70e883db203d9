"""Measure training on the CPU: target tokens per second of ours, of JoeyNMT and of eole, on the same token ids.

    python3.11 -m venv /tmp/joeynmt
    /tmp/joeynmt/bin/pip install joeynmt==2.3.0 importlib_metadata torch==2.13.0
    python3.11 -m venv /tmp/eole
    /tmp/eole/bin/pip install eole==0.6.4 aiohttp torch==2.13.0
    .venv/bin/python benchmarks/train.py FOLDER --joeynmt /tmp/joeynmt/bin/python --eole /tmp/eole/bin/python

FOLDER holds train.XX.gz, dev.XX.gz and test_2016_flickr.XX.gz for both languages XX: the corpus Multi30k. The CPU build
of torch is enough for the others. importlib_metadata and aiohttp are missing from their own requirements.

Ours cleans, learns a joint vocabulary and encodes. The others read its training text, with each piece as a word that is
the piece's number. All train the same Transformer (by default 3+3 layers, 256 wide, 8,000 pieces, one matrix for the
three embeddings) by Adam, with label smoothing 0.1 and dropout 0.1, on the same threads, one after the other, `--times`
times in turn. The median counts. The figure is target tokens without padding, </s> included, over wall-clock time of
the training loop, after a warm-up, without validation and checkpoints. Both are each program's own count.

A limit on the tokens of a batch means something different in each. JoeyNMT does not sort by length, and at the same
limit its batches hold half as many tokens that are not padding. So a short run first measures the target tokens of an
update, and the limit of the others is scaled so that they have as many as ours. Some differences remain: JoeyNMT and
eole have biases in attention, and JoeyNMT also applies dropout to attention weights and inside the feed-forward layer.

The others compute in fp32, and eole in bf16 as well (JoeyNMT refuses it on a CPU). Ours computes in both. All get the
settings of the OpenMP runtime that our trainer has, because they matter on a busy machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import yaml

from nmt_core.tokenizer.tokenizer import EOS_ID

WARM_UP_UPDATES = 25
_CALIBRATION_UPDATES = 2 * WARM_UP_UPDATES
_PRECISIONS = {"ours": ("fp32", "bf16"), "joeynmt": ("fp32",), "eole": ("fp32", "bf16")}
_PIECES = 8_000


@dataclass(frozen=True)
class Measured:
    """Measurements of one run after its warm-up."""

    updates: int
    target_tokens: float
    seconds: float

    @classmethod
    def of(cls, points: list[dict[str, float]]) -> "Measured":
        """From points, each with the tokens and the seconds since the one before."""
        kept = [point for point in points if point["update"] > WARM_UP_UPDATES]
        first = max((point["update"] for point in points if point["update"] <= WARM_UP_UPDATES), default=0)
        tokens, seconds = (sum(point[name] for point in kept) for name in ("target_tokens", "seconds"))
        return cls(int(kept[-1]["update"] - first), tokens, seconds)

    @property
    def rate(self) -> float:
        """Target tokens per second."""
        return self.target_tokens / self.seconds

    @property
    def tokens_per_update(self) -> float:
        """Target tokens, without padding."""
        return self.target_tokens / self.updates


Train = Callable[[int, int, int], Measured]
"""Trains with a limit on the tokens of a batch, for a number of updates, with a seed."""


def main() -> None:
    """Measure all, and print the table."""
    arguments = _arguments()
    os.environ |= {
        "OMP_NUM_THREADS": f"{arguments.threads}",
        "NMT_THREADS": f"{arguments.threads}",
        "GOMP_SPINCOUNT": "10000",
    }
    with tempfile.TemporaryDirectory() as folder:
        contenders = _contenders(arguments, Path(folder))
        limits: dict[str, int] = {}
        tokens_of_first = 0.0
        for name, train in contenders.items():
            tokens_per_update = train(arguments.max_tokens, _CALIBRATION_UPDATES, 0).tokens_per_update
            tokens_of_first = tokens_of_first or tokens_per_update
            limits[name] = round(arguments.max_tokens * tokens_of_first / tokens_per_update)
        runs: dict[str, list[Measured]] = {name: [] for name in contenders}
        for seed in range(1, arguments.times + 1):
            for name, train in contenders.items():
                runs[name].append(train(limits[name], arguments.updates, seed))
                print(f"{name}: {runs[name][-1].rate:,.0f} target tokens/s", file=sys.stderr)
    _print(runs, limits)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Training on the CPU, against JoeyNMT and eole.")
    parser.add_argument("folder", type=Path, help="the corpus: train, dev and test_2016_flickr .XX.gz")
    parser.add_argument("--languages", default="en-de", help="source-target (en-de)")
    parser.add_argument("--joeynmt", type=Path, help="Python interpreter that has JoeyNMT")
    parser.add_argument("--eole", type=Path, help="Python interpreter that has eole")
    parser.add_argument("--times", type=int, default=3, help="runs of each in turn (3)")
    parser.add_argument("--updates", type=int, default=100, help=f"of each run, {WARM_UP_UPDATES} for warm-up (100)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (2)")
    parser.add_argument("--max-tokens", type=int, default=4_096, help="tokens of a batch of ours, a side (4,096)")
    parser.add_argument("--d-model", type=int, default=256, help="(256)")
    parser.add_argument("--d-ff", type=int, default=1_024, help="(1,024)")
    parser.add_argument("--heads", type=int, default=4, help="(4)")
    parser.add_argument("--layers", type=int, default=3, help="of the encoder, and of the decoder (3)")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], help="(fp32 bf16)")
    arguments = parser.parse_args()
    if arguments.updates <= WARM_UP_UPDATES:
        parser.error(f"--updates {arguments.updates}: the first {WARM_UP_UPDATES} are not counted")
    return arguments


def _contenders(arguments: argparse.Namespace, folder: Path) -> dict[str, Train]:
    """Return the contenders by the name of their row. Ours in fp32 comes first."""
    recipe = _recipe(arguments)
    _write_text(_run_ours(recipe, folder, "encode"), folder)
    pythons = {"joeynmt": arguments.joeynmt, "eole": arguments.eole}
    contenders: dict[str, Train] = {}
    for system, precisions in _PRECISIONS.items():
        for precision in precisions:
            if precision not in arguments.precisions:
                continue
            if system == "ours":
                contenders[f"ours, {precision}"] = partial(_train_ours, recipe, folder, precision)
            elif pythons[system]:
                job = {"folder": str(folder), "threads": arguments.threads, "precision": precision}
                job |= {"model": recipe["model"], "label_smoothing": 0.1, "warmup_updates": 4_000}
                contenders[f"{system}, {precision}"] = partial(_train_other, pythons[system], system, job)
    return contenders


def _recipe(arguments: argparse.Namespace) -> dict[str, Any]:
    source, target = arguments.languages.split("-")

    def corpus(name: str) -> list[dict[str, str]]:
        sides = {"source": source, "target": target}
        paths = {side: str((arguments.folder / f"{name}.{language}.gz").absolute()) for side, language in sides.items()}
        return [{"name": name, **paths}]

    return {
        "name": "bench-train",
        "description": "How fast training is.",
        "languages": {"source": source, "target": target},
        "corpus": {"train": corpus("train"), "dev": corpus("dev"), "test": corpus("test_2016_flickr")},
        "tokenizer": {"vocab_size": _PIECES},
        "model": {
            "d_model": arguments.d_model,
            "d_ff": arguments.d_ff,
            "num_heads": arguments.heads,
            "encoder_layers": arguments.layers,
            "decoder_layers": arguments.layers,
            "dropout": 0.1,
            "norm": "post",
        },
        "train": {"label_smoothing": 0.1, "warmup_updates": 4_000, "keep_checkpoints": 1},
        "average": {"checkpoints": 1},
    }


def _run_ours(recipe: dict[str, Any], folder: Path, until: str) -> Path:
    """Run a recipe through the command line. Return the folder of the last artifact."""
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe, sort_keys=False))
    command = [str(Path(sys.executable).with_name("nmt")), "run", str(file), "--until", until, "--json"]
    summary = json.loads(_last_line(command, os.environ | {"NMT_HOME": str(folder / "home")}))
    return Path(summary["stages"][-1]["artifact"])


def _write_text(encoded: Path, folder: Path) -> None:
    """Write the encoded text with piece numbers as words, without </s>, and the vocabulary."""
    for name, pattern in {"train": "train-*.parquet", "dev": "dev.parquet"}.items():
        shards = [pq.read_table(file) for file in sorted(encoded.glob(pattern))]
        for side in ("source", "target"):
            rows = chain.from_iterable(shard[side].to_pylist() for shard in shards)
            lines = (" ".join(f"{piece}" for piece in row if piece != EOS_ID) + "\n" for row in rows)
            (folder / f"{name}.{side}").write_text("".join(lines))
    (folder / "vocabulary").write_text("".join(f"{piece}\n" for piece in range(EOS_ID + 1, _PIECES)))


def _train_ours(
    recipe: dict[str, Any], folder: Path, precision: str, max_tokens: int, updates: int, seed: int
) -> Measured:
    at_the_end = {"max_updates": updates, "validate_every": updates, "checkpoint_every": updates}
    limits = dict.fromkeys(("max_tokens", "micro_batch_tokens", "max_tokens_per_pass"), max_tokens)
    train = recipe["train"] | at_the_end | limits | {"precision": precision, "seed": seed}
    artifact = _run_ours(recipe | {"train": train}, folder, "train")
    points = [json.loads(line) for line in (artifact / "metrics.jsonl").read_text().splitlines()]
    return Measured.of(
        [
            point | {"seconds": point["target_tokens"] / point["target_tokens_per_second"]}
            for point in points
            if "train_loss" in point
        ]
    )


def _train_other(python: Path, system: str, job: dict[str, Any], max_tokens: int, updates: int, seed: int) -> Measured:
    file = Path(job["folder"]) / f"{system}.json"
    file.write_text(json.dumps(job | {"max_tokens": max_tokens, "updates": updates, "seed": seed}))
    script = Path(__file__).with_name(f"train_{system}.py")
    return Measured.of(json.loads(_last_line([str(python), str(script), str(file)], os.environ))["points"])


def _last_line(command: list[str], environment: Mapping[str, str]) -> str:
    """Run a command to its end. Return the last line that it printed."""
    done = subprocess.run(command, env=environment, capture_output=True, check=False, encoding="utf-8")
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2_000:]}\n{done.stderr[-4_000:]}")
    return done.stdout.splitlines()[-1]


def _print(runs: dict[str, list[Measured]], limits: dict[str, int]) -> None:
    rates = {name: median(run.rate for run in of_one) for name, of_one in runs.items()}
    best = max((rate for name, rate in rates.items() if not name.startswith("ours")), default=None)
    print(
        "| System | Target tokens/s | lowest, highest | Target tokens an update | Limit of a batch | Ours is faster |"
    )
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name, of_one in runs.items():
        spread = sorted(run.rate for run in of_one)
        tokens = sum(run.target_tokens for run in of_one) / sum(run.updates for run in of_one)
        times = [
            f"{ours}: {rates[ours] / rates[name]:.2f} times"
            for ours in rates
            if ours.startswith("ours") and not name.startswith("ours")
        ]
        print(
            f"| {name} | {rates[name]:,.0f} | {spread[0]:,.0f}, {spread[-1]:,.0f} | {tokens:,.0f} | {limits[name]:,} "
            f"| {'; '.join(times)} |"
        )
    if best:
        ours = {name: rate / best for name, rate in rates.items() if name.startswith("ours")}
        print(
            "\nAgainst the fastest of the others: " + ", ".join(f"{name} {of:.2f} times" for name, of in ours.items())
        )


if __name__ == "__main__":
    main()
