"""A retraining from end to end through the command line: what it leaves, what it reuses and what it prints."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest
import yaml
from support.small import STEPS

Finished = tuple[Any, dict[str, Any]]
Statuses = Callable[[dict[str, Any]], dict[str, str]]

_DATASETS = """
select name, digest, dataset_source, dataset_profile, (select value from input_tags where input_uuid = i.input_uuid)
from inputs i join datasets on source_id = dataset_uuid where destination_id = '{}' order by name
"""


def datasets(nmt: Any, summary: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the text of a run as MLflow lists it: name, digest, source, profile and context of each part."""
    found: list[tuple[Any, ...]] = nmt.select("mlflow.db", _DATASETS.format(summary["mlflow_run_id"]))
    return found


def test_a_run_ends_in_a_registered_model(finished: Finished, statuses: Statuses) -> None:
    nmt, summary = finished
    assert summary["status"] == "finished"
    assert statuses(summary) == dict.fromkeys(STEPS, "done")
    assert [score["metric"] for score in summary["metrics"]] == ["BLEU", "chrF", "BLEU ko-mecab"]
    assert all("version:" in score["signature"] for score in summary["metrics"])
    assert summary["model"]["name"] == "quickstart"
    assert summary["model"]["version"] == "1"
    assert sorted(summary["model"]["aliases"]) == ["challenger", "champion"]
    assert all(check["passed"] for check in summary["model"]["gate"]["checks"])
    files = {file.name for file in nmt.home.glob("mlflow/**/verdict.*")}
    assert files == {"verdict.md", "verdict.json"}
    assert summary["samples"][-1]["source"] == "I am a student."
    written = json.loads((nmt.home / "runs" / summary["run_id"] / "summary.json").read_text())
    assert written == summary


def test_nothing_is_made_outside_of_the_home(finished: Finished) -> None:
    nmt, _ = finished
    made = {"artifacts", "copies", "logs", "mlflow", "mlflow.db", "place.txt", "prefect", "runs"}
    assert {path.name for path in nmt.home.iterdir()} - {"hashes.db"} == made  # which is there once much was hashed


def test_mlflow_holds_the_lineage(finished: Finished) -> None:
    nmt, summary = finished
    runs = dict(nmt.select("mlflow.db", "select run_uuid, status from runs"))
    parent = summary["mlflow_run_id"]
    children = {stage["name"]: stage["mlflow_run_id"] for stage in summary["stages"]}
    assert {runs[run] for run in (parent, *children.values())} == {"FINISHED"}
    tags = {(run, key): value for run, key, value in nmt.select("mlflow.db", "select run_uuid, key, value from tags")}
    for stage in summary["stages"]:
        child = stage["mlflow_run_id"]
        assert tags[child, "mlflow.parentRunId"] == parent
        assert tags[child, "artifact.fingerprint"] == tags[parent, f"artifact.{stage['name']}"] == stage["fingerprint"]
        assert tags[child, "prefect.flow_run_id"] == summary["prefect_flow_run_id"]
        assert tags[child, "nmt.stage"] == stage["name"]
    curve = "select count(*) from metrics where run_uuid = '{}' and key = 'train_loss'"
    assert nmt.select("mlflow.db", curve.format(children["train"]))[0][0] > 0


def test_a_table_of_runs_can_be_read(finished: Finished) -> None:
    nmt, summary = finished
    of_run = f"where run_uuid = '{summary['mlflow_run_id']}'"
    [[name]] = nmt.select("mlflow.db", f"select name from runs {of_run}")
    assert re.fullmatch(r"retrain quickstart \d\d:\d\d", name)
    tags = dict(nmt.select("mlflow.db", f"select key, value from tags {of_run}"))
    assert tags["kind"] == "retrain"
    assert tags["verdict"] == f"champion: {summary['model']['verdict']}"
    assert f"train.max_updates={summary['config']['train']['max_updates']}" in tags["changes"]
    note = tags["mlflow.note.content"]
    assert "A TOY" in note and "Changed against the recipe" in note and "models:/quickstart/1" in note
    numbers = dict(nmt.select("mlflow.db", f"select key, value from latest_metrics {of_run}"))
    scores = {score["metric"]: score["score"] for score in summary["metrics"]}
    assert {metric: numbers[metric] for metric in ("BLEU", "chrF")} == {
        metric: scores[metric] for metric in ("BLEU", "chrF")
    }
    (child,) = [stage["mlflow_run_id"] for stage in summary["stages"] if stage["name"] == "train"]
    keys = {key for (key,) in nmt.select("mlflow.db", f"select key from latest_metrics where run_uuid = '{child}'")}
    curves = {key for key in keys if "/" not in key}
    assert {"train_loss", "dev_loss"} <= curves and "result/cost.cpu_seconds" in keys
    assert not curves & {"items_in", "items_out", "seconds", "cost.cpu_seconds"}, "single numbers are no curves"
    [[train]] = nmt.select("mlflow.db", "select name from runs where name like 'train (%'")
    assert re.fullmatch(r"train \((\w+=\w+, ){3}and \d+ more\)", train)
    logged = nmt.home / "mlflow" / summary["mlflow_run_id"] / "artifacts" / "recipe.yaml"
    assert yaml.safe_load(logged.read_text(encoding="utf-8")) == summary["config"]
    view = "select value from experiment_tags where key = 'mlflow.sharedViewState.nmt'"
    assert "metrics.`BLEU`" in nmt.select("mlflow.db", view)[0][0]


