"""Cancel, clicked in the Prefect UI, while two ranks train: both save, end, and are gone in time."""

import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from support.until import until, until_gone

pytestmark = [pytest.mark.ui, pytest.mark.timeout(900)]

_RANKS = 2
_UPDATES = 1_000_000  # more than any machine makes before it is cancelled


@pytest.fixture
def endless(small_recipe: dict[str, Any], tmp_path: Path) -> Path:
    """The small recipe with work for two ranks, which neither ends nor saves by itself."""
    values = {name: value for name, value in small_recipe.items() if value is not None} | {"name": "endless"}
    values["train"] = values["train"] | {"slice_tokens": 512, "max_updates": _UPDATES, "checkpoint_every": _UPDATES}
    values["average"] = {"checkpoints": 1}
    file = tmp_path / "endless.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return file


def ranks(up: Any) -> list[psutil.Process]:
    """Processes that train, `torchrun` left out."""
    found = []
    for process in psutil.Process(up.process.pid).children(recursive=True):
        try:
            if "RANK" in process.environ() and "nmt_core.train" in " ".join(process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def wait_until_they_train(up: Any, run: str) -> list[psutil.Process]:
    """The ranks, when the curve has points."""
    until(
        lambda: any(file.read_text() for file in up.nmt.home.glob("artifacts/train/*/metrics.jsonl")),
        lambda: str(up.call(f"flow_runs/{run}")["state"]),
        every=0.2,
    )
    return ranks(up)


def test_two_ranks_end_with_a_checkpoint(nmt: Any, start_up: Any, page: Any, signed_in: Any, endless: Path) -> None:
    up = start_up(nmt, str(endless), NMT_PROCESSES=str(_RANKS))
    run = up.start("retrain/endless", until="train")
    training = wait_until_they_train(up, run)
    assert len(training) == _RANKS
    page.goto(f"{signed_in(up)}/runs/flow-run/{run}")
    page.locator(".flow-run-menu").first.click()
    page.get_by_text("Cancel", exact=True).click()
    page.get_by_role("button", name="Confirm").click()
    clicked = time.monotonic()
    until_gone(training, "the machine is not free")
    print(f"{time.monotonic() - clicked:.1f} s from the click until both ranks have gone")
    page.get_by_text("Cancelled", exact=True).first.wait_for()
    assert up.state(run) == "CANCELLED"
    assert ranks(up) == []
    assert dict(up.tracked(run))["train"] == "KILLED"
    saved = {int(file.parent.name) for file in nmt.home.glob("artifacts/train/*/checkpoints/*/.metadata")}
    assert 0 < max(saved) < _UPDATES, "saved for the cancellation, and not because it was due"
    up.end()
