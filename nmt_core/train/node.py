"""Run `torchrun` on one node of a cluster, with its arguments. Explain what it would report as a traceback only."""

import argparse
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.distributed.elastic.rendezvous.api import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousTimeoutError,
)
from torch.distributed.run import main as torchrun

from nmt_core.train.status import Status, write_status

_SECONDS_WITHOUT_THE_FIRST_NODE = 600
"""Time that a node waits for the first one. `torchrun` gives up after 60, and a link may be cut for longer."""


def main(arguments: list[str]) -> int:
    """Run `torchrun` and return the exit code of the node."""
    parser = argparse.ArgumentParser(prog="nmt_core.train.node", add_help=False, allow_abbrev=False)
    parser.add_argument("--nproc-per-node")
    parser.add_argument("--rdzv-endpoint")
    parser.add_argument("--config", type=Path)
    known, _ = parser.parse_known_args(arguments)
    if known.config is None and not {"-h", "--help"} & {*arguments}:
        parser.error(
            "--config is missing: give the arguments of `torchrun`, and --config of nmt_core.train behind them"
        )
    if known.nproc_per_node == "gpu" and not torch.cuda.is_available():
        problem = _without_a_gpu()
        write_status(known.config.parent, Status("failed", error=problem))
        print(problem, flush=True)
        return 1
    try:
        torchrun([*_meeting(os.environ), *arguments])
    except RendezvousClosedError:
        print(f"node {socket.gethostname()}: the other nodes have ended, see their lines above", flush=True)
        return 1
    except (RendezvousConnectionError, RendezvousTimeoutError) as error:
        # No status is written: the other nodes may have met without this one.
        reason = error.__cause__ or error
        print(
            f"node {socket.gethostname()} cannot reach the first node at {known.rdzv_endpoint}: {reason}: see that it "
            "runs, and that every node resolves its name and may connect to this port",
            flush=True,
        )
        return 1
    return 0


def _meeting(environment: Mapping[str, str]) -> list[str]:
    """Return the options of `torchrun` for the place where all nodes meet.

    The first node of a Slurm job is that place. Otherwise `torchrun` compares names and addresses, which fails on a
    machine with several of them.
    """
    node = environment.get("SLURM_NODEID")
    place = [] if node is None else [f"is_host={str(node == '0').lower()}"]
    return ["--rdzv-conf", ",".join([f"read_timeout={_SECONDS_WITHOUT_THE_FIRST_NODE}", *place])]


def _without_a_gpu() -> str:
    built = "built without CUDA" if torch.version.cuda is None else f"built for CUDA {torch.version.cuda}"
    return (
        f"NMT_PROCESSES is not set, so each node starts one process for each of its GPUs, but PyTorch "
        f"{torch.__version__} ({built}) finds none on node {socket.gethostname()}: request GPUs in the template of the "
        "job, or set NMT_PROCESSES to the number of processes on each node"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
