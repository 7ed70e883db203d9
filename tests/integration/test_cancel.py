"""Cancel, in the UI or by the API: training gets time for a checkpoint, nothing is left running, and a run goes on."""

import json
import time
from typing import Any

import psutil
import pytest
from support.until import until, until_gone

_UPDATES = 1_000_000  # more than any machine makes before it is cancelled, however slow its server is


def ours(home: str) -> list[psutil.Process]:
    """Processes of flow runs and of trainings on this home."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if ("prefect.engine" in line or "torch.distributed.run" in line or "nmt_core.train" in line) and (
                process.environ().get("NMT_HOME") == home
            ):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def updates(home: Any) -> list[int]:
    """Updates of which the training's curve tells, in the order of the file."""
    files = [*home.glob("artifacts/train/*/metrics.jsonl")]
    lines = files[0].read_text().splitlines() if files else []
    return [json.loads(line)["update"] for line in lines if line.endswith("}")]


def saved_at(home: Any) -> int:
    """Update of the newest whole checkpoint."""
    return max(int(file.parent.name) for file in home.glob("artifacts/train/*/checkpoints/*/.metadata"))


def wait_until_it_trains(up: Any, run: str, after: int = 0) -> None:
    """Return when two points of the curve are there beyond an update."""

    def trains() -> bool:
        assert up.state(run) in {"SCHEDULED", "PENDING", "RUNNING"}, up.call(f"flow_runs/{run}")["state"]
        return len([update for update in updates(up.nmt.home) if update > after]) >= 2

    until(trains, lambda: up.call(f"flow_runs/{run}")["state"], every=0.2)


def cancel(up: Any, run: str) -> float:
    """Cancel a run that trains, as the UI does; seconds until all of its processes have gone."""
    before = ours(str(up.nmt.home))
    assert any("nmt_core.train" in " ".join(process.cmdline()) for process in before)
    start = time.monotonic()
    assert up.call(f"flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})["status"] == "ACCEPT"
    until_gone(before)
    seconds = time.monotonic() - start
    assert ours(str(up.nmt.home)) == []
    assert up.wait(run) == "CANCELLED", up.call(f"flow_runs/{run}")["state"]
    return seconds


@pytest.mark.timeout(900)
def test_a_cancelled_training_saves_ends_and_goes_on(
    nmt: Any, start_up: Any, small_recipe: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    up = start_up(nmt)
    train = small_recipe["train"] | {"max_updates": _UPDATES, "checkpoint_every": _UPDATES}
    config = small_recipe | {"train": train}
    run = up.start("retrain/quickstart", config=config, until="train")
    wait_until_it_trains(up, run)
    seconds = cancel(up, run)
    with capsys.disabled():
        print(f"\n{seconds:.1f} s from Cancel until all processes have gone")
    states = up.tracked(run)
    assert states[0][1] == "KILLED"
    assert dict(states)["train"] == "KILLED"
    saved = saved_at(nmt.home)
    assert 0 < saved < _UPDATES, "saved for the cancellation, and not because it was due"

    again = up.start("retrain/quickstart", config=config, until="train")
    wait_until_it_trains(up, again, after=max(updates(nmt.home)))
    cancel(up, again)
    first = "(select min(m.step) from metrics m where m.run_uuid = r.run_uuid and m.key = 'train_loss')"
    assert dict(up.tracked(again, first))["train"] > saved, "it goes on, and does not begin again"
    assert saved_at(nmt.home) > saved
    up.end()
