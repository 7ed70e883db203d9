"""Compute the loss on the dev set, shared among the processes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from nmt_core.batches.collate import pad
from nmt_core.batches.plan import Capacity, pad_micro_batches
from nmt_core.batches.shards import TokenPairs
from nmt_core.models.loss import smoothed_cross_entropy
from nmt_core.models.model import TranslationModel
from nmt_core.tokenizer.tokenizer import PAD_ID
from nmt_core.train.distributed import World

if TYPE_CHECKING:
    from nmt_core.train.translate_dev import DevTranslator


@dataclass(frozen=True)
class DevSet:
    """Dev set of the validations."""

    pairs: TokenPairs
    translator: "DevTranslator | None" = None
    """Translator of some of its sentences. None means that validations compute only the loss."""


@torch.inference_mode()
def dev_loss(model: TranslationModel, dev: TokenPairs, micro_batch_tokens: int, world: World) -> float:
    """Return the mean unsmoothed loss in nats per target token, </s> included.

    It is always computed in fp32, so that runs can be compared.
    """
    model.eval()
    tokens = max(micro_batch_tokens, int(dev.lengths.max()))
    loss = 0.0
    for rows in pad_micro_batches(dev.lengths, Capacity(tokens, tokens), np.random.default_rng(0))[
        world.rank :: world.size
    ]:
        batch = pad(dev, rows).to(world.device)
        states_BLM = model(batch.source, batch.decoder_input)
        output = model.output
        loss += float(smoothed_cross_entropy(states_BLM, output.weight, batch.target, 0, PAD_ID, output.bias)[1])
    model.train()
    return world.sum(loss)[0] / int(dev.target.lengths.sum())
