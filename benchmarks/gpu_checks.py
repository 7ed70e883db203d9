"""Check on the device itself what must hold before speed matters, for `gpu.py`.

Each check returns its result and whether that is within its limits. It uses only the product: its attention, its loss
and its trainer. On a CPU the same code runs, to be tested, and checks less.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import watched
from torch import Tensor

from nmt_core.batches.collate import Batch, pack, pad
from nmt_core.batches.layout import Packed
from nmt_core.batches.plan import Capacity
from nmt_core.batches.shards import DEV_FILE, read_pairs
from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.models.attention import attend, attend_reference
from nmt_core.models.build import build_model
from nmt_core.models.layers import FeedForward, Residual
from nmt_core.models.model import TranslationModel
from nmt_core.train.device import autocast
from nmt_core.train.distributed import World
from nmt_core.train.parallel import Objective

UPDATES = 20
_HEADS, _WIDTH = 8, 64
_SMALL = ModelConfig(d_model=64, d_ff=128, num_heads=2, encoder_layers=2, decoder_layers=2, dropout=0.0)
_LIMITS = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""Largest difference, relative to the largest value: fp32 as the tests demand it, bf16 a few of its roundings."""


def attention(data: Path, folder: Path, world: World) -> dict[str, Any]:
    """Packed attention against the formula in fp32, one sentence after the other: values and gradients.

    The streams of the last cases end in padding: tokens without a key to look at, as where a source stream is full and
    its target stream is not, and keys that no query looks at. Nothing may come of them, no NaN above all.
    """
    device = world.device
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    draw = np.random.default_rng(1)
    sources, targets = draw.integers(1, 100, (2, 32)).tolist()
    differences = {}
    for name, queries, keys, padding, causal in (
        ("encoder", sources, sources, (0, 0), False),
        ("decoder", targets, targets, (0, 0), True),
        ("cross", targets, sources, (0, 0), False),
        ("queries without keys", targets, sources, (9, 0), False),
        ("keys without queries", targets, sources, (0, 9), False),
    ):
        torch.manual_seed(1)
        tokens, seen = sum(queries), sum(keys)
        sizes = [tokens + padding[0], seen + padding[1], seen + padding[1], tokens + padding[0]]
        q, k, v, weight = (torch.randn(size, _HEADS, _WIDTH, device=device).to(dtype) for size in sizes)
        weight[tokens:] = 0
        of_queries, of_keys = (
            _layout([*each, more], device) for each, more in zip((queries, keys), padding, strict=True)
        )
        ours = partial(attend, keys=of_keys, queries=of_queries, causal=causal)
        values = _with_gradients(ours, (q, k, v), weight)
        right = partial(_one_by_one, queries=queries, keys=keys, causal=causal)
        expected = _with_gradients(
            right, [q[:tokens].float(), k[:seen].float(), v[:seen].float()], weight[:tokens].float()
        )
        for what, value, reference in zip(("output", "dq", "dk", "dv"), values, expected, strict=True):
            difference = (value[: len(reference)].float() - reference).abs().max() / reference.abs().max()
            is_quiet = value.isfinite().all() and (what == "output" or not value[len(reference) :].any())
            differences[f"{name} {what}"] = float(difference) if is_quiet else math.inf
    limit = _LIMITS[dtype]
    return {"dtype": f"{dtype}", "limit": limit, "differences": differences, "ok": max(differences.values()) <= limit}


def _layout(lengths: Sequence[int], device: torch.device) -> Packed:
    lengths_B = torch.tensor(lengths)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), lengths_B.cumsum(0)])
    sentence_N = torch.repeat_interleave(torch.arange(len(lengths)), lengths_B)
    position_N = torch.arange(int(starts[-1])) - starts[sentence_N]
    return Packed(starts.int(), sentence_N, position_N, max(lengths), len(lengths)).map(
        lambda tensor: tensor.to(device)
    )


def _one_by_one(
    q_NHD: Tensor, k_NHD: Tensor, v_NHD: Tensor, queries: Sequence[int], keys: Sequence[int], causal: bool
) -> Tensor:
    cut = zip(*(torch.split(x, list(of)) for x, of in ((q_NHD, queries), (k_NHD, keys), (v_NHD, keys))), strict=True)
    outputs = [attend_reference(*(x.transpose(0, 1)[None] for x in one), causal=causal)[0] for one in cut]
    return torch.cat([one.transpose(0, 1) for one in outputs])


