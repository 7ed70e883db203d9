"""A process that has imported the training modules, and forks for each process of a training (`ranks.py`).

Modules that start threads when they are imported are left to the forks (`zygote.py`).
"""

import gc
import importlib
import runpy
import socket
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.zygote import Blocked, Forker, end

IMPORTED = (
    *("torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp", "torch.profiler"),
    *(
        "nmt_core.train.trainer",
        "nmt_core.train.reading",
        "nmt_core.train.device",
        "nmt_core.train.spent",
        "nmt_core.train.progress",
    ),
    *("nmt_core.models.build", "nmt_core.search.methods", "nmt_core.search.torch_step", "nmt_core.scoring"),
    *("nmt_core.tokenizer.tokenizer", "nmt_core.execution.torchrun", "safetensors.torch", "sacrebleu"),
    *("nmt_core.train.launch", "nmt_core.spelling", "nmt_core.text.mojibake", "nmt_core.text.unspaced"),
    *("pandas", "pyarrow.compute"),  # which pyarrow imports when a table becomes arrays
)


def import_all() -> None:
    """Import what a training process needs."""
    importlib.import_module("torch._dynamo")  # which every optimizer imports; it looks for what is not to be imported
    blocked = Blocked()
    sys.meta_path.insert(0, blocked)
    for name in IMPORTED:
        importlib.import_module(name)
    from nmt_core.train.device import peak_matmul_flops

    peak_matmul_flops(torch.device("cpu"), torch.float32)  # which each fork would measure for a quarter of a second
    sys.meta_path.remove(blocked)
    gc.collect()
    gc.freeze()  # the memory that forks share stays shared


def run(option: str, program: str, *arguments: str) -> None:
    """Run a module (-m) or a text (-c), as an interpreter with these arguments would."""
    sys.argv[:] = [option, *arguments]
    sys.stdout.reconfigure(write_through=True)
    if option == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})


def life() -> bool:
    """Run this process. Return True in a fork that has a program to run."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    import_all()
    channel.send(b"ready")
    return Forker(channel).serve()


if __name__ == "__main__" and life():
    try:
        run(*sys.argv[1:])
    except SystemExit as exit_:
        end(exit_.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        end(1)
    end(None)
