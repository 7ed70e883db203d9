"""`nmt up`: both servers answer, deployments run, `nmt run` finds them, and Ctrl-C leaves nothing behind."""

import json
import re
from pathlib import Path
from typing import Any

from flows.selection import STEPS


def test_up_serves_runs_and_ends(continued_alone: tuple[Any, dict[str, Any]], start_up: Any, tmp_path: Path) -> None:
    nmt, summary = continued_alone
    up = start_up(nmt)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/api", up.servers["prefect"])
    assert up.call("health") is True
    assert up.ask(f"{up.servers['mlflow']}/health") == "OK"

    names = {(each["name"], each["flow_id"]) for each in up.call("deployments/filter", {})}
    assert len(names) == len(up.call("deployments/filter", {})) > len(STEPS)
    again = up.start("retrain/quickstart", config=summary["config"])
    stage = up.start("clean/quickstart", input=summary["run_id"])
    assert (up.wait(again), up.wait(stage)) == ("COMPLETED", "COMPLETED")
    assert_translates(up, nmt, tmp_path)

    from_here = nmt.run("--until", "clean")
    assert up.state(from_here["prefect_flow_run_id"]) == "COMPLETED"
    links = up.call("artifacts/latest/filter", {})
    assert any(link["key"] == "mlflow-clean" and up.servers["mlflow"] in link["data"] for link in links)

    up.end()
    assert up.process.returncode == 130
    assert not (nmt.home / "servers.json").exists()


def assert_translates(up: Any, nmt: Any, folder: Path) -> None:
    """The deployment `translate` fetches a registered model and writes a row for each row, with what became of it."""
    source, target = folder / "in.tsv", folder / "out.jsonl"
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
    assert nmt.select("mlflow.db", "select status from runs where name = 'out.jsonl'") == [("FINISHED",)]


def test_a_stage_begins_with_an_earlier_run_and_says_so(
    continued_alone: tuple[Any, dict[str, Any]], start_up: Any
) -> None:
    nmt, summary = continued_alone
    up = start_up(nmt)
    fingerprints = {stage["name"]: stage["fingerprint"] for stage in summary["stages"]}
    clean = summary["config"]["clean"]
    shorter = up.start("clean/quickstart", clean=clean | {"max_words": 12}, input=fingerprints["download"])
    assert up.wait(shorter) == "COMPLETED"
    runs = {file.parent.name: file for file in nmt.home.glob("runs/*/summary.json")}
    (made,) = [text for file in runs.values() if shorter in (text := file.read_text())]
    assert '"max_words": 12' in made
    assert fingerprints["clean"] not in made, "another artifact"
    (task,) = up.call("task_runs/filter", {"flow_runs": {"id": {"any_": [shorter]}}})
    assert task["name"].startswith("clean"), "only that stage runs"
    shown = up.call("artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [shorter]}}})
    by_key = {each["key"]: each["data"] for each in shown}
    assert fingerprints["download"][:12] in by_key["input-clean"]
    assert summary["run_id"] in by_key["input-clean"] or "its page in Prefect" in by_key["input-clean"]
    assert "Items out" in by_key["report-clean"]
    # what comes after it begins with it, and with its values
    split = up.start("split/quickstart", split=summary["config"]["split"], mix=summary["config"]["mix"], input=shorter)
    assert up.wait(split) == "COMPLETED"
    again = up.start("clean/quickstart", clean=clean | {"max_words": 12})
    assert up.wait(again) == "COMPLETED"
    reused = "(select value from tags t where t.run_uuid = r.run_uuid and t.key = 'artifact.reused')"
    assert dict(up.tracked(again, reused))["clean"] == "true", "what has been made is reused"
    missing = up.start("split/quickstart", input="nonsense")
    assert up.wait(missing) == "FAILED"
    assert "is no run in" in up.call(f"flow_runs/{missing}")["state"]["message"]
    up.end()


def test_a_failed_run_is_retried_from_where_it_failed(nmt: Any, start_up: Any, small_recipe: dict[str, Any]) -> None:
    up = start_up(nmt)
    words = nmt.home / "words.txt"
    config = small_recipe | {"clean": small_recipe["clean"] | {"source_word_list": str(words)}}
    run = up.start("retrain/quickstart", config=config, until="split")
    assert up.wait(run) == "FAILED"
    downloads = list(nmt.home.glob("artifacts/download/*/manifest.json"))
    before = [file.stat().st_mtime_ns for file in downloads]
    assert before
    words.write_text("nobody\n")
    body = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": False}
    assert up.call(f"flow_runs/{run}/set_state", body)["status"] == "ACCEPT"  # what the button Retry does
    assert up.wait(run) == "COMPLETED"
    assert [file.stat().st_mtime_ns for file in downloads] == before
    reused = "(select value from tags t where t.run_uuid = r.run_uuid and t.key = 'artifact.reused')"
    rows = [row for row in up.tracked(run, reused) if row[0] in {"download", "clean", "split"}]
    assert rows[:2] == [("download", "false"), ("clean", None)]
    assert rows[2:] == [("download", "true"), ("clean", "false"), ("split", "false")]
    up.end()