def test_mlflow_has_a_figure_of_the_curves_of_the_training_and_of_nothing_else(finished: Finished) -> None:
    nmt, summary = finished
    (train,) = [stage["mlflow_run_id"] for stage in summary["stages"] if stage["name"] == "train"]
    own = {summary["mlflow_run_id"], *(stage["mlflow_run_id"] for stage in summary["stages"])}
    found = (file for kind in ("png", "svg") for file in nmt.home.glob(f"mlflow/*/artifacts/*.{kind}"))
    figures = [file for file in found if file.parent.parent.name in own]
    assert [(file.parent.parent.name, file.name) for file in figures] == [(train, "curves.svg")]
    assert figures[0].read_bytes().startswith(b"<svg")


def test_mlflow_lists_the_text_that_a_run_used(finished: Finished) -> None:
    nmt, summary = finished
    split = next(stage for stage in summary["stages"] if stage["name"] == "split")
    folder = Path(split["artifact"])
    parts = [
        ("dev", "dev.parquet", "validation"),
        ("test/toy", "test-toy.parquet", "testing"),
        ("train", "train-*.parquet", "training"),
    ]
    assert datasets(nmt, summary) == [
        (
            name,
            split["fingerprint"],
            json.dumps({"uri": str(folder / file)}),
            json.dumps({"pairs": polars.read_parquet(folder / file).height}),
            context,
        )
        for name, file, context in parts
    ]


def test_the_registry_says_that_a_toy_is_a_toy(finished: Finished) -> None:
    nmt, summary = finished
    of_model = nmt.select("mlflow.db", "select description from registered_models where name = 'quickstart'")
    of_version = nmt.select(
        "mlflow.db", "select description from model_versions where version = 1 and name = 'quickstart'"
    )
    assert summary["description"].startswith("A TOY")
    assert of_model == of_version
    card = of_version[0][0]
    assert card.startswith(summary["description"])
    assert f"## Trained on\n\n- toy: {summary['config']['corpus']['licence']}" in card
    for score in summary["metrics"]:
        assert f"- toy: {score['metric']} {score['score']:.2f}" in card and score["signature"] in card
    assert "CPU hours, without a GPU" in card and "- Hard (chrF" in card
    [[model]] = nmt.select("mlflow.db", "select source from model_versions where version = 1 and name = 'quickstart'")
    [whole] = nmt.home.glob(f"mlflow/models/{model.rpartition('/')[2]}/**/model_card.md")
    assert whole.read_text(encoding="utf-8") == f"{card}\n", "short enough to be all of it"


def test_prefect_holds_the_run_its_stages_and_their_reports(finished: Finished) -> None:
    nmt, summary = finished
    flow_run = summary["prefect_flow_run_id"]
    where = f"where flow_run_id = '{flow_run}'"
    assert nmt.in_prefect(f"select state_name from flow_run where id = '{flow_run}'") == [("Completed",)]
    names = nmt.in_prefect(f"select name, state_name from task_run {where}")
    assert set(names) == {(step, "Completed") for step in STEPS}
    keys = {key for (key,) in nmt.in_prefect(f"select key from artifact {where}")}
    assert keys == {"report", "verdict", *(f"report-{step}" for step in STEPS)}
    link = nmt.in_prefect(f"select data from artifact {where} and key = 'report'")
    assert (nmt.home / "runs" / summary["run_id"] / "report.html").as_uri() in link[0][0]


