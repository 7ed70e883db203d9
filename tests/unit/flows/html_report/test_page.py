"""The page of a run is complete, well-formed and self-contained, and names what is missing."""

import json
import re
import shutil
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows.html_report.blocks import Run
from flows.html_report.page import page, write_page
from flows.runs.cost import Cost
from flows.runs.summary import Champion, RegisteredModel, RunSummary, Score, StageSummary
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.evaluate.report import run as evaluate
from nmt_core.evaluate.sentences import read_sentences
from nmt_core.evaluate.verdict import Check, Verdict
from nmt_core.recipes.recipe import load_recipe
from nmt_core.stages.stage import Job, Resources, SilentReporter, restrict
from nmt_core.stages.table import STAGES, plan
from nmt_core.store.artifacts import MANIFEST, REPORT, Artifact, Manifest, describe_outputs, fingerprint_of, now
from nmt_core.store.library_versions import versions

SCRIPT = resources.files("flows.html_report").joinpath("page.js").read_text(encoding="utf-8")
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Checked(HTMLParser):
    """Parser that checks the order of closing tags, and collects addresses that would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name in {"src", "srcset", "data", "xlink:href", "action", "poster"} or (tag == "link"):
                self.fetched.append(f"{tag} {name}={value}")
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> at {self.getpos()}"


def checked(html: str) -> Checked:
    """Assert that a page is well-formed, has only its own scripts, and fetches nothing."""
    found = Checked()
    found.feed(html)
    found.close()
    assert found.open == []
    assert found.fetched == [] and "link" not in found.tags
    assert re.findall(r"(?s)<script>(.*?)</script>", html) == [SCRIPT] and html.count("<script") == 1
    assert not re.search(r"url\(|@import", html)
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links), found.links
    return found


@pytest.fixture(scope="module")
def home(
    tiny: dict[str, Artifact],
    tiny_bundle: Path,
    make_config: Callable[..., PipelineConfig],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Settings, RunSummary]:
    """A run from the download to the tokens, and the evaluation of two models with the same text."""
    settings = Settings.load({"NMT_HOME": str(tmp_path_factory.mktemp("home"))})
    shutil.copytree(tiny["encode"].path.parent.parent, settings.home / "artifacts")
    config = make_config(search={"beam_size": 1, "max_length_offset": 5, "max_length_factor": 0})
    summary = RunSummary.begin(config, "20260101-000000-tiny-0000")
    for name, artifact in tiny.items():
        row = StageSummary(name=name, fingerprint=artifact.fingerprint, status="reused", cost=Cost(seconds=0.1))
        summary.stages.append(row)
    made = [published(settings, config, tiny["split"], tiny_bundle, beam) for beam in (1, 2)]
    report = made[0].report()
    cost = Cost(seconds=3_707, cpu_seconds=7_200, gpu_seconds=1_800, money=1.25)
    fingerprint = made[0].fingerprint
    summary.stages.append(StageSummary(name="evaluate", fingerprint=fingerprint, status="done", cost=cost))
    summary.metrics = [Score.model_validate(score) for score in report["scores"]]
    summary.champion = Champion(version="7", evaluate=made[1].fingerprint)
    summary.currency = "EUR"
    summary.end(None)
    summary.write(settings.runs)
    return settings, summary


def published(settings: Settings, config: PipelineConfig, split: Artifact, bundle: Path, beam: int) -> Artifact:
    """The evaluation of a bundle, as the stage makes it."""
    config = config.model_copy(update={"search": config.search.model_copy(update={"beam_size": beam})})
    identity = {"stage": "evaluate", "beam": beam, "inputs": {}}
    out = settings.store.partial("evaluate", fingerprint_of(identity))
    out.mkdir(parents=True)
    inputs = {"export": Artifact("export", "0" * 32, bundle), "split": split}
    report = evaluate(restrict(config, STAGES["evaluate"].sections), inputs, out, Job(SilentReporter(), Resources()))
    (out / REPORT).write_text(report.model_dump_json())
    manifest = Manifest(
        stage="evaluate",
        fingerprint=fingerprint_of(identity),
        identity=identity,
        recipe="tiny",
        outputs=describe_outputs(out),
        versions=versions(),
        seconds=1,
        host="host",
        created=now(),
    )
    return settings.store.publish(out, manifest)


def test_the_page_is_whole_and_needs_nothing_else(home: tuple[Settings, RunSummary]) -> None:
    settings, summary = home
    html = write_page(summary, settings).read_text(encoding="utf-8")
    found = checked(html)
    assert {"svg", "table", "details"} <= found.tags
    assert "cannot be shown" not in html
    assert not re.search(r">(None|nan|inf)<", html)
    for text in (
        "The champion was version 7 when this model was registered.",
        "Pairs left after each filter",
        "Samples of dropped pairs",
        "Hardest sentences",
        "mean source length, words",
        "Positional encoding",
        "nmt run",
        "61.8 min",
    ):
        assert text in html, text


def test_champion_and_challenger_stand_beside_each_other(home: tuple[Settings, RunSummary]) -> None:
    settings, summary = home
    html = page(Run(summary, settings))
    assert html.count("<dt>source</dt>") > 20
    assert html.count("<dt>both models</dt>") + html.count("<dt>champion</dt>") >= 20
    assert html.count("<dt>champion</dt>") <= html.count("<dt>challenger</dt>")
    by_length = html[html.index("BLEU by sentence length</h2>") :]
    assert "line s1" in by_length[: by_length.index("</svg>")], "a curve for each model"


def test_each_pair_is_compared_with_its_own_champion(home: tuple[Settings, RunSummary]) -> None:
    settings, summary = home
    assert summary.champion
    ours = next(row.fingerprint for row in summary.stages if row.name == "evaluate")
    champions = {"en-ko": Champion(version="8", evaluate=ours), "ko-en": Champion(version="9", evaluate="gone")}
    config = summary.config | {"languages": {"source": "en", "target": "ko", "pairs": ["en-ko", "ko-en"]}}
    of_pairs = summary.model_copy(update={"champions_of_pairs": champions, "config": config})
    run = Run(of_pairs, settings)
    found = {name: run.champion_of(name) for name in ("news-en-ko", "news-en-ko+upper", "news-ko-en", "news-ko-de")}
    fingerprints = [artifact.fingerprint if artifact else "" for artifact in found.values()]
    assert fingerprints == [ours, ours, "", summary.champion.evaluate], "a pair without one has the champion for all"
    html = page(run)
    assert "The champion for en-ko was version 8 when this model was registered." in html
    assert "The champion for ko-en was version 9. Its translations are no longer in the store." in html
    assert "for all other pairs" not in html
    del champions["ko-en"]
    assert "The champion for all other pairs was version 7 when this model was registered." in page(run)


def test_the_verdict_is_a_table_of_what_decided_it(home: tuple[Settings, RunSummary]) -> None:
    settings, summary = home
    check = Check(
        kind="quality",
        name="BLEU of toy is significantly better",
        test_set="toy",
        champion=30.0,
        challenger=31.25,
        difference=1.25,
        low=0.4,
        high=2.1,
        p_value=0.004,
        passed=True,
        why="It gained 1.25.",
    )
    slower = Check(kind="speed", name="speed", passed=False, why="It is slower.")
    gate = Verdict(model_name="tiny", challenger="8", champion="7", promoted=False, reason="no", checks=(check, slower))
    model = RegisteredModel(name="tiny", version="8", aliases=["challenger"], verdict="stays challenger", gate=gate)
    html = page(Run(summary.model_copy(update={"model": model}), settings))
    checked(html)
    assert "tiny version 8 (challenger): stays challenger." in html
    for cell in ("30.00", "31.25", "1.25", "+0.40 to +2.10", "0.004", "passed", "FAILED", "It is slower."):
        assert f">{cell}</td>" in html, cell
    assert 'data-column="Reason">It is slower.' in html, "on a telephone, a row is a card, which names its columns"
    alone = slower.model_copy(update={"name": "parity"})
    gate = gate.model_copy(update={"checks": (alone,)})
    html = page(Run(summary.model_copy(update={"model": model.model_copy(update={"gate": gate})}), settings))
    assert "<th>Reason</th>" in html and "<th>p</th>" not in html, "a column without a value is left out"


def test_what_was_not_part_of_the_run_is_said(home: tuple[Settings, RunSummary]) -> None:
    settings, summary = home
    html = page(Run(summary, settings))
    for stage in ("train", "export", "register"):
        assert f"The stage {stage} was not part of this run." in html
    alone = summary.model_copy(update={"stages": [], "champion": None, "metrics": []})
    html = page(Run(alone, settings))
    checked(html)
    for stage in ("download", "clean", "evaluate"):
        assert f"The stage {stage} was not part of this run." in html


def test_a_stage_that_failed_and_an_artifact_that_is_gone_are_said(home: tuple[Settings, RunSummary]) -> None:
    settings, summary = home
    rows = [
        StageSummary(name="clean", fingerprint="0" * 32, status="reused"),
        StageSummary(name="train", fingerprint="1" * 32, status="killed"),
    ]
    folder = settings.store.partial("train", "1" * 32)
    folder.mkdir(parents=True, exist_ok=True)
    points = ('{"update": 25, "train_loss": 5.0, "target_tokens": 9}\n', '{"update": 50, "train_loss": 4.0}\n{"torn')
    (folder / "metrics.jsonl").write_text("".join(points))
    html = page(Run(summary.model_copy(update={"stages": rows}), settings))
    checked(html)
    assert f"The artifact of the stage clean, {'0' * 12}, is no longer in the store." in html
    assert "The stage train did not finish: it was stopped." in html
    assert "loss, nats per target token" in html, "its curves so far"


def test_text_is_no_markup(home: tuple[Settings, RunSummary]) -> None:
    settings, summary = home
    evil = "<script>alert(1)</script> & <b>"
    found = summary.model_copy(update={"description": evil, "error": evil, "status": "failed"})
    html = page(Run(found, settings))
    checked(html)
    assert "&lt;script&gt;alert(1)" in html


def test_an_artifact_of_another_version_costs_one_section(
    home: tuple[Settings, RunSummary], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, summary = home
    whole = Artifact.report

    def without_its_corpora(artifact: Artifact) -> dict[str, Any]:
        return {name: value for name, value in whole(artifact).items() if name != "corpora"}

    monkeypatch.setattr(Artifact, "report", without_its_corpora)
    html = page(Run(summary, settings))
    checked(html)
    assert html.count("This section cannot be shown: KeyError") == 1
    assert "Hardest sentences" in html


def test_what_changed_since_the_last_finished_run_is_said(home: tuple[Settings, RunSummary]) -> None:
    settings, summary = home
    assert "This is the first finished run of this recipe here." in page(Run(summary, settings))
    config = {**summary.config, "search": {**summary.config["search"], "beam_size": 3}, "name": "was called so"}
    hour = timedelta(hours=1)
    for number, status in enumerate(("finished", "finished", "failed"), start=1):
        other = {"run_id": f"run{number}", "status": status, "started": summary.started + (number - 3) * hour}
        summary.model_copy(update=other | {"config": config if number == 2 else {}}).write(settings.runs)
    found = Run(summary, settings)
    assert found.previous and found.previous.run_id == "run2", "the last one that finished, and not one that came later"
    html = page(found)
    checked(html)
    row = (
        'search.beam_size</td><td class="number" data-column="Before">3</td><td class="number" data-column="Now">1</td>'
    )
    assert row in html
    same = page(Run(summary.model_copy(update={"config": config}), settings))
    assert "None since the run run2" in same


def test_a_run_that_servers_show_has_links_to_their_pages(home: tuple[Settings, RunSummary]) -> None:
    settings, summary = home
    pages = {"Prefect": "http://127.0.0.1:4200/runs/flow-run/1", "MLflow": "http://127.0.0.1:5000/#/experiments/1"}
    html = page(Run(summary.model_copy(update={"pages": pages}), settings))
    for server, address in pages.items():
        assert f'<a href="{address}">{server}</a>' in html
    assert "This run in" not in page(Run(summary, settings))


def test_a_reader_finds_any_sentence(home: tuple[Settings, RunSummary]) -> None:
    settings, summary = home
    html = page(Run(summary, settings))
    assert re.search(r"Search in all \d+ sentences", html) and '<input type="search"' in html


def test_each_pair_of_languages_shows_its_hardest_sentences(home: tuple[Settings, RunSummary], tmp_path: Path) -> None:
    settings, summary = home
    assert "Hardest sentences of" not in page(Run(summary, settings)), "there is one test set"
    settings = Settings.load({"NMT_HOME": str(shutil.copytree(settings.home, tmp_path / "home"))})
    many = summary.model_copy(deep=True)
    many.config["languages"]["pairs"] = ["en-ko", "ko-en"]
    artifact = Run(many, settings).artifact("evaluate")
    assert artifact is not None
    report = artifact.report()
    [main] = {score["test_set"] for score in report["scores"]}
    report["scores"] += [score | {"test_set": "other"} for score in report["scores"]]
    (artifact.path / REPORT).write_text(json.dumps(report))
    rows = read_sentences(artifact.path, main)
    assert rows is not None
    rows = rows.with_columns(source=pl.lit("sentence ") + pl.int_range(rows.height).cast(pl.String))
    rows.write_parquet(artifact.path / "other.sentences.parquet")
    content = json.loads((artifact.path / MANIFEST).read_text())
    (artifact.path / MANIFEST).unlink()
    manifest = Manifest.model_validate(content | {"outputs": describe_outputs(artifact.path)})
    (artifact.path / MANIFEST).write_text(manifest.model_dump_json())
    html = page(Run(many, settings))
    checked(html)
    assert f"<h1>{summary.recipe}: en-ko, ko-en</h1>" in html
    section = html.partition("Hardest sentences of other: lowest chrF")[2].partition("</details>")[0]
    hardest = rows.sort("chrf")["source"].head(5)
    assert re.findall(r"sentence \d+", section) == hardest.to_list()


def test_the_recipe_beside_the_page_makes_the_same_artifacts(home: tuple[Settings, RunSummary]) -> None:
    settings, summary = home
    file = write_page(summary, settings).with_name("recipe.yaml")
    again = plan(load_recipe(str(file)), settings.store)
    wanted = {row.name: row.fingerprint for row in summary.stages if row.status == "reused"}
    assert {step.stage.name: step.fingerprint for step in again if step.stage.name in wanted} == wanted
