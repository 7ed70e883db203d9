"""The fast attention equals the formula, forward and backward."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.batches.layout import Packed, Padded, Rows
from nmt_core.models.attention import attend, attend_reference

B, T, S, H, D = 3, 5, 7, 2, 4


def tensors(seed: int, dtype: torch.dtype = torch.float32, keys: int = S) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    shapes = ((B, H, T, D), (B, H, keys, D), (B, H, keys, D))
    return tuple(torch.randn(shape, generator=draw).to(dtype).requires_grad_() for shape in shapes)


def some_mask() -> torch.Tensor:
    mask_BTS = torch.rand(B, T, S, generator=torch.Generator().manual_seed(9)) > 0.4
    mask_BTS[:, :, 0] = True  # every query sees something
    return mask_BTS


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("kind", ["whole", "padded", "causal"])
def test_padded_attention_equals_the_formula(kind: str, dtype: torch.dtype, tolerance: float) -> None:
    is_token_BS = some_mask()[:, 0] if kind == "padded" else None
    causal = kind == "causal"
    keys = T if causal else S
    fast, plain = tensors(1, dtype, keys), tensors(1, torch.float32, keys)
    upstream = torch.randn(B, H, T, D, generator=torch.Generator().manual_seed(2))
    out = attend(*(x.transpose(1, 2) for x in fast), Padded(is_token_BS), causal=causal).transpose(1, 2)
    mask = None if is_token_BS is None else is_token_BS[:, None]
    expected = attend_reference(*plain, mask, causal=causal)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), expected, atol=tolerance, rtol=tolerance)
    out.backward(upstream.to(dtype))
    expected.backward(upstream)
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one.grad.float(), other.grad, atol=tolerance, rtol=tolerance)


def stream(lengths: list[int]) -> Packed:
    sentence_N = torch.repeat_interleave(torch.tensor(lengths))
    starts = torch.tensor([0, *lengths]).cumsum(0)
    position_N = torch.arange(sum(lengths)) - starts[sentence_N]
    return Packed(starts.int(), sentence_N, position_N, max(lengths), len(lengths))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=6).filter(
        lambda sizes: sum(keys for _, keys in sizes) > 0
    ),
    st.integers(0, 2**31),
)
def test_packed_attention_equals_each_sentence_by_itself(sizes: list[tuple[int, int]], seed: int) -> None:
    """Forward and backward, in one dense [N, N] matrix with a mask of the sentences.

    Some sentences may have no keys.
    """
    queries, keys = (stream([pair[side] for pair in sizes]) for side in (0, 1))
    draw = torch.Generator().manual_seed(seed)
    shapes = [(len(layout.sentence_N), H, D) for layout in (queries, keys, keys)]
    fast = [torch.randn(shape, generator=draw).requires_grad_() for shape in shapes]
    plain = [tensor.detach().clone().requires_grad_() for tensor in fast]
    same_NN = queries.sentence_N[:, None] == keys.sentence_N[None]
    sees = same_NN.any(dim=1)  # padding of one side may have no counterpart on the other, and its states are not used
    out = attend(*fast, keys, queries)[sees]
    expected = attend_reference(*(x.transpose(0, 1)[None] for x in plain), (same_NN | ~sees[:, None])[None])
    expected = expected[0].transpose(0, 1)[sees]
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    upstream = torch.randn(out.shape, generator=draw)
    out.backward(upstream)
    expected.backward(upstream)
    for one, other in zip(fast, plain, strict=True):
        assert one.grad is not None
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-5)


@settings(max_examples=20)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 2**31))
def test_packed_sentences_look_back_within_themselves(lengths: list[int], seed: int) -> None:
    layout, draw = stream(lengths), torch.Generator().manual_seed(seed)
    fast = [torch.randn((sum(lengths), H, D), generator=draw).requires_grad_() for _ in range(3)]
    plain = [tensor.detach().clone().requires_grad_() for tensor in fast]
    mask_NN = layout.sentence_N[:, None] == layout.sentence_N[None]
    out = attend(*fast, layout, causal=True)
    expected = attend_reference(*(x.transpose(0, 1)[None] for x in plain), mask_NN[None], causal=True)
    torch.testing.assert_close(out, expected[0].transpose(0, 1), atol=1e-5, rtol=1e-5)
    out.square().sum().backward()
    expected.square().sum().backward()
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-5)


@settings(max_examples=20)
@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**31))
def test_rows_are_padded_sentences_end_to_end(sentences: int, longest_query: int, longest_key: int, seed: int) -> None:
    """Forward and backward. Padding behind the sentences is never seen, and gets no gradient."""
    draw = torch.Generator().manual_seed(seed)
    is_token_BS = torch.rand(sentences, longest_key, generator=draw) > 0.4
    is_token_BS[:, 0] = True
    keys, queries = Padded(is_token_BS), Padded()
    layouts = Rows.of(keys, sentences, longest_key), Rows.of(queries, sentences, longest_query)
    shapes = [(sentences, length, H, D) for length in (longest_query, longest_key, longest_key)]
    plain = [torch.randn(shape, generator=draw).requires_grad_() for shape in shapes]
    rows = [
        layout.pack(tensor.detach()).requires_grad_()
        for layout, tensor in zip((layouts[1], layouts[0], layouts[0]), plain, strict=True)
    ]
    assert all(len(tensor) % Rows.ROUNDED == 0 for tensor in rows)
    with torch.no_grad():
        for tensor, original in zip(rows, plain, strict=True):
            tensor[original.shape[0] * original.shape[1] :] = 7.0
    out = attend(*rows, *layouts)
    expected = attend(*plain, keys, queries)
    torch.testing.assert_close(layouts[1].unpack(out)[0], expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    for one, other in zip(rows, plain, strict=True):
        end = other.shape[0] * other.shape[1]
        torch.testing.assert_close(one.grad[:end].view(other.shape), other.grad)
        assert not one.grad[end:].any()


def test_the_reference_is_the_formula() -> None:
    q, k, v = (tensor.detach() for tensor in tensors(3))
    mask = some_mask()
    for b, h, t in ((0, 0, 0), (2, 1, 4), (1, 0, 2)):
        scores = [float(q[b, h, t] @ k[b, h, s]) / math.sqrt(D) for s in range(S)]
        weights = [math.exp(score) * bool(mask[b, t, s]) for s, score in enumerate(scores)]
        expected = sum(weight / sum(weights) * v[b, h, s] for s, weight in enumerate(weights))
        torch.testing.assert_close(attend_reference(q, k, v, mask)[b, h, t], expected)
