"""Loss on the dev set, shared among the processes."""

import numpy as np
import torch

from nmt_core.batches.collate import collate
from nmt_core.batches.plan import plan_epoch
from nmt_core.batches.shards import TokenPairs
from nmt_core.config import TrainConfig
from nmt_core.models.loss import smoothed_cross_entropy
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import PAD_ID
from nmt_core.train.distributed import World


@torch.inference_mode()
def dev_loss(model: Transformer, dev: TokenPairs, config: TrainConfig, world: World) -> float:
    """Mean plain loss in nats per target token, </s> included. Always in fp32, so that runs can be compared."""
    model.eval()
    lengths_N2 = np.stack([dev.source.lengths, dev.target.lengths], axis=1)
    max_tokens = max(config.max_tokens_per_pass, int(lengths_N2.max()))
    loss = 0.0
    for rows in plan_epoch(lengths_N2, max_tokens, seed=0, epoch=0)[world.rank :: world.size]:
        batch = collate(dev, rows).to(world.device)
        real_BT = batch.target_BT != PAD_ID
        states_NM = model(batch.source_BS, batch.decoder_input_BT)[real_BT]
        loss += float(smoothed_cross_entropy(states_NM, model.output.weight, batch.target_BT[real_BT], 0)[1])
    model.train()
    return world.sum(loss)[0] / int(dev.target.lengths.sum())
