"""A recorded module computes in ONNX Runtime what it computes in PyTorch, for any size. The rest is refused."""

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.export.onnx_files import Weights, graph_of, save
from nmt_core.export.recording import shapes
from nmt_core.export.recording.draft import SIZES, NotRecordableError
from nmt_core.export.recording.recorder import RULES, Recording, operator, record
from nmt_core.export.recording.table import Table
from nmt_core.models.decoding import Held
from nmt_core.search.onnx_session import open_graph

WIDTH = 6
WEIGHT = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(1))
X = Held("x", ("sentences", "source_positions", WIDTH), torch.float32)
ROWS = Held("rows", ("rows", WIDTH), torch.float32)
HALF = Held("half", ("rows", WIDTH), torch.float16)
IDS = Held("ids", ("sentences", "source_positions"), torch.int64)
MASK = Held("mask", ("sentences", "source_positions"), torch.bool)
WANTED = Held("wanted", ("candidates",), torch.int64)
RUNS = (
    {"sentences": 1, "source_positions": 1, "rows": 1, "candidates": 1},
    {"sentences": 2, "source_positions": 20, "rows": 8, "candidates": 4},
    {"sentences": 7, "source_positions": 3, "rows": 7, "candidates": 3},
)
"""Sizes to run graphs with. None is an example of `SIZES`, if it may be any number."""


def heads(x: Tensor) -> list[Tensor]:
    x_BHSD = x.view(*x.shape[:-1], 3, -1).transpose(1, 2)
    return [x_BHSD, x_BHSD.transpose(1, 2).flatten(-2)]


def places(rows: Tensor) -> Tensor:
    return torch.arange(rows.shape[0])[:, None] * rows.shape[0] + (rows.shape[0] + 6) // 3


def best(rows: Tensor, wanted: Tensor) -> list[Tensor]:
    """Return the largest numbers of each row, which may be fewer than wanted."""
    numbers, ids = rows.topk(torch.sym_min(wanted.shape[0] + 2, WIDTH), dim=-1)
    return [numbers, ids, rows.gather(1, ids[:, :1])]


def causal(x: Tensor) -> Tensor:
    scores = x @ x.transpose(-2, -1)
    before = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
    return scores.masked_fill(~before[None], float("-inf"))


def near(x: Tensor) -> list[Tensor]:
    """Return which positions are near each other, and which of them are one or in the first sentence's range."""
    ones = torch.ones((x.shape[1], x.shape[1]), dtype=torch.bool, device=x.device)
    place = torch.arange(x.shape[1], device=x.device).float()
    return [ones.tril(2) & ~ones.tril(-2), ones.tril(-1) | (torch.minimum(place, x[0, :, 0]).le(0.5))]


def with_room(rows: Tensor, ids: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_zeros(ids.shape[1], WIDTH)])


def pieces(x: Tensor) -> list[Tensor]:
    return [torch.cat([x, x], dim=1), torch.stack([x, x], 1), *torch.split(x, [1, 5], dim=-1), *x.chunk(2, dim=-1)]


CASES: dict[str, tuple[Callable[..., Any], Sequence[Held]]] = {
    "activations": (lambda x: [F.relu(x), torch.tanh(x), torch.sigmoid(x), F.gelu(x), F.silu(x)], [X]),
    "logarithms and powers": (lambda x: [x.softmax(-1).log(), x.exp()], [X]),
    "a difference from a number": (lambda x: 1 - x, [X]),
    "dropout": (lambda x: F.dropout(x, 0.5, training=False), [X]),
    "sums": (lambda x: [x + 1, x - 2.5, x + x[:1], x - x[:, :1], 3 * x, x * x, x / 1.5], [X]),
    "half precision": (lambda half: [half * 3.25, half.float(), half.float().to(half.dtype) + half], [HALF]),
    "integers": (
        lambda ids: [ids * 3 + 1, torch.div(ids, 7, rounding_mode="trunc"), torch.fmod(ids, 7), ids.to(torch.int32)],
        [IDS],
    ),
    "comparisons": (lambda ids, mask: [ids == 3, ids != 3, ~mask, mask & (ids == 3)], [IDS, MASK]),
    "choices": (
        lambda x, mask: [torch.where(mask[:, :, None], x, float("-inf")), x.masked_fill(mask[..., None], -1.0)],
        [X, MASK],
    ),
    "linear layers": (
        lambda x, rows: [F.linear(one, WEIGHT, bias) for one in (x, rows) for bias in (None, WEIGHT[0])],
        [X, ROWS],
    ),
    "products": (lambda rows: [rows @ WEIGHT, rows @ WEIGHT.t()], [ROWS]),
    "embeddings": (
        lambda ids, rows: [F.embedding(ids, WEIGHT.repeat(20, 1)), F.embedding(ids[:, :1] * 0, rows)],
        [IDS, ROWS],
    ),
    "norms": (nn.LayerNorm(WIDTH), [X]),
    "softmax": (lambda x: [F.softmax(x, dim=1), F.log_softmax(x, dim=-1), x.softmax(0)], [X]),
    "reductions": (
        lambda x, mask: [x.amax(dim=1), x.sum(dim=-1), x.mean(dim=0), mask.sum(dim=1, dtype=torch.int32)],
        [X, MASK],
    ),
    "the best": (best, [ROWS, WANTED]),
    "pieces": (pieces, [X]),
    "padding": (lambda x: F.pad(x, (1, 2, 0, 3), value=float("-inf")), [X]),
    "heads": (heads, [X]),
    "another order": (lambda x: [x.permute(2, 0, 1), x.transpose(0, -1)], [X]),
    "rows of sentences": (lambda mask, x: x.flatten(0, 1).view(mask.shape[0], -1, x.shape[-1]), [MASK, X]),
    "another shape": (lambda x: x.view(x.shape[1], x.shape[0] * WIDTH), [X]),
    "slices": (lambda x: [x[:, 1:], x[..., ::2], x[:, :, None, 1::3], x[0], x[:, -1], x[..., :-2], x[None, :, 0]], [X]),
    "slices of constants": (lambda x: WEIGHT.repeat(10, 1)[: x.shape[1]] + x, [X]),
    "as many as there are": (lambda x: x[:, :4] * x[:, :4].shape[1], [X]),
    "rows": (
        lambda rows, ids: [rows[ids[0] * 0], rows.index_copy(0, ids[0, :1] * 0, rows[:1] + 1), with_room(rows, ids)],
        [ROWS, IDS],
    ),
    "expanded": (lambda rows: rows[:1].squeeze(0).expand(rows.shape[0], WIDTH), [ROWS]),
    "from sizes": (lambda rows: [places(rows), torch.zeros_like(rows)], [ROWS]),
    "causal": (causal, [X]),
    "near": (near, [X]),
    "questions": (lambda x: x.to(x.dtype) * x.dim(), [X]),
    "nothing": (lambda x, ids: [x, ids, x], [X, IDS]),
}


