"""Training on one GPU: target tokens per second of Transformer base and big, and where the rest of the time goes.

    python tests/bench/h200.py --output h200.json        # or tests/bench/h200.sh, which finds the interpreter
    python tests/bench/h200.py --output /tmp/tiny.json --device cpu --tiny      # that the program itself runs

Needs this repository, torch with CUDA, numpy, pyarrow, pydantic, safetensors and sentencepiece; text is made
(`synthetic.py`), no more than 10 MB. All sections run one after the other within `--limit` seconds; one that fails is
noted with its traceback and one that there is no time for as skipped, and the others go on. The order is that of
importance. Everything is in one JSON file, which is written anew after each section.

- Matrix rate: the best of several large products in bf16, on random numbers, each the mean of 20.
- Checks: `h200_checks.py`.
- Training: the real trainer in one process, in bf16, packed batches of 25,088 + 25,088 tokens an update, vocabulary of
  37,888, dropout 0.1 and 0.3, Adam. Tokens per second are target tokens without padding, </s> included, as the trainer
  reports them over 25 updates each, after a warm-up, in which layers are compiled; the median counts. They include all
  that an update takes: data, copies, logging; not validation, nor checkpoints. MFU is 6 FLOP per parameter and target
  token (0.381 GFLOP for base, 1.290 for big: embeddings count once, as the output matrix; attention's own products do
  not) by the measured matrix rate. Spans of an update are those of `watched.py`, of the GPU's clock. Peak memory is
  that of tensors.
- Profile: the kernels that take most of the GPU's time in 5 updates of base, DDP, compiled.

Roofline of base at 25,000 + 25,000 tokens an update, 4.8 TB/s and some 700 TFLOP/s, by counting, not by measuring: the
matrix products, 9.5 TFLOP, take 13.6 ms. In bytes:

- Softmax and loss (models/loss.py): 0.95 G logits, in chunks of 1,024 tokens. A chunk has 39 M of them, 78 MB in bf16
  and 155 MB in fp32, more than the cache holds. Kernel by kernel a logit is written by the matrix product (2 bytes),
  widened (6), searched for the largest (4), shifted (8), exponentiated (8), summed (4), divided (8), smoothed (8), put
  back in bf16 (6), and read by the two products of the gradient (4): 58 bytes, 55 GB, 11.5 ms. This is the largest part
  that is no matrix product. Two fused kernels, for the sums and for the gradient, would need 12 bytes or 2.4 ms.
- Each chunk also adds a [37,888, 512] matrix to the gradient of the output matrix: written and read in bf16, and the
  sum read and written in fp32, 0.23 GB: 25 chunks are 6 GB, 1.2 ms. Some 20 launches a chunk, 500 in all.
- Elementwise, for each token and layer: dropout, residual sum and norm, forward and backward, for 2 (encoder) or 3
  (decoder) sub-layers, and ReLU and its bias of 2,048. Fused by torch.compile some 12 reads or writes of 512 values in
  bf16 a sub-layer and 6 of 2,048: 0.05 GB per 1,000 tokens and layer, 15 GB, 3 ms; not fused 2 to 3 times as much,
  and twice as much again as far as the stream of residual sums is kept in fp32.
- Optimizer: 63 M parameters, each read and written in fp32 with two moments, and its gradient read: 28 bytes, 1.8 GB,
  0.4 ms (big: 215 M, 6 GB, 1.3 ms). Zeroing and casting weights to bf16: 10 bytes each, 0.1 ms.
- Attention over sentences of 25 tokens: 0.1 TFLOP, but small tiles; some 1 ms.

Base is so at 31 ms or 0.8 M tokens/s at best, and at 1.1 M with a fused loss; big, with 32 TFLOP or 46 ms, the same
logits with twice the gradient, and 8 ms of the rest, at 68 ms or 0.37 M.
"""

import argparse
import gc
import inspect
import json
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h200_checks
import synthetic
import torch
import watched

from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.models import attention
from nmt_core.train.distributed import World
from nmt_core.train.trainer import LOG_EVERY

_VOCABULARY = 37_888  # of this many pieces base has 0.381 and big 1.290 GFLOP per token, and kernels like a 128-fold
_MODELS = {
    "base": ModelConfig(),
    "big": ModelConfig(d_model=1_024, d_ff=4_096, num_heads=16, dropout=0.3),
}
_TARGETS = {"base": 800_000, "big": 250_000}
_TOKENS = 25_088
_WARM_UP, _MEASURED = 2 * LOG_EVERY, 4 * LOG_EVERY
_UNTIL_PROFILED, _PROFILED = 20, 5
_TINY_MODELS = {"base": ModelConfig(d_model=32, d_ff=64, num_heads=2, encoder_layers=1, decoder_layers=1)}


