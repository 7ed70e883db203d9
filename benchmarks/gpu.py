"""Measure training on one GPU: target tokens per second of Transformer base and big, and where the other time goes.

    python benchmarks/gpu.py --output gpu.json        # or benchmarks/gpu.sh, which finds the interpreter
    python benchmarks/gpu.py --output gpu.json --only "matrix rate" base profile    # sections whose names begin so
    python benchmarks/gpu.py --output /tmp/tiny.json --device cpu --tiny      # to check that the program itself runs

This needs the repository, torch with CUDA, numpy, pyarrow, pydantic, safetensors and sentencepiece. The text is
generated (`synthetic.py`), no more than 10 MB. All sections run one after the other within `--limit` seconds, the most
important ones first. A section that fails is noted with its traceback, and one for which there is no time as skipped.
The others still run. Everything is in one JSON file, which is written again after each section.

- Matrix rate: the best of several large products in bf16, on random numbers, each the mean of 20.
- Checks: `gpu_checks.py`.
- Loss: one pass over 25,088 tokens, forward and backward, and its matrix products alone.
- Training: the real trainer in one process, in bf16, packed batches of 25,088 + 25,088 tokens an update, vocabulary of
  37,888, dropout 0.1 and 0.3, Adam. Tokens per second are target tokens without padding, </s> included, as the trainer
  reports them over 25 updates each, after a warm-up in which layers are compiled. The median counts. They include
  everything that an update takes: data, copies and logging, but no validation and no checkpoints. MFU is 6 FLOP per
  parameter and target token (0.381 GFLOP for base, 1.290 for big: embeddings count once, as the output matrix, and
  attention's own products do not count), divided by the measured matrix rate. Spans of an update come from
  `watched.py`, by the GPU's clock. Peak memory counts tensors.
- Profile: the kernels that take most of the GPU's time in 5 updates of base, DDP, compiled.

Time of an update of base on an H200, by its kernels (`gpu-h200.json`, in milliseconds; 25,088 + 25,088 tokens, 26.6 in
all): matrix products 13.9 (9.5 TFLOP, 12.4 at the measured matrix rate); attention 2.7; dropout, residual sums and
norms 1.9; softmax and loss 1.5; ReLU 1.0; Adam 0.5; some 2 between kernels. A host needs 56 ms to start the kernels one
by one, so each layer is one CUDA graph.
"""

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gpu_checks
import synthetic
import torch
import watched
from torch import Tensor
from torch.autograd import DeviceType

from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.models.loss import smoothed_cross_entropy
from nmt_core.train.distributed import World
from nmt_core.train.trainer import LOG_EVERY

_VOCABULARY = 37_888  # of this many pieces base has 0.381 and big 1.290 GFLOP per token, and kernels like a 128-fold
_MODELS = {
    "base": ModelConfig(),
    "big": ModelConfig(d_model=1_024, d_ff=4_096, num_heads=16, dropout=0.3),
}
_TARGETS = {"base": 1_000_000, "big": 330_000}
_TOKENS = 25_088
_WARM_UP, _MEASURED = 2 * LOG_EVERY, 4 * LOG_EVERY
_UNTIL_PROFILED, _PROFILED = 20, 5
_TINY_MODELS = {"base": ModelConfig(d_model=32, d_ff=64, num_heads=2, encoder_layers=1, decoder_layers=1)}


