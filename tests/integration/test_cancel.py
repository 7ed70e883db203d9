"""Cancel, in the UI or by the API: training gets time for a checkpoint, nothing is left running, and a run goes on."""

import json
import time
from typing import Any

import psutil
import pytest

_SECONDS_UNTIL_TRAINING = 240
_SECONDS_ALLOWED = 30
_UPDATES = 1_500  # more than there is time for before it is cancelled


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


@pytest.mark.timeout(700)
def test_a_cancelled_training_saves_ends_and_goes_on(
    nmt: Any, start_up: Any, small_recipe: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    up = start_up(nmt)
    train = small_recipe["train"] | {"max_updates": _UPDATES, "checkpoint_every": 1_000}
    config = small_recipe | {"train": train}
    run = up.start("retrain/quickstart", config=config, until="train")
    deadline = time.monotonic() + _SECONDS_UNTIL_TRAINING
    while len(updates(nmt.home)) < 2:
        assert time.monotonic() < deadline, up.call(f"flow_runs/{run}")["state"]
        time.sleep(0.1)
    before = ours(str(nmt.home))
    assert any("nmt_core.train" in " ".join(process.cmdline()) for process in before)

    start = time.monotonic()
    assert up.call(f"flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})["status"] == "ACCEPT"
    left = psutil.wait_procs(before, timeout=_SECONDS_ALLOWED)[1]
    seconds = time.monotonic() - start
    assert left == []
    assert ours(str(nmt.home)) == []
    with capsys.disabled():
        print(f"\n{seconds:.1f} s from Cancel until all {len(before)} processes have gone")
    assert up.wait(run) == "CANCELLED"
    states = up.tracked(run)
    assert states[0][1] == "KILLED"
    assert dict(states)["train"] == "KILLED"
    saved = max(int(file.parent.name) for file in nmt.home.glob("artifacts/train/*/checkpoints/*/.metadata"))
    assert 0 < saved < 1_000, "saved for the cancellation, and not because it was due"

    again = up.start("retrain/quickstart", config=config, until="train")
    assert up.wait(again, limit=200) == "COMPLETED"
    first = "(select min(m.step) from metrics m where m.run_uuid = r.run_uuid and m.key = 'train_loss')"
    assert dict(up.tracked(again, first))["train"] > saved, "it goes on, and does not begin again"
    up.end()
