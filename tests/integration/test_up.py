"""`nmt up`: servers answer, deployments run, Cancel and Retry work, and Ctrl-C leaves nothing behind."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.curves import UNDER_WAY, own_updates, saved_at
from support.small import STEPS
from support.until import until, until_gone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.cpu(80)]  # whichever comes first starts `nmt up`

_UPDATES = 1_000_000  # more than any machine makes before it is cancelled, however slow its server is
_WAS_REUSED = "(select value from tags t where t.run_uuid = r.run_uuid and t.key = 'artifact.reused')"
_REUSED = "(select value from tags t where t.run_uuid = r.run_uuid and t.key = 'nmt.reused')"
_FIRST_UPDATE = "(select min(m.step) from metrics m where m.run_uuid = r.run_uuid and m.key = 'train_loss')"


@pytest.fixture(scope="module")
def up(continued_alone: tuple[Any, dict[str, Any]], ask: Any) -> Iterator[Any]:
    """`nmt up` on a home with a finished run. Ctrl-C ends all of it."""
    nmt, _ = continued_alone
    up = ask(nmt)
    up.process = nmt.start("up")
    try:
        up.wait_until_up()
        yield up
        up.end()
        assert up.process.returncode == 130
        assert not (nmt.home / "servers.json").exists()
    finally:
        up.kill()


@pytest.fixture(scope="module")
def summary(continued_alone: tuple[Any, dict[str, Any]]) -> dict[str, Any]:
    """Summary of the run that is finished in that home."""
    return continued_alone[1]


def test_both_servers_answer_and_all_is_deployed(up: Any) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/api", up.servers["prefect"])
    assert up.call("health") is True
    assert up.ask(f"{up.servers['mlflow']}/health") == "OK"
    found = up.call("deployments/filter", {})
    names = {(each["name"], each["flow_id"]) for each in found}
    assert len(names) == len(found) > len(STEPS)


def test_a_retraining_from_the_form_reuses_what_has_been_made(up: Any, summary: dict[str, Any]) -> None:
    again = up.start("retrain/quickstart", config=summary["config"])
    assert up.wait(again) == "COMPLETED"
    [(_, reused)] = up.tracked(again, _REUSED)
    assert reused.split(", ") == list(STEPS)


def test_a_run_of_the_command_line_finds_the_servers(up: Any) -> None:
    from_here = up.nmt.run("--until", "clean", "--force", "clean")
    assert up.state(from_here["prefect_flow_run_id"]) == "COMPLETED"
    links = up.call("artifacts/latest/filter", {})
    assert any(link["key"] == "mlflow-clean" and up.servers["mlflow"] in link["data"] for link in links)


def test_a_registered_model_translates(up: Any, tmp_path: Path) -> None:
    """The deployment `translate` fetches a registered model and writes a row with a status for each row."""
    source, target = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    source.write_bytes(b"id\ttext\n1\tI am a student.\n2\t\n3\t\xff\n")
    where = {"source": str(source), "target": str(target), "column": "text"}
    run = up.start("translate/translate", model="models:/quickstart@champion", **where)
    assert up.wait(run) == "COMPLETED"
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["source"] for row in rows][:2] == ["I am a student.", ""]
    assert rows[0]["status"] in {"ok", "unfinished"} and rows[0]["model"] == "quickstart"
    assert [row["status"] for row in rows][1:] == ["empty", "invalid_utf8"]
    shown = up.call("artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
    assert [each["key"] for each in shown] == ["report-translate"] and "invalid\\_utf8" in shown[0]["data"]
    assert up.nmt.select("mlflow.db", "select status from runs where name = 'out.jsonl'") == [("FINISHED",)]


def test_a_stage_begins_with_an_earlier_run_and_says_so(up: Any, summary: dict[str, Any]) -> None:
    fingerprints = {stage["name"]: stage["fingerprint"] for stage in summary["stages"]}
    clean = summary["config"]["clean"]
    shorter = up.start("clean/quickstart", clean=clean | {"max_words": 12}, input=fingerprints["download"])
    assert up.wait(shorter) == "COMPLETED"
    texts = [file.read_text() for file in up.nmt.home.glob("runs/*/summary.json")]
    (made,) = [text for text in texts if shorter in text]
    assert '"max_words": 12' in made
    assert fingerprints["clean"] not in made, "another artifact"
    (task,) = up.call("task_runs/filter", {"flow_runs": {"id": {"any_": [shorter]}}})
    assert task["name"].startswith("clean"), "only that stage runs"
    shown = up.call("artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [shorter]}}})
    by_key = {each["key"]: each["data"] for each in shown}
    assert fingerprints["download"][:12] in by_key["input-clean"]
    assert summary["run_id"] in by_key["input-clean"] or "Page in Prefect" in by_key["input-clean"]
    assert "Items out" in by_key["report-clean"]
    # what comes after it begins with it, and with its values
    split = up.start("split/quickstart", split=summary["config"]["split"], mix=summary["config"]["mix"], input=shorter)
    assert up.wait(split) == "COMPLETED"
    again = up.start("clean/quickstart", clean=clean | {"max_words": 12})
    assert up.wait(again) == "COMPLETED"
    assert [reused for _, reused in up.tracked(again, _REUSED)] == ["clean"], "what has been made is reused"


def test_a_failed_run_is_retried_from_where_it_failed(up: Any, small_recipe: dict[str, Any]) -> None:
    words = up.nmt.home / "words.txt"
    toy = small_recipe["corpus"]["toy"] | {"pairs": 2_100}  # text that no other test has fetched
    config = small_recipe | {"corpus": small_recipe["corpus"] | {"toy": toy}}
    config["clean"] = config["clean"] | {"source_word_list": str(words)}
    before = set(up.nmt.home.glob("artifacts/download/*/manifest.json"))
    run = up.start("retrain/quickstart", config=config, until="split")
    assert up.wait(run) == "FAILED"
    (download,) = set(up.nmt.home.glob("artifacts/download/*/manifest.json")) - before
    made = download.stat().st_mtime_ns
    words.write_text("nobody\n")
    body = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": False}
    assert up.call(f"flow_runs/{run}/set_state", body)["status"] == "ACCEPT"  # what the button Retry does
    assert up.wait(run) == "COMPLETED"
    assert download.stat().st_mtime_ns == made
    rows = [row for row in up.tracked(run, _WAS_REUSED) if row[0] in {"download", "clean", "split"}]
    assert rows[:2] == [("download", "false"), ("clean", None)]
    assert rows[2:] == [("clean", "false"), ("split", "false")], "download was reused"


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


def updates(home: Path) -> list[int]:
    """Updates that the unfinished training has made itself, in their order."""
    return [update for folder in home.glob(UNDER_WAY) for update in own_updates(folder)]


def wait_until_it_trains(up: Any, run: str, after: int = 0) -> None:
    """Return when the curve has two points beyond an update."""

    def trains() -> bool:
        assert up.state(run) in {"SCHEDULED", "PENDING", "RUNNING"}, up.call(f"flow_runs/{run}")["state"]
        return len([update for update in updates(up.nmt.home) if update > after]) >= 2

    until(trains, lambda: up.call(f"flow_runs/{run}")["state"], every=0.2)


def cancel(up: Any, run: str) -> float:
    """Cancel a run that trains, as the UI does. Return the seconds until all of its processes have ended."""
    before = ours(str(up.nmt.home))
    assert any("nmt_core.train" in " ".join(process.cmdline()) for process in before)
    start = time.monotonic()
    assert up.call(f"flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})["status"] == "ACCEPT"
    until_gone(before)
    seconds = time.monotonic() - start
    assert ours(str(up.nmt.home)) == []
    assert up.wait(run) == "CANCELLED", up.call(f"flow_runs/{run}")["state"]
    return seconds


def test_a_cancelled_training_saves_ends_and_resumes(
    up: Any, small_recipe: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """After Cancel, in the UI or by the API, training has time for a checkpoint, and no process is left."""
    home = up.nmt.home
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
    saved = max(map(saved_at, home.glob(UNDER_WAY)))
    assert 0 < saved < _UPDATES, "saved for the cancellation, and not because it was due"

    again = up.start("retrain/quickstart", config=config, until="train")
    wait_until_it_trains(up, again, after=max(updates(home)))
    cancel(up, again)
    assert dict(up.tracked(again, _FIRST_UPDATE))["train"] > saved, "it resumes, and does not start over"
    assert max(map(saved_at, home.glob(UNDER_WAY))) > saved
