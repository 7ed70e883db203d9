"""The processes of one training job, as `torchrun` started them."""

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist

Value = TypeVar("Value")

_BYTES_OF_MAXRSS = 1 if sys.platform == "darwin" else 1_024


@dataclass(frozen=True)
class World:
    """Who this process is among its peers, and what it computes on."""

    rank: int
    size: int
    device: torch.device
    local_size: int = 1
    """Processes on this node."""

    @property
    def is_first(self) -> bool:
        """Whether this process speaks for all."""
        return self.rank == 0

    def sum(self, *values: float) -> list[float]:
        """Sums over all processes, in float64."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        summed: list[float] = total.tolist()  # one copy from the device, not one for each value
        return summed

    def gather(self, mine: list[str]) -> list[list[str]]:
        """What each process gives, by rank; it travels by gloo, through the memory of the CPU."""
        if self.size == 1:
            return [mine]
        found: list[list[str]] = [[] for _ in range(self.size)]
        dist.all_gather_object(found, mine)
        return found

    def agree(self, mine: Value) -> Value:
        """What the first process gives, in all of them; it travels as `gather` does."""
        if self.size == 1:
            return mine
        box = [mine]
        dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

    def any(self, flag: bool) -> bool:
        """Whether any process says yes; all get the same answer."""
        return self.sum(float(flag))[0] > 0

    def peak_memory(self) -> int:
        """Most bytes that this process has held at a time, of the GPU's memory where it computes on one."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _BYTES_OF_MAXRSS


def is_alone() -> bool:
    """Whether no other process takes part, so that nothing has to be agreed upon to save or load a checkpoint.

    Agreeing costs more than its time: gloo copies what it sends by PyTorch, on threads of its own, and OpenMP gives a
    thread that copies much a pool of threads for good. Where OpenMP has more threads than the machine has cores, none
    stays awake for the next operator, and training is a fifth slower to its end (measured with two threads).
    """
    return not dist.is_initialized() or dist.get_world_size() == 1


@contextmanager
def join_world() -> Iterator[World]:
    """Join the process group that `torchrun` describes in the environment, and leave it at the end.

    NCCL is used where CUDA is, gloo elsewhere and for what is on the CPU. Run on one GPU by `tests/bench/gpu.sh`; on
    several it has not been run yet.
    """
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        # Checkpoints travel through the memory of the CPU, by gloo.
        dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    try:
        yield World(dist.get_rank(), dist.get_world_size(), device, int(os.environ["LOCAL_WORLD_SIZE"]))
    finally:
        dist.destroy_process_group()
