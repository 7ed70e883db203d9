"""Compute what a retraining of any size needs, from figures that were measured in small.

    .venv/bin/python benchmarks/how_far.py [--pairs 1e9] [--cores 256] [--gpus 1000]

Nothing is run. The first table compares the model with measurements, the second applies it to the size that is asked
for, the third finds the number at which each part stops growing well. `docs/concepts/how-far-it-goes.md` shows all
three. A figure and its source are in one place, `Measured`; a better measurement is entered there.
"""

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """Figures of small runs. Speeds are of one core or one GPU."""

    clean_pairs: float = 21_400
    """Pairs that `clean` judges and compares a core-second, with language identification (30 M pairs, two cores)."""
    encode_pairs: float = 105_000
    """Pairs that `encode` encodes a core-second (657,607 pairs)."""
    vocabulary_seconds: float = 60
    """Seconds of the stage `tokenizer`, which reads 5 M pairs at most."""
    scratch_bytes: float = 93
    """Disk that `clean` uses for a pair while it runs (2.8 GB for 30 M)."""
    clean_bytes: float = 53
    """Bytes of a pair in the artifact of `clean`, kept and dropped together (100,000 of software)."""
    encode_bytes: float = 52
    """Bytes of a pair in the artifact of `encode`, of the same text."""
    first_worker_bytes: float = 0.9e9
    """Memory of `clean` with one worker, whatever the number of pairs (0.89 GB for 3 M)."""
    next_worker_bytes: float = 0.7e9
    """Memory of each other worker (1.6 GB for two)."""
    loader_bytes: float = 2.5
    """Memory of the loader of a training process for a pair (0.2 M and 20 M pairs differ by 50 MB)."""
    tokens_of_a_pair: float = 24
    """Target tokens of a pair of news."""
    gpu_tokens: float = 754_000
    """Target tokens of Transformer base a GPU-second, one H200."""
    parameters: float = 61e6
    """Parameters of Transformer base with 32,000 pieces for both sides."""


@dataclass(frozen=True)
class Defaults:
    """Defaults of the recipe, and limits in the code."""

    shard_pairs: int = 250_000
    shards_of_a_bucket: int = 2
    most_buckets: int = 1_024
    row_group_pairs: int = 10_000
    update_tokens: int = 400_000
    """Target tokens of an update with large batches. It is assumed: far larger ones need as many updates."""


MEASURED, DEFAULTS = Measured(), Defaults()
NETWORK_BYTES = 50e9
"""Bytes that a GPU sends a second: 400 Gbit/s, a fast cluster. It is assumed, not measured."""

CHECKS = (
    ("clean, 3 M pairs, 2 workers, seconds", 3e6 / 2 / MEASURED.clean_pairs, 3e6 / 42_593),
    ("clean, 10 M to 30 M pairs, times the seconds", 3.0, (30e6 / 101_517) / (10e6 / 103_266)),
    ("clean, 30 M pairs, 2 workers, scratch, GB", 30e6 * MEASURED.scratch_bytes / 1e9, 2.7),
)
"""Rows of three: a figure, its value by the model, and its measured value. The model was made from none of them."""


