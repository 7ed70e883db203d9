"""Compares the kernels of `nmt_core/models/cuda` with the plain formulas, in Triton's interpreter.

    TRITON_INTERPRET=1 python tests/unit/models/cuda_kernels.py

Triton decides when a kernel is defined whether it is interpreted, so this is a program of its own: what a test process
has imported before may have decided otherwise.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt_core.models.attention import attend_reference
from nmt_core.models.cuda.attention import attend_packed, attend_packed_self
from nmt_core.models.cuda.cross_entropy import cross_entropy_rows
from nmt_core.models.cuda.feed_forward import linear_relu
from nmt_core.models.cuda.residual import normed_residual

HEADS = 2
LENGTHS = st.integers(0, 90)  # a tile has 16, 32 or 64 tokens
cases = 0


def layout(lengths: Sequence[int], room: int) -> tuple[Tensor, Tensor]:
    """Number of each token's sentence, and where sentences begin, with room for more sentences of no tokens."""
    lengths_B = torch.tensor(lengths)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), lengths_B.cumsum(0)])
    starts = torch.cat([starts, starts[-1:].expand(room)])
    return torch.repeat_interleave(torch.arange(len(lengths)), lengths_B), starts.int()


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.tuples(LENGTHS, LENGTHS), min_size=1, max_size=4).filter(
        lambda pairs: all(map(sum, zip(*pairs, strict=True)))
    ),
    st.sampled_from([16, 64, 128]),
    st.booleans(),
    st.integers(0, 1000),
)
def attention(sizes: list[tuple[int, int]], width: int, causal: bool, seed: int) -> None:
    """Compare values and gradients.

    Sentences may have no keys or no queries. Queries, keys and values are columns of one matrix if they are of the same
    tokens, as after their common projection.
    """
    global cases
    cases += 1
    joined = causal or seed % 2 == 0
    queries, keys = ([size[side] for size in sizes] for side in (0, 0 if joined else 1))
    (query_N, query_starts), (key_S, key_starts) = layout(queries, 3), layout(keys, 3)
    draw = torch.Generator().manual_seed(seed)
    qkv = torch.randn(sum(queries), 3, HEADS, width, generator=draw).requires_grad_()
    q, k, v = qkv.unbind(1)
    if joined:
        inputs: tuple[Tensor, ...] = (qkv,)
        attended = attend_packed_self(qkv, query_N, query_starts, causal)
    else:
        k, v = (torch.randn(sum(keys), HEADS, width, generator=draw).requires_grad_() for _ in range(2))
        inputs = (qkv, k, v)
        attended = attend_packed(q, k, v, query_N, query_starts, key_S, key_starts, causal)
    upstream = torch.randn(attended.shape, generator=draw)
    found = [attended, *torch.autograd.grad(attended, inputs, upstream)]
    sees = query_N[:, None] == key_S[None]
    sees = sees.tril() if causal else sees
    has_keys = sees.any(dim=1)
    q_HND, k_HSD, v_HSD = (x.transpose(0, 1)[None] for x in (q, k, v))
    right = attend_reference(q_HND, k_HSD, v_HSD, (sees | ~has_keys[:, None])[None])[0].transpose(0, 1)
    right = right * has_keys[:, None, None]
    for one, other in zip(found, [right, *torch.autograd.grad(right, inputs, upstream)], strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=2e-5)


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(
    st.integers(1, 5),
    st.sampled_from([2, 2_000, 2_048, 2_049, 5_001]),  # a block has 2,048 pieces
    st.floats(0, 0.9),
    st.integers(0, 1000),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def cross_entropy(tokens: int, pieces: int, label_smoothing: float, seed: int, dtype: torch.dtype) -> None:
    """Compare the loss and the gradient of rows of a wider matrix, whose rest stays untouched.

    Padding counts nothing.
    """
    global cases
    cases += 1
    draw = torch.Generator().manual_seed(seed)
    whole = (torch.randn(tokens, pieces + 7, generator=draw) * 4).to(dtype)
    logits = whole[:, :pieces].float().requires_grad_()
    target = torch.randint(-1, pieces, (tokens,), generator=draw)
    is_token = target >= 0
    log_p = logits.log_softmax(-1)
    plain = -log_p.gather(1, target.clamp(min=0)[:, None])[:, 0] * is_token
    evenly = -log_p.mean(1) * is_token
    (gradient,) = torch.autograd.grad(((1 - label_smoothing) * plain + label_smoothing * evenly).sum(), logits)
    untouched, before = whole[:, pieces:].clone(), whole[:, :pieces].clone()
    found = cross_entropy_rows(whole[:, :pieces], target, label_smoothing, -1, False)
    assert torch.equal(whole[:, :pieces], before), "no gradient was asked for"
    for one, other in zip(found, (plain, evenly), strict=True):
        torch.testing.assert_close(one, other.detach(), atol=1e-5, rtol=1e-5)
    cross_entropy_rows(whole[:, :pieces], target, label_smoothing, -1, True)
    tolerance = 1e-5 if dtype == torch.float32 else 4e-3
    torch.testing.assert_close(whole[:, :pieces].float(), gradient, atol=tolerance, rtol=tolerance)
    assert torch.equal(whole[:, pieces:], untouched)


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(
    st.integers(1, 40),  # a program has 16 rows
    st.sampled_from([8, 24, 96, 512]),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.integers(0, 1000),
)
def residual(tokens: int, width: int, dropout: float, seed: int) -> None:
    """Compare values and gradients. The sum of zeros and ones shows which numbers are dropped."""
    global cases
    cases += 1
    draw = torch.Generator().manual_seed(seed)
    x, output, upstream = (torch.randn(tokens, width, generator=draw) for _ in range(3))
    weight, bias = torch.randn(2, width, generator=draw)
    torch.manual_seed(seed)
    drawn, dropped = torch.randint(2**31 - 1, (1,)), round(dropout * 2**16)
    ones = torch.ones(tokens, width)
    kept = torch.ops.nmt.normed_residual(torch.zeros(tokens, width), ones, weight, bias, drawn, dropped, 1e-5)[1]
    assert abs((kept == 0).float().mean() - dropout) <= 5 * (dropout / (tokens * width)) ** 0.5
    torch.testing.assert_close(kept[kept > 0], torch.full_like(kept[kept > 0], 1 / (1 - dropout)), rtol=1e-4, atol=0)
    inputs = [each.requires_grad_() for each in (x, output, weight, bias)]
    torch.manual_seed(seed)
    found = normed_residual(x, output, weight, bias, dropout, 1e-5)
    right = F.layer_norm(x + output * kept, (width,), weight, bias, 1e-5)
    gradients = [torch.autograd.grad(each, inputs, upstream) for each in (found, right)]
    for one, other in zip((found, *gradients[0]), (right, *gradients[1]), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=2e-4)


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(
    st.integers(1, 140),  # a program has 64 rows, in tiles of 8
    st.sampled_from([8, 24, 512, 520]),  # and a tile has 512 columns
    st.integers(0, 1000),
)
def feed_forward(tokens: int, width: int, seed: int) -> None:
    """Compare values and gradients."""
    global cases
    cases += 1
    draw = torch.Generator().manual_seed(seed)
    sizes = (tokens, 16), (width, 16), (width,)
    inputs = [torch.randn(size, generator=draw).requires_grad_() for size in sizes]
    upstream = torch.randn(tokens, width, generator=draw)
    found, right = linear_relu(*inputs), F.relu(F.linear(*inputs))
    gradients = [torch.autograd.grad(each, inputs, upstream) for each in (found, right)]
    for one, other in zip((found, *gradients[0]), (right, *gradients[1]), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=2e-4)


if __name__ == "__main__":
    for check in (attention, cross_entropy, residual, feed_forward):
        cases = 0
        check()
        print(f"{check.__name__}: {cases} cases")
