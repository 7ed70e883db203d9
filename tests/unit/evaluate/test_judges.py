"""Metrics of the recipe: sacreBLEU's and programs, each of which may fail alone."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.until import patient, until

from nmt_core.config import EvaluateConfig, PipelineConfig
from nmt_core.evaluate.judges import Judged, judge
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.judges.files import identity
from nmt_core.scoring import SentenceStatistics

TEST = TestSet("news", ["ein Haus", "der Hund läuft", "ja\u2028nein"], ["a house", "the dog runs", "yes"])
HYPOTHESES = ["a house", "a dog runs", ""]

LENGTHS = """
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    assert set(row) == {"source", "translation", "reference"}
    print(len(row["translation"]) / len(row["reference"]))
print("loaded a model", file=sys.stderr)
"""
"""A judge: the length of each translation relative to its reference."""


def program(folder: Path, text: str, name: str = "judge.py") -> str:
    """Write a program, and return its command."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(file))}"


def judged(*metrics: Any, allow_code: bool = True, samples: int = 0, said: list[str] | None = None) -> Judged:
    config = EvaluateConfig.model_validate({"metrics": metrics, "interval_samples": samples})
    notice = (said if said is not None else []).append
    return judge(TEST, HYPOTHESES, config, "en", allow_code=allow_code, notice=notice)


def test_metrics_of_sacrebleu_are_scored_beside_each_other() -> None:
    found = judged("TER", "chrF++", samples=100)
    assert [(one.test_set, one.metric) for one in found.scores] == [("news", "TER"), ("news", "chrF++")]
    for score, metric in zip(found.scores, ("TER", "chrF++"), strict=True):
        assert score.score == pytest.approx(
            SentenceStatistics(metric, HYPOTHESES, TEST.references, "en").score, abs=1e-4
        )
        assert score.low is not None and score.high is not None and score.low < score.score < score.high
    assert found.not_scored == {}


def test_a_program_judges_each_sentence_and_its_mean_is_the_score(tmp_path: Path) -> None:
    checkpoint = tmp_path / "model"
    checkpoint.mkdir()
    (checkpoint / "weights").write_text("1")
    rule = {
        "name": "lengths",
        "command": program(tmp_path, LENGTHS),
        "version": "1.2",
        "checkpoint": str(checkpoint),
        "factor": 100,
    }
    found = judged(rule, samples=200)
    expected = [100.0, 100 * 10 / 12, 0.0]
    assert found.numbers["lengths"] == pytest.approx(expected)
    (score,) = found.scores
    assert score.score == pytest.approx(sum(expected) / 3, abs=1e-4)
    assert score.low is not None and score.high is not None and score.low < score.score < score.high
    first = score.signature
    assert first.startswith("lengths|version:1.2|checkpoint:sha256-") and first.endswith(
        "|mean of sentences|factor:100"
    )
    (checkpoint / "weights").write_text("2")
    (score,) = judged(rule).scores
    assert score.signature != first, "another checkpoint is another judge"


FAULTS = {
    # fault: (program, facts of the reason)
    "dies": ("import sys; sys.exit('no GPU here')", ["exit code 1", "(no GPU here)", "run it by hand"]),
    "is killed": ("import os; os.kill(os.getpid(), 9)", ["ended with signal 9"]),
    "loses rows": ("print(1); print(2)", ["wrote 2 lines for 3 sentences", "one number for each line"]),
    "chatters": ("print('Loading...'); print(1); print(2)", ["'Loading...' as line 1", "and nothing else"]),
    "has no number": ("print(1); print('nan'); print(1)", ["'nan' as line 2", "finite"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_program_that_fails_is_named_and_stops_nothing_else(fault: str, tmp_path: Path) -> None:
    text, facts = FAULTS[fault]
    command, said = program(tmp_path, text), list[str]()
    found = judged({"name": "bad", "command": command}, "TER", said=said)
    assert [one.metric for one in found.scores] == ["TER"]
    assert list(found.not_scored) == ["bad"] and command in found.not_scored["bad"]
    assert [fact for fact in facts if fact not in found.not_scored["bad"]] == []
    assert said == [f"bad of news is left out: {found.not_scored['bad']}"]


def test_a_program_that_is_not_there_is_named() -> None:
    found = judged({"name": "bad", "command": "no-such-judge --fast"})
    assert "`no-such-judge --fast`: cannot be started (there is no such program): install it" in found.not_scored["bad"]


def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    text = f"""
import subprocess, sys
from pathlib import Path
slow = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
Path({str(child)!r}).write_text(str(slow.pid))
sys.stdin.read()
slow.wait()
"""
    limit = patient(1)
    found = judged({"name": "slow", "command": program(tmp_path, text), "max_seconds": limit}, "TER")
    assert [one.metric for one in found.scores] == ["TER"]
    reason = f"was not done within {limit:g} seconds (`max_seconds`), and was ended: raise the limit"
    assert reason in found.not_scored["slow"]
    until(lambda: is_over(int(child.read_text())))


def is_over(number: int) -> bool:
    try:
        return psutil.Process(number).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    rule = {"name": "neural", "command": program(tmp_path, LENGTHS), "checkpoint": str(tmp_path / "none")}
    assert judged(rule).not_scored == {
        "neural": f"{tmp_path / 'none'}: the checkpoint is missing: correct `checkpoint`, or put it there"
    }


def test_a_program_is_not_run_where_recipes_may_not_name_code(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    command = program(tmp_path, f"open({str(ran)!r}, 'w'); print(1); print(1); print(1)")
    found = judged({"name": "own", "command": command}, "chrF++", allow_code=False)
    assert "NMT_ALLOW_CODE forbids" in found.not_scored["own"] and not ran.exists()
    assert [one.metric for one in found.scores] == ["chrF++"]


def identity_of(*metrics: Any) -> dict[str, Any]:
    values = {"name": "tiny", "corpus": {"toy": {}}, "evaluate": {"metrics": list(metrics)}}
    return dict(identity(PipelineConfig.model_validate(values)))


def test_an_evaluation_is_another_one_with_another_program_or_checkpoint(tmp_path: Path) -> None:
    """And a recipe without metrics keeps the evaluations that it has."""
    assert "metrics" not in identity_of() and "metrics" not in identity_of()["evaluate"]
    checkpoint = tmp_path / "weights"
    checkpoint.write_text("1")
    rule = {"name": "neural", "command": program(tmp_path, LENGTHS), "checkpoint": str(checkpoint)}
    found = [identity_of(rule)]
    checkpoint.write_text("2")
    found.append(identity_of(rule))
    program(tmp_path, LENGTHS + "\n")
    found.append(identity_of(rule))
    assert len({json.dumps(one, sort_keys=True) for one in found}) == 3
    assert str(checkpoint) in found[0]["metrics"]["neural"]
