"""Several recipes through the command line, one of which cannot work: the table still has the others."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Continued = tuple[Any, dict[str, Any]]
Compared = tuple[Any, list[dict[str, Any]], dict[str, int]]
"""Return the command's output, its table, and the number of artifacts of each stage that it added."""

GREEDY = "quickstart+search.beam_size=1"
MISSING = "quickstart+corpus.toy=null+corpus.train=[nowhere.tsv]"
QUICK = ["--set", "export.precisions=[fp32]", "--seeds", "2"]


@pytest.fixture(scope="module")
def command(recipe: list[str]) -> list[str]:
    first, *overrides = recipe
    return ["compare", first, MISSING, GREEDY, *overrides, *QUICK]


@pytest.fixture(scope="module")
def compared(continued: Continued, command: list[str]) -> Compared:
    nmt, _ = continued
    before = made(nmt)
    done = nmt(*command, "--json", code=1)
    return done, json.loads(done.stdout.splitlines()[-1]), {stage: n - before[stage] for stage, n in made(nmt).items()}


def made(nmt: Any) -> dict[str, int]:
    folders = {stage: (nmt.home / "artifacts" / stage).iterdir() for stage in ("encode", "train", "average")}
    return {stage: sum(each.is_dir() for each in found) for stage, found in folders.items()}


def test_each_recipe_is_a_row_with_the_spread_of_its_seeds(continued: Continued, compared: Compared) -> None:
    nmt, parent = continued
    beam, missing, greedy = compared[1]
    for row, beam_size in ((beam, parent["config"]["search"]["beam_size"]), (greedy, 1)):
        assert set(row["measures"]) == {
            "parameters",
            "updates",
            "trained_tokens",
            "dev_perplexity",
            "dev_bleu",
            "bleu",
            "chrf",
            "hours",
            "pieces",
            "tokens_per_sentence",
            "unknown",
            "bleu_morphemes",
        }
        assert [run["seed"] for run in row["runs"]] == [1, 2]
        assert row["measures"]["updates"] == {"mean": 40, "deviation": 0}
        perplexities = [run["dev_perplexity"] for run in row["runs"]]
        assert perplexities[0] != perplexities[1]
        assert row["measures"]["dev_perplexity"]["mean"] == pytest.approx(sum(perplexities) / 2)
        assert 1 < min(perplexities) < max(perplexities) < 700
        for run in row["runs"]:
            summary = json.loads((nmt.home / "runs" / run["run_id"] / "summary.json").read_text())
            assert summary["metrics"][0]["score"] == run["bleu"]
            assert summary["config"]["search"]["beam_size"] == beam_size
            assert run["weights"] in ("best alone", "average of 2", "last alone")
            assert run["unknown"] == 0
            assert sum(bucket["sentences"] for bucket in run["by_length"]) == 20
            assert [stage["name"] for stage in summary["stages"]][-1] == "evaluate"
    assert greedy["measures"]["parameters"] == beam["measures"]["parameters"]
    assert missing["measures"] == {}
    assert all("nowhere.tsv" in run["error"] for run in missing["runs"])


def test_what_they_have_in_common_is_made_once(continued: Continued, compared: Compared) -> None:
    nmt, parent = continued
    assert compared[2] == {"encode": 0, "train": 1, "average": 1}
    first = json.loads((nmt.home / "runs" / compared[1][0]["runs"][0]["run_id"] / "summary.json").read_text())
    reused = {stage["name"] for stage in first["stages"] if stage["reused"]}
    assert {"download", "clean", "split", "tokenizer", "encode", "train", "average"} <= reused
    assert {stage["artifact"] for stage in first["stages"] if stage["name"] == "train"} == {
        stage["artifact"] for stage in parent["stages"] if stage["name"] == "train"
    }


def test_what_failed_is_told_when_it_fails_and_at_the_end(compared: Compared) -> None:
    told = compared[0].stderr
    assert f"{MISSING} failed: " in told
    assert told.splitlines()[-1].startswith("nmt: 2 of 6 runs failed, for the reasons above: ")
    assert "Traceback" not in told


def test_some_of_the_recipes_again_make_nothing_and_are_printed_as_a_table(
    continued: Continued, command: list[str], compared: Compared, tmp_path: Path
) -> None:
    nmt, _ = continued
    command = [part for part in command if part != "quickstart"]
    before = {path: path.stat().st_mtime_ns for path in Path(nmt.home / "artifacts").glob("*/*/manifest.json")}
    figure, pareto = tmp_path / "figures" / "by-length.svg", tmp_path / "figures" / "pareto.svg"
    shown = nmt(*command, "--markdown", "--figure", str(figure), "--pareto", str(pareto), code=1).stdout
    for file, title in ((figure, "BLEU, "), (pareto, "BLEU with 95% interval, ")):
        drawn = file.read_text()
        assert title in drawn and GREEDY in drawn and MISSING not in drawn
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(Path(nmt.home / "artifacts").glob("*/*/manifest.json"))) == len(before)
    table = [line for line in shown.splitlines() if line.startswith("|")]
    assert table[0].startswith("| recipe | parameters | updates | trained tokens | dev perplexity | dev BLEU | BLEU |")
    assert table[4].startswith("| BLEU by words of the source | ")
    assert len(table) == 2 * (2 + 2) + (2 + 1)
    assert ", fp32, greedy | " in table[-1] and table[-1].endswith(" | yes |")
    assert "2 of 2 failed" in table[2]
    assert " ± " in table[3]