def test_a_run_ends_in_one_page_that_needs_nothing_else(continued: Finished) -> None:
    nmt, summary = continued
    folder = nmt.home / "runs" / summary["run_id"]
    html = (folder / "report.html").read_text(encoding="utf-8")
    logged = nmt.home / "mlflow" / summary["mlflow_run_id"] / "artifacts" / "report.html"
    assert logged.read_text(encoding="utf-8") == html
    for missing in ("was not part of this run", "no longer in the store", "<script src", "<link", "url(", " src="):
        assert missing not in html, missing
    for text in (
        "the first champion",
        "Hardest sentences",
        "learning-rate schedule",
        "Pairs left after each filter",
        "CPU hours",
    ):
        assert text in html, text
    assert html.count("<dt>source</dt>") >= 20, "samples"
    assert "cannot be shown" not in html
    assert "runs/flow-run/" not in html, "the server that the run has started for itself has no pages"
    made_again = nmt("report", summary["run_id"][:15]).stdout.strip()
    assert made_again == str(folder / "report.html")


def test_the_recipe_of_a_run_makes_the_same_again(continued: Finished) -> None:
    nmt, summary = continued
    text = nmt("plan", str(nmt.home / "runs" / summary["run_id"] / "recipe.yaml")).stdout
    assert text.count(" reuse ") == 9


def test_the_cost_of_a_run_is_in_the_summary_and_in_mlflow(finished: Finished) -> None:
    nmt, summary = finished
    cost = {stage["name"]: stage["cost"] for stage in summary["stages"]}
    assert all(each["cpu_seconds"] >= 0 and each["seconds"] > 0 for each in cost.values())
    assert cost["train"]["cpu_seconds"] > 1 and cost["train"]["gpu_seconds"] == 0
    assert cost["train"]["tokens"] > 1_000 and cost["evaluate"]["tokens"] > 20
    query = "select value from latest_metrics where run_uuid = '{}' and key = 'cost.cpu_seconds'"
    [[whole]] = nmt.select("mlflow.db", query.format(summary["mlflow_run_id"]))
    assert whole == pytest.approx(sum(each["cpu_seconds"] for each in cost.values()), abs=0.1)