class Report:
    """The JSON file, and the time that is left.

    Args:
        file: written anew after each section.
        limit: seconds for all.
        only: how names of sections begin that are done; none: all are.
    """

    def __init__(self, file: Path, limit: float, only: Sequence[str]) -> None:
        self._file = file
        self._only = tuple(only)
        self._began = time.monotonic()
        self._limit = limit
        self.sections: dict[str, Any] = {}

    def section(self, name: str, needs_seconds: float, work: Callable[[], dict[str, Any]]) -> None:
        """Run one section. If it fails, the next one still runs."""
        if self._only and not name.startswith(self._only):
            return
        passed = time.monotonic() - self._began
        began = time.monotonic()
        if passed + needs_seconds > self._limit:
            result = {"skipped": f"{passed:.0f} of {self._limit:.0f} s have passed"}
        else:
            try:
                result = work()
            except Exception:
                result = {"error": traceback.format_exc()}
        self.sections[name] = result | {"seconds": round(time.monotonic() - began, 1)}
        draft = self._file.with_suffix(".partial")
        draft.write_text(json.dumps(self.sections, indent=1), encoding="utf-8")
        draft.replace(self._file)
        print(f"{name}: {_in_short(result)}", flush=True)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def main() -> None:
    """Run all sections, and print the table."""
    parser = argparse.ArgumentParser(description="Training on one GPU: tokens per second, MFU, and checks.")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="smallest sizes, to try this program")
    parser.add_argument("--only", nargs="+", default=[], help="how names of sections begin (all)")
    parser.add_argument("--limit", type=float, default=460, help="seconds for all (460)")
    parser.add_argument("--scratch", type=Path, help="for text and checkpoints (the system's temporary folder)")
    arguments = parser.parse_args()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    report = Report(arguments.output, arguments.limit, arguments.only)
    with (
        tempfile.TemporaryDirectory(prefix="bench-gpu-", dir=arguments.scratch) as folder,
        watched.one_process(arguments.device) as world,
    ):
        _run(report, Path(folder), world, arguments.tiny)
    _print(report.sections)
    if failed := [name for name, result in report.sections.items() if "error" in result or result.get("ok") is False]:
        sys.exit(f"failed: {', '.join(failed)}")


def _run(report: Report, folder: Path, world: World, tiny: bool) -> None:
    data, small = folder / "data", folder / "small"
    synthetic.write(small, 2_000, 512)
    synthetic.write(data, 2_000 if tiny else 100_000, 512 if tiny else _VOCABULARY)
    report.section("machine", 0, partial(_machine, world))
    report.section("matrix rate", 0, partial(_peak_matmul_flops, world, tiny))
    for number, (name, check) in enumerate(gpu_checks.CHECKS.items()):
        report.section(f"check: {name}", 20, partial(check, small, folder / f"check-{number}", world))
    rate = report.sections.get("matrix rate", {}).get("flops", 0.0)
    models = _TINY_MODELS if tiny else _MODELS
    report.section("loss", 5, partial(_loss, world, 512 if tiny else _VOCABULARY))
    for parallel, compiled in (("ddp", True), ("fsdp", True), ("ddp", False), ("fsdp", False)):
        for name, model in models.items():
            config = _config(tiny, parallel=parallel, compile_layers=compiled)
            label = f"{name}, {parallel}, {'compiled' if compiled else 'not compiled'}"
            work = partial(_train, data, folder / label.replace(", ", "-"), world, (model, config), rate)
            report.section(label, 30 if name == "base" else 45, work)
            if label == "base, ddp, compiled":
                profile = partial(_profile, data, folder / "profile", world, (model, config))
                report.section("profile", 25, profile)


def _config(tiny: bool, **options: Any) -> TrainConfig:
    updates, tokens = (LOG_EVERY * 2, 256) if tiny else (_WARM_UP + _MEASURED, _TOKENS)
    sizes = {"max_tokens": tokens, "micro_batch_tokens": tokens, "max_tokens_per_pass": tokens}
    never = {"validate_every": 10 * updates, "checkpoint_every": 10 * updates}
    return TrainConfig(max_updates=updates, batching="packed", precision="bf16", **sizes, **never, **options)


def _machine(world: World) -> dict[str, Any]:
    facts: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": f"{world.device}"}
    if world.device.type == "cuda":
        properties = torch.cuda.get_device_properties(world.device)
        facts |= {"name": properties.name, "memory": properties.total_memory}
    return facts


def _peak_matmul_flops(world: World, tiny: bool) -> dict[str, Any]:
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