def shards(pairs: float) -> int:
    """Return the number of shards of text."""
    return -(-int(pairs) // DEFAULTS.shard_pairs)


def buckets(pairs: float) -> int:
    """Return the number of buckets in which equal keys meet."""
    return max(1, min(DEFAULTS.most_buckets, shards(pairs) // DEFAULTS.shards_of_a_bucket))


def bucket_pairs(pairs: float) -> float:
    """Return the number of pairs of a bucket, which a worker holds in memory."""
    return pairs / buckets(pairs)


def update_seconds(gpus: int, tokens: float) -> tuple[float, float]:
    """Return the seconds that an update computes and sends, with DDP. `tokens` is the size of the update."""
    sent = 2 * (gpus - 1) / gpus * 4 * MEASURED.parameters
    return tokens / gpus / MEASURED.gpu_tokens, sent / NETWORK_BYTES


def main() -> None:
    """Print all three tables."""
    parser = argparse.ArgumentParser(description="What a retraining of any size needs, on paper.")
    parser.add_argument("--pairs", type=float, default=1e9)
    parser.add_argument("--cores", type=int, default=256, help="of the machines that prepare text (256)")
    parser.add_argument("--gpus", type=int, default=1_000)
    parser.add_argument("--epochs", type=float, default=5, help="times that training reads each pair (5)")
    arguments = parser.parse_args()
    print("| What | Model | Measured |\n| --- | ---: | ---: |")
    for what, model, measured in CHECKS:
        print(f"| {what} | {model:.2f} | {measured:.2f} |")
    print(f"\n| What | {arguments.pairs:,.0f} pairs |\n| --- | ---: |")
    for what, value in needs(arguments.pairs, arguments.cores, arguments.gpus, arguments.epochs):
        print(f"| {what} | {value} |")
    print("\n| What stops growing well | At |\n| --- | ---: |")
    for what, value in limits():
        print(f"| {what} | {value} |")


def needs(pairs: float, cores: int, gpus: int, epochs: float) -> list[tuple[str, str]]:
    """Return what a retraining needs, as text."""
    count, groups = shards(pairs), -(-int(pairs) // DEFAULTS.row_group_pairs)
    tokens = pairs * MEASURED.tokens_of_a_pair * epochs
    useful = useful_gpus()
    rows = [
        (f"`clean`, {cores} cores", f"{pairs / MEASURED.clean_pairs / cores / 3_600:.2f} h"),
        (f"`encode`, {cores} cores", f"{pairs / MEASURED.encode_pairs / cores / 3_600:.2f} h"),
        ("`tokenizer`, one core", f"{MEASURED.vocabulary_seconds / 3_600:.2f} h"),
        ("text, numbers, and scratch of `clean`", _bytes(pairs * (MEASURED.clean_bytes + MEASURED.encode_bytes))
            + ", " + _bytes(pairs * MEASURED.scratch_bytes)),
        ("memory of a worker of `clean`", _bytes(MEASURED.next_worker_bytes * max(1.0, bucket_pairs(pairs)
            / (DEFAULTS.shard_pairs * DEFAULTS.shards_of_a_bucket)))),
        ("memory of the loader, each training process", _bytes(0.35e9 + pairs * MEASURED.loader_bytes)),
        ("shards, and tasks of `clean` with one round of comparison", f"{count:,}, {3 * count + buckets(pairs):,}"),
        ("reads of sections in a round (each a request if scratch is in an object store)",
            f"{2 * count * buckets(pairs):,}"),
        ("shards that each training process opens at its start", f"{count:,} ({groups:,} row groups)"),
        (f"the same by {gpus:,} processes", f"{count * gpus:,}"),
    ]  # fmt: skip
    for used in sorted({1, 8, useful, gpus}):
        size = max(DEFAULTS.update_tokens, 0)
        compute, send = update_seconds(used, size)
        hours = tokens / size * max(compute, send) / 3_600
        rows.append((
            f"training, {used:,} GPUs, {epochs:g} epochs, {size:,} tokens an update",
            f"{hours:,.1f} h ({compute * 1e3:.1f} ms compute, {send * 1e3:.1f} ms network an update)",
        ))  # fmt: skip
    return rows


def useful_gpus() -> int:
    """Return the number of GPUs at which an update sends for as long as it computes, if both happen at once."""
    gpus = 2
    while True:
        compute, send = update_seconds(gpus + 1, DEFAULTS.update_tokens)
        if send > compute:
            return gpus
        gpus += 1


def limits() -> list[tuple[str, str]]:
    """Return the number at which each part stops growing well, as text."""
    constant = DEFAULTS.shard_pairs * DEFAULTS.shards_of_a_bucket * DEFAULTS.most_buckets
    return [
        ("GPUs, with updates of 400,000 tokens: the network takes longer than computing", f"{useful_gpus()} GPUs"),
        ("memory of `clean`: all 1,024 buckets are in use, and grow from here on", f"{constant / 1e6:,.0f} M pairs"),
        ("memory of the loader: 8 processes of a node use a quarter of 256 GB",
            f"{(64e9 / 8 - 0.35e9) / MEASURED.loader_bytes / 1e9:.1f} G pairs"),
        ("requests of a round to an object store: a million, at 100 a second and core three hours of one core",
            f"{_pairs_of_requests(1e6) / 1e6:,.0f} M pairs"),
    ]  # fmt: skip


def _pairs_of_requests(most: float) -> float:
    pairs = 1e6
    while 2 * shards(pairs) * buckets(pairs) < most:
        pairs *= 1.01
    return pairs


def _bytes(number: float) -> str:
    return f"{number / 1e12:.2f} TB" if number >= 1e12 else f"{number / 1e9:.1f} GB"


if __name__ == "__main__":
    main()
