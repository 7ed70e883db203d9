"""Make the optimizer of a training: Adam, AdamW or Adadelta.

Sources: Vaswani et al. 2017, section 5.3 (Adam), and Zeiler 2012 (Adadelta).
"""

import torch
from torch import nn

from nmt_core.config import TrainConfig


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Return the optimizer of the configuration. Adam and AdamW are fused. The trainer sets the learning rate."""
    rate = torch.finfo(torch.float32).tiny
    if config.optimizer == "adadelta":
        return torch.optim.Adadelta(
            model.parameters(), lr=rate, rho=config.adadelta_rho, eps=config.adadelta_epsilon, foreach=True
        )
    kind, decay = (torch.optim.AdamW, config.weight_decay) if config.optimizer == "adamw" else (torch.optim.Adam, 0.0)
    return kind(
        model.parameters(),
        lr=rate,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        weight_decay=decay,
        fused=True,
    )