@pytest.fixture(scope="module")
def again(continued: Finished, recipe: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the output of the same command on a terminal, and its summary."""
    nmt, _ = continued
    before = set(nmt.home.glob("runs/*/summary.json"))
    text = nmt("run", *recipe).stdout
    (written,) = set(nmt.home.glob("runs/*/summary.json")) - before
    return text, json.loads(written.read_text())


def test_a_second_run_reuses_everything(
    continued: Finished, again: tuple[str, dict[str, Any]], statuses: Statuses
) -> None:
    nmt, first = continued
    _, summary = again
    assert set(statuses(summary).values()) == {"reused"}
    assert summary["model"]["version"] == first["model"]["version"]
    assert [stage["fingerprint"] for stage in summary["stages"]] == [stage["fingerprint"] for stage in first["stages"]]
    assert datasets(nmt, summary) == datasets(nmt, first) != []


def test_a_run_that_reuses_everything_is_one_line_and_one_run_in_mlflow(
    continued: Finished, again: tuple[str, dict[str, Any]]
) -> None:
    nmt, _ = continued
    text, summary = again
    assert f"quickstart: nothing new: all {len(STEPS)} stages are reused" in text
    of_run = f"select run_uuid from tags where key = 'nmt.run_id' and value = '{summary['run_id']}'"
    assert nmt.select("mlflow.db", of_run) == [(summary["mlflow_run_id"],)]
    query = f"select key, value from tags where run_uuid = '{summary['mlflow_run_id']}'"
    tags = dict(nmt.select("mlflow.db", query))
    assert (tags["kind"], tags["nmt.reused"]) == ("nothing new", ", ".join(STEPS))
    assert tags["artifact.train"] == next(row["fingerprint"] for row in summary["stages"] if row["name"] == "train")


def test_another_beam_runs_only_evaluate_and_register(continued: Finished, statuses: Statuses) -> None:
    nmt, _ = continued
    summary = nmt.run("--set", "search.beam_size=2")
    assert summary["champion"]["version"] == "1"
    html = (nmt.home / "runs" / summary["run_id"] / "report.html").read_text(encoding="utf-8")
    assert "The champion was version 1 when" in html and "The stage register was not" not in html
    assert [name for name, status in statuses(summary).items() if status == "done"] == ["evaluate", "register"]
    assert summary["model"]["aliases"] == ["challenger"]
    assert "neither better nor worse; on the main test set it must be better" in summary["model"]["verdict"]
    kinds = {check["kind"]: check["passed"] for check in summary["model"]["gate"]["checks"] if check["kind"] != "speed"}
    assert kinds == dict.fromkeys(("parity", "contamination", "sentences", "history"), True) | {"quality": False}


def test_until_from_and_force_choose_the_stages(continued: Finished, statuses: Statuses) -> None:
    nmt, first = continued
    until = nmt.run("--until", "split", "--force", "split")
    assert statuses(until) == {"download": "reused", "clean": "reused", "split": "done"}
    begun = nmt.run("--from", "evaluate", "--until", "evaluate")
    assert statuses(begun) == {"evaluate": "reused"}
    assert datasets(nmt, begun) == datasets(nmt, first), "a run uses the text also of stages that it begins after"


def test_what_an_earlier_stage_should_have_made_is_asked_for(continued: Finished, recipe: list[str]) -> None:
    nmt, _ = continued
    done = nmt("stage", "encode", *recipe, "--set", "tokenizer.vocab_size=701", code=1)
    assert "stage encode needs the artifact of tokenizer" in done.stderr
    assert "run `nmt run quickstart --until tokenizer` first" in done.stderr
    assert "Traceback" not in done.stderr
    alone = nmt("stage", "tokenizer", *recipe, "--set", "tokenizer.vocab_size=701", "--json")
    assert [stage["status"] for stage in json.loads(alone.stdout.splitlines()[-1])["stages"]] == ["done"]


def test_a_stage_that_fails_says_so_everywhere(continued: Finished, statuses: Statuses) -> None:
    nmt, _ = continued
    summary = nmt.run("--set", "tokenizer.vocab_size=100000", code=1)
    assert statuses(summary)["tokenizer"] == "failed"
    assert summary["status"] == "failed"
    assert "tokenizer.vocab_size=100000" in summary["error"]
    child = summary["stages"][-1]
    state = f"select status from runs where run_uuid = '{summary['mlflow_run_id']}'"
    assert nmt.select("mlflow.db", state) == [("FAILED",)]
    flow_run = f"select state_name from flow_run where id = '{summary['prefect_flow_run_id']}'"
    assert nmt.in_prefect(flow_run) == [("Failed",)]
    assert not (nmt.home / "artifacts" / "tokenizer" / child["fingerprint"]).exists()


def test_the_terminal_shows_a_line_per_stage_a_table_and_what_to_try_next(again: tuple[str, dict[str, Any]]) -> None:
    text, _ = again
    for step in STEPS:
        assert f"{step:<10} reused" in text
    for expected in ("A TOY: its score", "BLEU", "nrefs:1", "Model quickstart version 1", "Next:", "nmt translate"):
        assert expected in text
    assert "Beginning flow run" not in text


@pytest.mark.slow
def test_quietly_a_run_that_goes_well_prints_nothing_and_verbosely_it_prints_its_log(
    continued: Finished, recipe: list[str]
) -> None:
    nmt, _ = continued
    done = nmt("run", *recipe, "--until", "clean", "--quiet")
    assert (done.stdout, done.stderr) == ("", "")
    usual = nmt("run", *recipe, "--until", "clean", "--force", "clean").stdout
    verbose = nmt("run", *recipe, "--until", "clean", "--force", "clean", "--verbose").stdout
    assert len(verbose.splitlines()) > len(usual.splitlines())


def test_plan_and_why_tell_what_would_happen(continued: Finished, recipe: list[str]) -> None:
    nmt, _ = continued
    before = _files(nmt.home)
    text = nmt("plan", *recipe, "--set", "search.beam_size=3").stdout
    assert text.count(" reuse ") == 8
    assert "search.beam_size: 4 -> 3" in text or "search.beam_size: 2 -> 3" in text
    assert (
        "evaluate would run: search.beam_size" in nmt("why", "evaluate", *recipe, "--set", "search.beam_size=3").stdout
    )
    assert "train would be reused: made already" in nmt("why", "train", *recipe).stdout
    assert _files(nmt.home) == before


def _files(home: Path) -> list[Path]:
    """The journals of databases do not count. They disappear when the server that wrote them has ended."""
    return sorted(path for path in home.rglob("*") if not path.name.endswith(("-shm", "-wal")))


@pytest.mark.parametrize(
    "model", ["models:/quickstart@champion", pytest.param("models:/quickstart/1", marks=pytest.mark.slow), "export"]
)
def test_translate_writes_one_line_for_each_line(continued: Finished, model: str) -> None:
    nmt, summary = continued
    if model == "export":
        model = next(stage["artifact"] for stage in summary["stages"] if stage["name"] == "export")
    source, target = nmt.home.parent / f"{nmt.home.name}-in.txt", nmt.home.parent / f"{nmt.home.name}-out.txt"
    source.write_bytes("I am a student.\n\n한국어\r\n".encode() + b"\xff\xfe\nlast line without its end")
    done = nmt("translate", "--model", model, "--input", str(source), "--output", str(target), "--beam", "1")
    lines = target.read_bytes().split(b"\n")
    assert (len(lines), lines[1], lines[3], lines[-1]) == (6, b"", b"", b"")
    assert "1 of 5 lines: invalid_utf8" in done.stderr


def test_a_registered_model_shows_how_it_translates_and_what_belongs_together(continued: Finished) -> None:
    nmt, _ = continued
    folder = nmt.home.parent
    page, source, target = (folder / f"{nmt.home.name}-{name}" for name in ("page.html", "said.txt", "aligned.txt"))
    assert nmt("explain", "models:/quickstart@champion", "I am a student.", "-o", str(page)).stdout.endswith(
        f"{page}\n"
    )
    text = page.read_text(encoding="utf-8")
    assert "<h1>I am a student.</h1>" in text and "<b>quickstart version 1</b>" in text and 'id="cross"' in text
    source.write_text("I am a student.\n\nThe doctor reads a book.\n")
    arguments = ["--model", "models:/quickstart@champion", "--input", str(source), "--output", str(target)]
    nmt("translate", *arguments, "--alignments", "words")
    links = Path(f"{target}.alignment").read_text().split("\n")
    words = [len(line.split()) for line in target.read_text(encoding="utf-8").split("\n")]
    assert [len({link.split("-")[1] for link in line.split()}) for line in links] == words


def test_artifacts_are_listed_traced_and_only_collected_when_told(continued: Finished, recipe: list[str]) -> None:
    nmt, summary = continued
    assert "evaluate/" in nmt("artifacts", "ls").stdout
    assert "Signature" in nmt("artifacts", "show", "evaluate").stdout
    lineage = nmt("artifacts", "lineage", summary["stages"][8]["fingerprint"]).stdout
    assert all(f"{stage}/" in lineage for stage in STEPS[:-1])
    stray = nmt.home / "artifacts" / "clean" / f"{'0' * 32}.partial"
    stray.mkdir()
    assert "nothing was deleted" in nmt("artifacts", "gc", "--keep-runs", "100", "--unfinished", "0").stdout
    assert stray.exists()
    assert "freed" in nmt("artifacts", "gc", "--keep-runs", "100", "--unfinished", "0", "--yes").stdout
    assert not stray.exists()
    assert nmt("plan", *recipe).stdout.count(" reuse ") == 9


@pytest.mark.slow
def test_a_dead_mlflow_costs_telemetry_and_never_a_stage(continued: Finished, statuses: Statuses) -> None:
    nmt, _ = continued
    summary = nmt.run("--until", "evaluate", MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    assert summary["status"] == "finished"
    registration = nmt.run(code=1, MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    assert statuses(registration)["register"] == "failed"
    assert "MLflow at http://127.0.0.1:9 does not answer" in registration["error"]


def test_a_flipped_byte_is_told_of_and_the_artifact_is_made_anew(continued: Finished, statuses: Statuses) -> None:
    nmt, summary = continued
    model = Path(summary["stages"][STEPS.index("tokenizer")]["artifact"]) / "spm.model"
    name, content = f"tokenizer/{model.parent.name}", model.read_bytes()
    middle = len(content) // 2
    model.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    assert "spm.model does not match its sha256" in nmt("artifacts", "verify", name, code=1).stdout
    again = nmt.run("--until", "encode")
    assert {name for name, status in statuses(again).items() if status == "done"} == {"tokenizer"}
    assert model.read_bytes() == content
    log = nmt("artifacts", "verify", name).stdout
    assert log.startswith("tokenizer/") and "sha256" not in log