class Report:
    """The JSON file, and the time that is left.

    Args:
        file: written anew after each section.
        limit: seconds for all.
    """

    def __init__(self, file: Path, limit: float) -> None:
        self._file = file
        self._began = time.monotonic()
        self._limit = limit
        self.sections: dict[str, Any] = {}

    def section(self, name: str, needs_seconds: float, work: Callable[[], dict[str, Any]]) -> None:
        """Do one section; whatever becomes of it, the next one is done."""
        passed = time.monotonic() - self._began
        began = time.monotonic()
        if passed + needs_seconds > self._limit:
            found = {"skipped": f"{passed:.0f} of {self._limit:.0f} s have passed"}
        else:
            try:
                found = work()
            except Exception:
                found = {"error": traceback.format_exc()}
        self.sections[name] = found | {"seconds": round(time.monotonic() - began, 1)}
        draft = self._file.with_suffix(".partial")
        draft.write_text(json.dumps(self.sections, indent=1), encoding="utf-8")
        draft.replace(self._file)
        print(f"{name}: {_in_short(found)}", flush=True)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def main() -> None:
    """Run all sections, and print the table."""
    parser = argparse.ArgumentParser(description="Training on one GPU: tokens per second, MFU, and checks.")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="smallest sizes, to try this program")
    parser.add_argument("--limit", type=float, default=460, help="seconds for all (460)")
    parser.add_argument("--scratch", type=Path, help="for text and checkpoints (the system's temporary folder)")
    arguments = parser.parse_args()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    report = Report(arguments.output, arguments.limit)
    with (
        tempfile.TemporaryDirectory(prefix="bench-h200-", dir=arguments.scratch) as folder,
        watched.one_process(arguments.device) as world,
    ):
        _run(report, Path(folder), world, arguments.tiny)
    _print(report.sections)
    if failed := [name for name, found in report.sections.items() if "error" in found or found.get("ok") is False]:
        sys.exit(f"failed: {', '.join(failed)}")


def _run(report: Report, folder: Path, world: World, tiny: bool) -> None:
    data, small = folder / "data", folder / "small"
    synthetic.write(small, 2_000, 512)
    synthetic.write(data, 2_000 if tiny else 100_000, 512 if tiny else _VOCABULARY)
    report.section("machine", 0, partial(_machine, world))
    report.section("matrix rate", 0, partial(_matrix_rate, world, tiny))
    for number, (name, check) in enumerate(h200_checks.CHECKS.items()):
        report.section(f"check: {name}", 20, partial(check, small, folder / f"check-{number}", world))
    rate = report.sections["matrix rate"].get("flops", 0.0)
    models = _TINY_MODELS if tiny else _MODELS
    for compiled in (True, False):
        for parallel in ("ddp", "fsdp"):
            for name, model in models.items():
                config = _config(tiny, parallel=parallel, compile_layers=compiled)
                label = f"{name}, {parallel}, {'compiled' if compiled else 'not compiled'}"
                work = partial(_train, data, folder / label.replace(", ", "-"), world, (model, config), rate)
                report.section(label, 30 if name == "base" else 45, work)
        if compiled:
            config = _config(tiny, parallel="ddp", compile_layers=True)
            report.section("profile", 25, partial(_profile, data, folder / "profile", world, (models["base"], config)))


def _config(tiny: bool, **knobs: Any) -> TrainConfig:
    updates, tokens = (LOG_EVERY * 2, 256) if tiny else (_WARM_UP + _MEASURED, _TOKENS)
    sizes = {"max_tokens": tokens, "slice_tokens": tokens, "max_tokens_per_pass": tokens}
    never = {"validate_every": 10 * updates, "checkpoint_every": 10 * updates}
    return TrainConfig(max_updates=updates, batching="packed", precision="bf16", **sizes, **never, **knobs)


def _machine(world: World) -> dict[str, Any]:
    found: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": f"{world.device}"}
    if world.device.type == "cuda":
        properties = torch.cuda.get_device_properties(world.device)
        found |= {"name": properties.name, "memory": properties.total_memory}
    if varlen := getattr(attention, "varlen_attn", None):
        found["varlen_attn"] = f"{inspect.signature(varlen)}"
    return found


