"""Adam and its learning rate (Vaswani et al. 2017, section 5.3)."""

import torch
from torch import nn

from nmt_core.config import TrainConfig


def learning_rate(update: int, config: TrainConfig, d_model: int) -> float:
    """scale * d_model^-0.5 * min(update^-0.5, update * warmup_updates^-1.5); the first update has number 1."""
    rate = min(update**-0.5, update * config.warmup_updates**-1.5)
    return float(config.learning_rate_scale * d_model**-0.5 * rate)


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Fused Adam or AdamW with the betas and epsilon of the configuration; the trainer sets the learning rate."""
    kind, decay = (torch.optim.AdamW, config.weight_decay) if config.optimizer == "adamw" else (torch.optim.Adam, 0.0)
    return kind(
        model.parameters(),
        lr=torch.finfo(torch.float32).tiny,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        weight_decay=decay,
        fused=True,
    )