def _loss(world: World, vocabulary: int) -> dict[str, Any]:
    """Milliseconds of the loss, and of its matrix products."""
    is_half = world.device.type == "cuda"
    dtype, tokens = (torch.bfloat16, _TOKENS) if is_half else (torch.float32, 256)
    figures: dict[str, float] = {}
    for width in (512, 1_024):
        states = torch.randn(tokens, width, device=world.device).to(dtype).requires_grad_()
        weight = torch.randn(vocabulary, width, device=world.device).mul_(0.05).requires_grad_()
        target = torch.randint(1, vocabulary, (tokens,), device=world.device)
        logits = torch.empty(tokens, vocabulary, device=world.device, dtype=dtype)
        plain, half = states.detach(), weight.detach().to(dtype)

        def loss(states: Tensor = states, weight: Tensor = weight, target: Tensor = target) -> None:
            smoothed_cross_entropy(states, weight, target, 0.1, 0)[0].backward()  # type: ignore[no-untyped-call]

        def products(states: Tensor = plain, half: Tensor = half, logits: Tensor = logits) -> None:
            torch.mm(states, half.t(), out=logits)
            torch.mm(logits, half)
            torch.mm(logits.t(), states)

        figures |= {
            f"loss, width {width}": _milliseconds(world, loss),
            f"products, width {width}": _milliseconds(world, products),
        }
    return figures


def _milliseconds(world: World, work: Callable[[], None]) -> float:
    """The best of five runs of four."""
    best = float("inf")
    for _ in range(5):
        _wait(world)
        began = time.perf_counter()
        for _ in range(4):
            work()
        _wait(world)
        best = min(best, (time.perf_counter() - began) / 4)
    return best * 1e3


def _wait(world: World) -> None:
    if world.device.type == "cuda":
        torch.cuda.synchronize()


def _train(
    data: Path, folder: Path, world: World, configs: tuple[ModelConfig, TrainConfig], peak_matmul_flops: float
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
        "mfu": rate * per_token / peak_matmul_flops if peak_matmul_flops else None,
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
    is_cuda = world.device.type == "cuda"
    name, kind = ("self_device_time_total", DeviceType.CUDA) if is_cuda else ("self_cpu_time_total", DeviceType.CPU)
    # What the profiler calls by the names of Python's blocks are spans of kernels that are counted by themselves.
    spans = ("ProfilerStep", "Optimizer.")
    events = [e for e in profiler.key_averages() if e.device_type == kind and not e.key.startswith(spans)]
    events.sort(key=lambda event: -getattr(event, name))
    total = sum(getattr(event, name) for event in events)
    kernels = [
        {
            "name": event.key[:120],
            "milliseconds": getattr(event, name) / 1e3 / _PROFILED,
            "calls an update": event.count / _PROFILED,
        }
        for event in events[:40]
    ]
    return {"milliseconds an update": total / 1e3 / _PROFILED, "kernels": kernels}


def _in_short(result: dict[str, Any]) -> str:
    if "error" in result:
        return f"FAILED: {result['error'].strip().splitlines()[-1]}"
    for key in ("skipped", "ok", "flops", "target tokens per second", "name"):
        if key in result:
            return f"{key} {result[key]}"
    return "done"


def _print(sections: dict[str, Any]) -> None:
    spans = ("input", "forward", "backward", "optimizer", "between", "waiting for data")
    columns = ["Target tokens/s", "of those wanted", "Useful", "MFU", "Peak, GB", *(f"{span}, ms" for span in spans)]
    print(f"\n| Training | {' | '.join(columns)} |\n| --- |{' ---: |' * len(columns)}")
    for name, result in sections.items():
        if rate := result.get("target tokens per second"):
            cells = [
                f"{rate:,.0f}",
                f"{rate / _TARGETS[name.split(',')[0]]:.0%}",
                f"{result['useful token share']:.4f}",
                f"{result['mfu']:.1%}" if result["mfu"] else "",
                f"{result['peak bytes'] / 1e9:.1f}",
                *(f"{result['milliseconds'][span]:.1f}" for span in spans),
            ]
            print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
