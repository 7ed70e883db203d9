"""Join the processes of one training job, as `torchrun` started them, and exchange values between them."""

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
    """Rank and device of this process, and the number of processes."""

    rank: int
    size: int
    device: torch.device
    local_size: int = 1
    """Processes on this node."""

    @property
    def is_first(self) -> bool:
        """True if this process has rank 0, and reports for all."""
        return self.rank == 0

    def sum(self, *values: float) -> list[float]:
        """Return the sum of each value over all processes, in float64."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        summed: list[float] = total.tolist()  # one copy from the device for all values
        return summed

    def gather(self, mine: list[str]) -> list[list[str]]:
        """Return the values of every process, by rank. They are sent over gloo, through CPU memory."""
        if self.size == 1:
            return [mine]
        gathered: list[list[str]] = [[] for _ in range(self.size)]
        dist.all_gather_object(gathered, mine)
        return gathered

    def agree(self, mine: Value) -> Value:
        """Return the value of the first process in all processes. It is sent over gloo, like `gather`."""
        if self.size == 1:
            return mine
        box = [mine]
        dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

    def any(self, flag: bool) -> bool:
        """Return True in all processes if `flag` is true in any of them."""
        return self.sum(float(flag))[0] > 0

    def peak_memory(self) -> int:
        """Return the peak memory of this process in bytes: of the GPU if it computes on one, else of the CPU."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _BYTES_OF_MAXRSS


def is_alone() -> bool:
    """Return True if no other process takes part, so that saving and loading a checkpoint needs no communication.

    Communication slows down more than itself. gloo copies what it sends with PyTorch, on threads of its own, and OpenMP
    permanently gives a pool of threads to each thread that copies much. Where OpenMP has more threads than the machine
    has cores, no thread stays awake for the next operator, and the rest of training is a fifth slower (measured with
    two threads).
    """
    return not dist.is_initialized() or dist.get_world_size() == 1


@contextmanager
def join_world() -> Iterator[World]:
    """Join the process group that `torchrun` describes in the environment, and leave it at the end.

    NCCL is used with CUDA. gloo is used without CUDA, and for tensors on the CPU. `benchmarks/gpu.sh` runs this on one
    GPU. It has not been run on several GPUs yet.
    """
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        # Checkpoints are sent over gloo, through CPU memory.
        dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    try:
        yield World(dist.get_rank(), dist.get_world_size(), device, int(os.environ["LOCAL_WORLD_SIZE"]))
    finally:
        dist.destroy_process_group()
