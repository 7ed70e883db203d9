"""Measure how the time of each layer type grows with length and width, beside the formulas of Vaswani et al. (2017).

    .venv/bin/python benchmarks/complexity.py [--width 512] [--length 1024] [--neighbours 65] [--kernel 3] [--runs 3]

Table 1 of the paper gives the complexity of a layer by its length n, its width d, the neighbourhood r of restricted
self-attention, and the kernel k of a convolution. Each layer here computes only what the table counts: self-attention
the products of queries with keys and of weights with values, a recurrent layer the product with its last state, step
by step, and a convolution its sums. Projections of self-attention, which cost n d^2 in either kind, are left out.

The time is the CPU time of one forward pass of one sequence on one thread in fp32, the least of several. The exponents
are slopes of log time over log length or log width, fitted to the three largest sizes.
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from nmt_core.batches.layout import Padded
from nmt_core.models.attention import attend
from nmt_core.models.recurrent.cells import CELLS

LENGTHS = (128, 256, 512, 1_024, 2_048, 4_096)
WIDTHS = (64, 128, 256, 512, 1_024)
HEAD = 64
"""Width of an attention head, as published."""
_FITTED = 3

Pass = Callable[[], object]


def self_attention(length: int, width: int, neighbours: int = 0) -> Pass:
    q, k, v = torch.randn(3, 1, length, max(1, width // HEAD), min(width, HEAD))
    return lambda: attend(q, k, v, Padded(), width=neighbours)


def recurrent(length: int, width: int) -> Pass:
    layer, x_BLG = CELLS["rnn"](width, width), torch.randn(1, length, width)

    def run() -> None:
        state = layer.nothing(x_BLG)
        for x_BG in x_BLG.unbind(1):
            state = layer.step(x_BG, state)

    return run


def convolution(length: int, width: int, kernel: int) -> Pass:
    layer, x_BDL = nn.Conv1d(width, width, kernel, padding=kernel // 2), torch.randn(1, width, length)
    return lambda: layer(x_BDL)


@torch.inference_mode()
def seconds(run: Pass, runs: int) -> float:
    """Return the CPU time of one pass, the least of several. The first one is not timed."""
    run()
    times = []
    for _ in range(runs):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return min(times)


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Return the slope of log time over log size for the largest sizes."""
    slope, _ = np.polyfit(np.log(sizes[-_FITTED:]), np.log(times[-_FITTED:]), 1)
    return float(slope)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--length", type=int, default=1_024)
    parser.add_argument("--neighbours", type=int, default=65)
    parser.add_argument("--kernel", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    layers: dict[str, tuple[str, tuple[int, int], Callable[[int, int], Pass]]] = {
        # name: (formula, its exponents of n and d, maker by n and d)
        "Self-attention": ("n^2 d", (2, 1), self_attention),
        "Recurrent": ("n d^2", (1, 2), recurrent),
        f"Convolution, k={options.kernel}": ("k n d^2", (1, 2), lambda n, d: convolution(n, d, options.kernel)),
        f"Self-attention, r={options.neighbours}": (
            "r n d",
            (1, 1),
            lambda n, d: self_attention(n, d, options.neighbours),
        ),
    }
    by_length, by_width = (
        {name: [seconds(make(*size(one)), options.runs) for one in sizes] for name, (_, _, make) in layers.items()}
        for sizes, size in (
            (LENGTHS, lambda n: (n, options.width)),
            (WIDTHS, lambda d: (options.length, d)),
        )
    )
    for title, sizes, times, place in (
        (f"ms by length n, d={options.width}", LENGTHS, by_length, 0),
        (f"ms by width d, n={options.length}", WIDTHS, by_width, 1),
    ):
        print(f"\n| {title} | " + " | ".join(f"{size:,}" for size in sizes) + " | Exponent | Formula |")
        print("| --- |" + " ---: |" * (len(sizes) + 2))
        for name, (formula, exponents, _) in layers.items():
            cells = [f"{1_000 * one:.{max(0, 1 - math.floor(math.log10(1_000 * one)))}f}" for one in times[name]]
            fitted = f"{exponent(sizes, times[name]):.2f}"
            print(f"| {name} | {' | '.join(cells)} | {fitted} | {exponents[place]} ({formula}) |")


if __name__ == "__main__":
    main()
