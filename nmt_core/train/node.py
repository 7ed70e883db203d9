"""Run `torchrun` on one node of a cluster, with its arguments. Explain what it would report as a traceback only."""

import argparse
import socket
import sys
from pathlib import Path

import torch
from torch.distributed.elastic.rendezvous.api import RendezvousConnectionError, RendezvousTimeoutError
from torch.distributed.run import main as torchrun

from nmt_core.train.status import Status, write_status


def main(arguments: list[str]) -> int:
    """Run `torchrun` and return the exit code of the node."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--nproc-per-node")
    parser.add_argument("--rdzv-endpoint")
    parser.add_argument("--config", type=Path)
    known, _ = parser.parse_known_args(arguments)
    if known.nproc_per_node == "gpu" and not torch.cuda.is_available():
        problem = _without_a_gpu()
        write_status(known.config.parent, Status("failed", error=problem))
        print(problem, flush=True)
        return 1
    try:
        torchrun(arguments)
    except (RendezvousConnectionError, RendezvousTimeoutError) as error:
        # No status is written: the other nodes may have met without this one.
        reason = error.__cause__ or error
        print(
            f"node {socket.gethostname()} did not meet the others at {known.rdzv_endpoint}: {reason}: see that every "
            "node resolves the name of the first one and may connect to this port",
            flush=True,
        )
        return 1
    return 0


def _without_a_gpu() -> str:
    built = "built without CUDA" if torch.version.cuda is None else f"built for CUDA {torch.version.cuda}"
    return (
        f"NMT_PROCESSES is not set, so each node starts one process for each of its GPUs, but PyTorch "
        f"{torch.__version__} ({built}) finds none on node {socket.gethostname()}: request GPUs in the template of the "
        "job, or set NMT_PROCESSES to the number of processes on each node"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
