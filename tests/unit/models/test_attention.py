"""The fast attention equals the formula, forward and backward."""

import math

import pytest
import torch

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
@pytest.mark.parametrize("kind", ["none", "per query", "per sentence", "causal"])
def test_fast_attention_equals_the_formula(kind: str, dtype: torch.dtype, tolerance: float) -> None:
    mask = {"per query": some_mask(), "per sentence": some_mask()[:, :1]}.get(kind)
    causal = kind == "causal"
    keys = T if causal else S
    fast, plain = tensors(1, dtype, keys), tensors(1, torch.float32, keys)
    upstream = torch.randn(B, H, T, D, generator=torch.Generator().manual_seed(2))
    out = attend(*fast, mask, causal=causal)
    expected = attend_reference(*plain, mask, causal=causal)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), expected, atol=tolerance, rtol=tolerance)
    out.backward(upstream.to(dtype))
    expected.backward(upstream)
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one.grad.float(), other.grad, atol=tolerance, rtol=tolerance)


def test_the_reference_is_the_formula() -> None:
    q, k, v = (tensor.detach() for tensor in tensors(3))
    mask = some_mask()
    for b, h, t in ((0, 0, 0), (2, 1, 4), (1, 0, 2)):
        scores = [float(q[b, h, t] @ k[b, h, s]) / math.sqrt(D) for s in range(S)]
        weights = [math.exp(score) * bool(mask[b, t, s]) for s, score in enumerate(scores)]
        expected = sum(weight / sum(weights) * v[b, h, s] for s, weight in enumerate(weights))
        torch.testing.assert_close(attend_reference(q, k, v, mask)[b, h, t], expected)