def _with_gradients(function: Callable[..., Tensor], qkv: Sequence[Tensor], weight: Tensor) -> list[Tensor]:
    """A function's value, and the gradients of its product with `weight`."""
    leaves = [x.clone().requires_grad_() for x in qkv]
    value = function(*leaves)
    return [value.detach(), *torch.autograd.grad((value.float() * weight.float()).sum(), leaves)]


def residual(data: Path, folder: Path, world: World) -> dict[str, Any]:
    """Compare the frame of a sub-layer in half precision with fp32, in value and gradients. Check its dropout."""
    device, dtype = world.device, torch.bfloat16 if world.device.type == "cuda" else torch.float32
    torch.manual_seed(1)
    frame = Residual(ModelConfig(dropout=0.1)).to(device)
    torch.nn.init.normal_(frame.norm.weight)
    x, output, weight = (torch.randn(1_000, frame.norm.weight.numel(), device=device).to(dtype) for _ in range(3))

    def of(x: Tensor, output: Tensor) -> list[Tensor]:
        leaves = [x.clone().requires_grad_(), output.clone().requires_grad_(), frame.norm.weight, frame.norm.bias]
        value = frame.leave(leaves[0], leaves[1])
        return [value.detach(), *torch.autograd.grad((value.float() * weight.float()).sum(), leaves)]

    frame.eval()
    names = ("value", "dx", "doutput", "dweight", "dbias")
    differences = {
        name: float((ours.float() - right).abs().max() / right.abs().max())
        for name, ours, right in zip(names, of(x, output), of(x.float(), output.float()), strict=True)
    }
    frame.train()
    dropped = float((of(x, output)[2] == 0).float().mean())
    limit = _LIMITS[dtype]
    is_right = max(differences.values()) <= limit and abs(dropped - 0.1) < 0.005
    return {"dtype": f"{dtype}", "limit": limit, "differences": differences, "dropped": dropped, "ok": is_right}


def feed_forward(data: Path, folder: Path, world: World) -> dict[str, Any]:
    """Compare the feed-forward network in half precision with fp32, in value and gradients."""
    device, dtype = world.device, torch.bfloat16 if world.device.type == "cuda" else torch.float32
    torch.manual_seed(1)
    network = FeedForward(ModelConfig()).to(device)
    torch.nn.init.normal_(network.inner.bias)
    x, weight = (torch.randn(1_000, network.inner.in_features, device=device).to(dtype) for _ in range(2))

    def of(x: Tensor) -> list[Tensor]:
        leaves = [x.clone().requires_grad_(), network.inner.weight, network.inner.bias]
        with autocast(x.dtype, device):
            value = network(leaves[0])
        return [value.detach(), *torch.autograd.grad((value.float() * weight.float()).sum(), leaves)]

    differences = {
        name: float((ours.float() - right).abs().max() / right.abs().max())
        for name, ours, right in zip(("value", "dx", "dweight", "dbias"), of(x), of(x.float()), strict=True)
    }
    limit = _LIMITS[dtype]
    return {"dtype": f"{dtype}", "limit": limit, "differences": differences, "ok": max(differences.values()) <= limit}


