"""Division of processes into groups that share one copy of the weights."""

import pytest
import torch
from support.ranks import Ranks

from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.errors import ConfigError
from nmt_core.models.transformer import Transformer
from nmt_core.train.distributed import World
from nmt_core.train.parallel import Parallel

GROUPS = """
import sys
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from nmt_core.config import TrainConfig
from nmt_core.train.distributed import World
from nmt_core.train.parallel import _mesh

shard_size, parallel = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("fake", rank=5, world_size=8, store=FakeStore())
mesh = _mesh(TrainConfig(parallel=parallel, shard_size=shard_size), World(5, 8, torch.device("cpu"), local_size=4))
print(mesh.mesh_dim_names, mesh.mesh.tolist())
"""


@pytest.mark.parametrize(
    ("parallel", "shard_size", "groups"),
    [
        ("hsdp", 0, "('replicate', 'shard') [[0, 1, 2, 3], [4, 5, 6, 7]]"),
        ("hsdp", 2, "('replicate', 'shard') [[0, 1], [2, 3], [4, 5], [6, 7]]"),
        ("fsdp", 0, "('shard',) [0, 1, 2, 3, 4, 5, 6, 7]"),
    ],
)
def test_eight_processes_on_two_nodes(
    ranks: Ranks, free_port: int, parallel: str, shard_size: int, groups: str
) -> None:
    """By default a node has one copy. The processes are PyTorch's fake ones, which exchange nothing."""
    (process,) = ranks.start(["-c", GROUPS, str(shard_size), parallel], free_port, 1)
    assert process.communicate()[0].strip() == groups


def test_groups_must_divide_the_processes() -> None:
    model = Transformer(ModelConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1), 20)
    with pytest.raises(ConfigError, match=r"train\.shard_size=3 does not divide the 8 processes: set it to a divisor"):
        Parallel(model, TrainConfig(parallel="hsdp", shard_size=3), World(0, 8, torch.device("cpu"), local_size=4))
