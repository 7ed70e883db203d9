"""Nodes that see each other's files late, as on NFS, resume from the same checkpoint.

This also holds if only one of them finds the newest checkpoint damaged.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.facts import missing
from support.ranks import Ranks

SAVING_AND_LOADING = """
import json
import sys
from pathlib import Path
import torch
from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.errors import StageError
from nmt_core.models.transformer import Transformer
from nmt_core.train import checkpoint_folder
from nmt_core.train.checkpoint import Checkpoints, Training
from nmt_core.train.distributed import join_world
from nmt_core.train.optimizer import make_optimizer
from nmt_core.train.parallel import Parallel
from nmt_core.train.progress import Progress

NEWEST = "000000020"
folder, late, checkpoint_folder._SECONDS_UNTIL_SEEN = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
damaged = sys.argv[4:]
looks = iter(range(late))


def hide():
    "Let this process see nothing of the newest checkpoint at its first looks, whichever way it looks."
    glob, opened = Path.glob, Path.open

    def is_hidden(path):
        return NEWEST in path.parts and next(looks, None) is not None

    def open_what_is_seen(path, *arguments, **options):
        if is_hidden(path):
            raise FileNotFoundError(path)
        return opened(path, *arguments, **options)

    Path.glob = lambda self, pattern: [path for path in glob(self, pattern) if not is_hidden(path)]
    Path.open = open_what_is_seen


with join_world() as world:
    torch.manual_seed(1)
    model = Transformer(ModelConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1), 20)
    config = TrainConfig(parallel="fsdp")
    parallel = Parallel(model, config, world)
    training = Training(parallel, make_optimizer(parallel.model, config))
    checkpoints = Checkpoints(folder, 2, world, print)
    for update in (10, 20):
        checkpoints.save(training, Progress(update=update), with_weights=False)
    checkpoints.wait()
    if world.rank == 1:
        hide()
    if world.is_first:
        for name in damaged:
            file = folder / "checkpoints" / NEWEST / name
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
    world.any(False)  # no process reads before that is done
    warnings = []
    again = Checkpoints(folder, 2, world, warnings.append)
    try:
        found = [again.newest, again.load_newest(training).update, *warnings]
        assert world.rank == 0 or next(looks, None) is None, "it has not looked often enough to see the newest"
    except StageError as error:
        found = str(error)
print(json.dumps(found))
"""


@pytest.fixture
def two_nodes(ranks: Ranks, tmp_path: Path, free_port: int) -> Callable[..., list[Any]]:
    """Report what two processes on different nodes have found. The second sees the newest checkpoint late."""

    def run(late: int = 0, patience: float = 250, damaged: str = "") -> list[Any]:
        """Run them.

        Args:
            late: looks at which the second does not see the newest.
            patience: seconds for which it looks again.
            damaged: file of the newest in which a bit changes before any reads it.
        """
        program = ["-c", SAVING_AND_LOADING, str(tmp_path), str(late), str(patience), *damaged.split()]
        running = ranks.start(program, free_port, 2, nodes=2)
        found = [process.communicate()[0] for process in running]
        assert [process.returncode for process in running] == [0, 0]
        return [json.loads(each) for each in found]

    return run


def test_all_wait_for_the_one_that_sees_the_newest_last(two_nodes: Any) -> None:
    assert two_nodes(late=20) == [[20, 20]] * 2


def test_a_folder_that_is_not_shared_is_named(two_nodes: Any, tmp_path: Path) -> None:
    found = two_nodes(late=1_000_000, patience=1)
    assert found[0] == found[1]
    place = (r"\bcheckpoint 20\b", f"{tmp_path}/checkpoints/000000020/\\S+ is missing")
    assert missing(found[0], *place, r"\b1 s\b", "check that all nodes share the file system") == []


@pytest.mark.parametrize("damaged", ["__0_0.distcp", "__1_0.distcp", ".metadata"])
def test_all_pass_over_a_checkpoint_of_which_one_file_is_damaged(two_nodes: Any, damaged: str) -> None:
    """Each process checks a part of the files."""
    for newest, used, warning in two_nodes(damaged=damaged):
        assert (newest, used) == (20, 10)
        assert warning.startswith("checkpoint 20 cannot be read (")
        assert f"checkpoints/000000020/{damaged} differs from its checksum" in warning
        assert warning.endswith("10 is used")