class Module(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def recorded(function: Callable[..., Any], inputs: Sequence[Held]) -> Recording:
    return record(Module(function), inputs, "output")


def values(held: Held, sizes: dict[str, int]) -> Tensor:
    shape = held.zeros(sizes).shape
    generator = torch.Generator().manual_seed(len(held.name) + sum(shape))
    if held.dtype in (torch.bool, torch.int64):
        return torch.randint(0, 2 if held.dtype == torch.bool else 100, shape, generator=generator).to(held.dtype)
    return torch.randn(shape, generator=generator).to(held.dtype)


@pytest.mark.parametrize("case", CASES)
def test_a_recorded_function_computes_the_same_for_all_sizes(case: str, tmp_path: Path) -> None:
    function, inputs = CASES[case]
    with (tmp_path / "weights.bin").open("wb") as file:
        graph = graph_of(recorded(function, inputs), Weights(file))
    save(graph, tmp_path / "graph.onnx")
    onnx.checker.check_model(tmp_path / "graph.onnx", full_check=True)
    session = open_graph(tmp_path / "graph.onnx", "cpu")
    for sizes in RUNS:
        given = {held.name: values(held, sizes) for held in inputs}
        with torch.no_grad():
            expected = function(*given.values())
        found = session.run(None, {name: tensor.numpy() for name, tensor in given.items()})
        for one, other in zip(found, [expected] if isinstance(expected, Tensor) else expected, strict=True):
            assert (one.dtype, one.shape) == (other.numpy().dtype, tuple(other.shape))
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-6)


