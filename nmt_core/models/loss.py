"""Label-smoothed cross-entropy (Vaswani et al. 2017, section 5.4; Szegedy et al. 2016, section 7).

Letters in names of tensors: N target tokens that are not padding, M `d_model`, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def smoothed_cross_entropy(logits_NV: Tensor, target_N: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor]:
    """Sum over tokens of the smoothed loss, to descend on, and of the plain one, to report; both in nats.

    The distribution to learn gives 1 - label_smoothing to the target and spreads label_smoothing evenly over the whole
    vocabulary, the target included.
    """
    log_probs_NV = F.log_softmax(logits_NV.float(), dim=-1)
    plain = -log_probs_NV.gather(1, target_N[:, None]).sum()
    smoothed = (1 - label_smoothing) * plain - label_smoothing * log_probs_NV.mean(dim=-1).sum()
    return smoothed, plain.detach()


def perplexity(plain_loss: float, tokens: int) -> float:
    """exp of the mean plain loss in nats per token; infinite where it overflows."""
    mean = torch.tensor(plain_loss / max(1, tokens), dtype=torch.float64)
    return float(mean.exp())