def _matrix_rate(world: World, tiny: bool) -> dict[str, Any]:
    """Best FLOP/s of large matrix products."""
    sizes = [128] if tiny else [4_096, 8_192, 16_384]
    rates = {}
    for size in sizes:
        a, b = (torch.randn(size, size, device=world.device, dtype=torch.bfloat16) for _ in range(2))
        out = torch.empty_like(a)
        best = float("inf")
        for _ in range(5):  # the first ones warm up
            _wait(world)
            began = time.perf_counter()
            for _ in range(20):
                torch.mm(a, b, out=out)
            _wait(world)
            best = min(best, (time.perf_counter() - began) / 20)
        rates[f"{size}"] = 2 * size**3 / best
    return {"flops": max(rates.values()), "by size": rates}


def _wait(world: World) -> None:
    if world.device.type == "cuda":
        torch.cuda.synchronize()


def _train(
    data: Path, folder: Path, world: World, configs: tuple[ModelConfig, TrainConfig], matrix_rate: float
) -> dict[str, Any]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    run = watched.train(data, folder, world, configs)
    warm_up = max(LOG_EVERY, configs[1].max_updates - _MEASURED)
    rates = run.rates(warm_up)
    rate = statistics.median(rates)
    shares = [point["useful_token_share"] for point in run.points if "useful_token_share" in point]
    per_token = 6 * run.parameters
    return {
        "target tokens per second": rate,
        "lowest and highest": [min(rates), max(rates)],
        "useful token share": statistics.mean(shares),
        "gflop per target token": per_token / 1e9,
        "mfu": rate * per_token / matrix_rate if matrix_rate else None,
        "peak bytes": run.peak_bytes,
        "milliseconds": run.span_means(warm_up),
        "first update, seconds": run.starts[1] - run.starts[0],
        "graphs compiled": dict(torch._dynamo.utils.counters["stats"]),
        "graph breaks": dict(torch._dynamo.utils.counters["graph_break"]),
        "last train loss": [point["train_loss"] for point in run.points if "train_loss" in point][-1],
    }


def _profile(data: Path, folder: Path, world: World, configs: tuple[ModelConfig, TrainConfig]) -> dict[str, Any]:
    """The kernels that take most of the time."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if world.device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    model, config = configs[0], configs[1].model_copy(update={"max_updates": _UNTIL_PROFILED})
    schedule = torch.profiler.schedule(wait=_UNTIL_PROFILED - _PROFILED - 2, warmup=1, active=_PROFILED)
    with torch.profiler.profile(activities=activities, schedule=schedule, acc_events=True) as profiler:

        def step(update: int) -> bool:
            if update:
                profiler.step()
            return False

        watched.train(data, folder, world, (model, config), step)
    name = "self_device_time_total" if world.device.type == "cuda" else "self_cpu_time_total"
    events = sorted(profiler.key_averages(), key=lambda event: -getattr(event, name))
    total = sum(getattr(event, name) for event in events)
    kernels = [
        {"name": event.key[:120], "share": getattr(event, name) / total, "calls an update": event.count / _PROFILED}
        for event in events[:30]
    ]
    return {"milliseconds an update": total / 1e3 / _PROFILED, "kernels": kernels}


def _in_short(found: dict[str, Any]) -> str:
    if "error" in found:
        return f"FAILED: {found['error'].strip().splitlines()[-1]}"
    for key in ("skipped", "ok", "flops", "target tokens per second", "name"):
        if key in found:
            return f"{key} {found[key]}"
    return "done"


def _print(sections: dict[str, Any]) -> None:
    spans = ("input", "forward", "backward", "optimizer", "between", "waiting for data")
    columns = ["Target tokens/s", "of those wanted", "Useful", "MFU", "Peak, GB", *(f"{span}, ms" for span in spans)]
    print(f"\n| Training | {' | '.join(columns)} |\n| --- |{' ---: |' * len(columns)}")
    for name, found in sections.items():
        if rate := found.get("target tokens per second"):
            cells = [
                f"{rate:,.0f}",
                f"{rate / _TARGETS[name.split(',')[0]]:.0%}",
                f"{found['useful token share']:.4f}",
                f"{found['mfu']:.1%}" if found["mfu"] else "",
                f"{found['peak bytes'] / 1e9:.1f}",
                *(f"{found['milliseconds'][span]:.1f}" for span in spans),
            ]
            print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