def test_every_rule_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, apply = set[Any](), Table.apply

    def observed(table: Table, draft: Any, function: Any, *arguments: Any) -> Any:
        tried.add(function)
        return apply(table, draft, function, *arguments)

    monkeypatch.setattr(Table, "apply", observed)
    for function, inputs in CASES.values():
        recorded(function, inputs)
    assert tried == RULES.keys() | shapes.ANSWERS.keys()


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "no rule": (
        lambda x: x.cumsum(1),
        r"cumsum\(<x: torch.float32 \[.*\]>, 1\) .*: this function has no rule",
    ),
    "in place": (lambda x: x.add_(1), r"add_\(.*\) .*: this function has no rule"),
    "written into": (lambda x: x.__setitem__(0, 1.0), r"__setitem__\(.*\) .*: this function has no rule"),
    "a tensor asked for its value": (lambda x: bool(x.amax(dim=0)), r"__bool__\(.*\) .*: this function has no rule"),
    "an attribute": (lambda x: x.mT, r"mT\(.*\) .*: this function has no rule"),
    "an unknown argument": (
        lambda x: x.add(x, alpha=2),
        r"add\(.*, alpha=2\) .*: its rule does not match: .*argument 'alpha'",
    ),
    "another value": (lambda x: F.gelu(x, approximate="tanh"), r"gelu\(.*: its rule does not take approximate='tanh'"),
    "another type": (
        lambda x: F.softmax(x, -1, dtype=torch.float16),
        r"softmax\(.*: its rule does not take dtype=torch.float",
    ),
    "training": (lambda x: F.dropout(x, 0.1), r"dropout\(.*: its rule does not take training=True"),
    "a tensor as index": (lambda x: x[torch.tensor([0])], r"__getitem__\(.*: its rule does not take index=<a constant"),
    "floor of a negative quotient": (
        lambda x: torch.div(x, 2, rounding_mode="floor"),
        r"div\(.* rounding_mode='floor'",
    ),
    "a quotient of integers": (
        lambda x: x.to(torch.int64) / 2,
        r"div\(.*, 2\) .*: its rule supports the types .*float.*, not .*int64",
    ),
    "a squeeze that depends": (
        lambda x: x.squeeze(1),
        r"squeeze\(.*, 1\) .*: its rule removes dimensions of size 1, not of 7",
    ),
    "chunks that depend": (lambda x: x.chunk(2, dim=1), r"chunk\(.*: .* may not be divisible by 2"),
    "types that differ": (lambda x: torch.cat([x, x.half()]), r"half\("),
    "a loop": (lambda x: [x[place] for place in range(x.shape[1])], "value of a size that varies .* is read"),
    "a length": (lambda x: len(x), r"__len__\(.*\) .*: this function has no rule"),
    "a condition": (lambda x: x if x.shape[1] > 4 else -x, "value of a size that varies .* is read"),
    "an equation": (lambda x: x if x.shape[1] == x.shape[0] else -x, "value of a size that varies .* is read"),
    "a truth": (lambda x: x if x.shape[0] else -x, "value of a size that varies .* is read"),
    "a number": (lambda x: x / float(x.shape[1]), "value of a size that varies .* is read"),
    "a power": (lambda x: x * 2 ** x.shape[1], "value of a size that varies .* is read"),
    "a difference": (lambda x: x * (x.shape[1] - 1), "value of a size that varies .* is read"),
    "a type that no graph has": (
        lambda x: x.to(torch.bfloat16),
        r"to\(.*\) .*: graphs do not support the type torch.bfloat16",
    ),
    "a size for a single number": (
        lambda x: x[0, 0, 0] * x.shape[1],
        r"mul\(.*: its rule turns a size into a tensor \[1\]",
    ),
    "a size that stays": (lambda x: x.expand(-1, -1, WIDTH), r"expand\(.*: its rule needs a number for each size"),
    "a constant": (lambda x: [x, WEIGHT], "output_1 depends on no input"),
    "a part that is nothing": (lambda x: x * (x.shape[1] // 100), "Div of a size that varies .* and 100 does not grow"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_rule_translates_is_refused(case: str) -> None:
    function, message = REFUSED[case]
    with pytest.raises(NotRecordableError, match=message):
        recorded(function, [X])


def test_a_recorded_tensor_is_of_no_use_later() -> None:
    recording = recorded(lambda x: x + 1, [X])
    with pytest.raises(NotRecordableError, match="add reads a tensor of a graph that is not being recorded"):
        recording.outputs["output_0"] + 1


def test_no_size_that_varies_is_another_one_plus_or_times_a_constant() -> None:
    for (least, *examples), (other_least, *others) in combinations(SIZES.values(), 2):
        assert least in (0, 1)
        assert other_least in (0, 1)
        assert examples[1] - examples[0] != others[1] - others[0]
        assert examples[0] * others[1] != examples[1] * others[0]


def test_what_is_computed_twice_is_written_once() -> None:
    draft = recorded(lambda x: [F.relu(x) + x.shape[0], F.relu(x) + x.shape[0]], [X]).draft
    assert [node.op for node in draft.nodes] == ["Relu", "Shape", "Cast", "Add"]


def test_a_matrix_is_stored_once_however_it_lies(tmp_path: Path) -> None:
    matrix = torch.randn(64, 32)
    recording = recorded(lambda ids: F.embedding(ids, matrix) @ matrix.t(), [IDS])
    with (tmp_path / "weights.bin").open("wb") as file:
        weights = Weights(file)
        for _ in range(2):
            graph_of(recording, weights)
    assert (tmp_path / "weights.bin").stat().st_size == matrix.nbytes


def test_operators_of_onnx_runtime_are_written_as_they_are(tmp_path: Path) -> None:
    def function(rows: Tensor) -> Tensor:
        (found,) = operator("com.microsoft::QuickGelu", [rows], {"alpha": 1.0}, [rows.dtype], [rows.shape])
        return found + rows

    recording = recorded(function, [ROWS])
    assert recording.outputs["output_0"].named_sizes == ("rows", WIDTH)
    with (tmp_path / "weights.bin").open("wb") as file:
        save(graph_of(recording, Weights(file)), tmp_path / "graph.onnx")
    rows = torch.randn(3, WIDTH)
    (found,) = open_graph(tmp_path / "graph.onnx", "cpu").run(None, {"rows": rows.numpy()})
    np.testing.assert_allclose(found, (F.silu(rows) + rows).numpy(), rtol=1e-5, atol=1e-6)