def packed_and_padded(data: Path, folder: Path, world: World) -> dict[str, Any]:
    """Compare the loss of the same pairs, packed and padded, in fp32 and in bf16, with padded fp32."""
    pairs = read_pairs([data / DEV_FILE])
    rows = np.arange(min(64, len(pairs)))
    totals = [-(-int(side.lengths[rows].sum()) // 8) * 8 + 64 for side in (pairs.source, pairs.target)]
    batches = {"padded": pad(pairs, rows), "packed": pack([(pairs, rows)], Capacity(*totals))}
    torch.manual_seed(1)
    vocabulary = int(max(pairs.source.ids.max(), pairs.target.ids.max())) + 1
    model = build_model(_SMALL, vocabulary).to(world.device).eval()
    losses = {
        f"{name} {dtype}".replace("torch.", ""): _loss(model, batch.to(world.device), dtype)
        for dtype in (torch.float32, torch.bfloat16)
        for name, batch in batches.items()
    }
    right = losses["padded float32"]
    differences = {name: abs(loss / right - 1) for name, loss in losses.items()}
    return {
        "losses": losses,
        "differences": differences,
        "limits": {"float32": 1e-5, "bfloat16": 5e-3},
        "ok": differences["packed float32"] <= 1e-5 and max(differences.values()) <= 5e-3,
    }


@torch.no_grad()
def _loss(model: TranslationModel, batch: Batch, dtype: torch.dtype) -> float:
    """Mean plain loss per target token."""
    return float(Objective(model, 0.1, dtype)(batch)[1]) / int((batch.target != 0).sum())


def device_and_cpu(data: Path, folder: Path, world: World) -> dict[str, Any]:
    """The dev loss after each of 20 updates in fp32, on the device and on the CPU."""
    worlds = {"device": world, "cpu": World(0, 1, torch.device("cpu"))}
    ours, right = (_train(data, folder / name, place, {"precision": "fp32"}) for name, place in worlds.items())
    return _compared(ours, right, limit=1e-4)


def fsdp_and_ddp(data: Path, folder: Path, world: World) -> dict[str, Any]:
    """The dev loss after each of 20 updates by FSDP and by DDP, in fp32."""
    fsdp, ddp = (
        _train(data, folder / kind, world, {"precision": "fp32", "parallel": kind}) for kind in ("fsdp", "ddp")
    )
    return _compared(fsdp, ddp, limit=1e-5)


def compiled_and_eager(data: Path, folder: Path, world: World) -> dict[str, Any]:
    """Compare the dev loss after each of 20 updates of two passes, with and without compiled layers (bf16 on a GPU)."""
    precision = "bf16" if world.device.type == "cuda" else "fp32"
    compiled, eager = (
        _train(data, folder / f"{kind}", world, {"precision": precision, "compile_layers": kind})
        for kind in (True, False)
    )
    return _compared(compiled, eager, limit=1e-2)


def resume(data: Path, folder: Path, world: World) -> dict[str, Any]:
    """Twenty updates, and ten and ten more from the checkpoint, with dropout: the same weights bit for bit.

    As it is trained by default: in bf16 and compiled on a GPU, without asking PyTorch for deterministic kernels.
    """
    options = {"precision": "bf16" if world.device.type == "cuda" else "fp32", "compile_layers": True}
    model = _SMALL.model_copy(update={"dropout": 0.1})
    whole = _train(data, folder / "whole", world, options, model)
    first = _train(data, folder / "parts", world, options, model, lambda update: update == UPDATES // 2 - 1)
    second = _train(data, folder / "parts", world, options, model)
    is_equal = _same(whole, second) and whole.dev_losses == first.dev_losses + second.dev_losses
    return {"ok": is_equal, "updates after resuming": len(second.starts)}


def _same(a: watched.Run, b: watched.Run) -> bool:
    return all(torch.equal(weight, b.weights[name]) for name, weight in a.weights.items())


def _train(
    data: Path,
    folder: Path,
    world: World,
    options: dict[str, Any],
    model: ModelConfig = _SMALL,
    before_update: Callable[[int], bool] = lambda update: False,
) -> watched.Run:
    """A small model, packed batches, a look at the dev set after each update."""
    tokens = {"max_tokens": 2_048, "micro_batch_tokens": 1_024, "max_tokens_per_pass": 1_024}
    schedule = {"max_updates": UPDATES, "validate_every": 1, "checkpoint_every": UPDATES}
    usual = {"batching": "packed", "warmup_updates": 100, "compile_layers": False}
    config = TrainConfig(**usual | tokens | schedule | options)
    return watched.train(data, folder, world, (model, config), before_update)


def _compared(a: watched.Run, b: watched.Run, limit: float) -> dict[str, Any]:
    pairs = list(zip(a.dev_losses, b.dev_losses, strict=True))
    difference = max(abs(one / other - 1) for one, other in pairs)
    last = list(pairs[-1])
    return {"ok": len(pairs) == UPDATES and difference <= limit, "limit": limit, "difference": difference, "last": last}


CHECKS = {
    "attention equals the reference": attention,
    "residual equals the formula": residual,
    "feed-forward equals fp32": feed_forward,
    "packed equals padded": packed_and_padded,
    "20 updates equal the CPU's": device_and_cpu,
    "FSDP equals DDP": fsdp_and_ddp,
    "compiled equals not compiled": compiled_and_eager,
    "resumed bit for bit": resume,
}
