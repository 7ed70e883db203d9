"""What PyTorch's profiler sees of some updates, for whoever wants to know where the time goes."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import profile, schedule

UPDATES_BEFORE = 10
"""Updates of a process that are not traced: memory is allocated and layers are compiled in the first of them."""

_OPERATORS_LISTED = 30


@contextlib.contextmanager
def profiled(updates: int, folder: Path, rank: int, say: Callable[[str], None]) -> Iterator[None]:
    """Trace so many updates of the block, after its first `UPDATES_BEFORE`; none: do nothing.

    `<rank>.json.gz` in `folder` is a trace for chrome://tracing or Perfetto, with the shapes of what each operator got;
    `<rank>.txt` is a table of the costliest operators. A disk that has no room for them costs no training.
    """
    if not updates:
        yield
        return

    def write(profiler: profile) -> None:
        by_device = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
        try:
            folder.mkdir(exist_ok=True)
            table = profiler.key_averages().table(by_device, row_limit=_OPERATORS_LISTED)
            (folder / f"{rank}.txt").write_text(table, encoding="utf-8")
            profiler.export_chrome_trace(str(folder / f"{rank}.json.gz"))
        except OSError as error:
            say(f"the profile cannot be written to {folder} ({error}): training goes on")

    when = schedule(wait=0, skip_first=UPDATES_BEFORE - 1, warmup=1, active=updates, repeat=1)
    with profile(schedule=when, on_trace_ready=write, record_shapes=True) as profiler:
        hook = register_optimizer_step_post_hook(lambda *_: profiler.step())  # an update ends where its step does
        try:
            yield
        finally:
            hook.remove()
