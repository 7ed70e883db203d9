"""Jobs are compared with the training text and with earlier jobs: in the report, in MLflow and on a page."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient
from prefect.client.orchestration import get_client
from support.facts import raises

from flows.cli.translate import run_translation
from flows.registry.shadows import keep_result, read_results
from flows.settings import Settings
from flows.translate import translate
from flows.translation.job import EXPERIMENT, translate_job
from flows.translation.pipe import translate_pipe
from flows.translation.request import PIPE, TranslationRequest
from flows.translation.watching import (
    _EARLIER_JOBS,
    DRIFTED,
    Watched,
    _files,
    _folder_of,
    _keep,
    earlier_jobs,
    model_resource,
)
from nmt_core.bundle.folder import sha256_of
from nmt_core.corpus.toy import generate
from nmt_core.drift.profile import Profile, profile_of
from nmt_core.drift.training import PROFILE_FILE
from nmt_core.errors import ConfigError
from nmt_core.jobs.folder import Done
from nmt_core.spelling import Spelling
from nmt_core.tokenizer.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return [pair[0] for pair in generate(pairs=2_000, seed=1, held_out=10).train]


@pytest.fixture
def bundle(tiny_bundle: Path, tiny_tokenizer: Tokenizer, lines: list[str], tmp_path: Path) -> Path:
    """Bundle with the profile of a training text."""
    folder = tmp_path / "bundle"
    shutil.copytree(tiny_bundle, folder)
    profile = profile_of(lines[:1_000], tiny_tokenizer, Spelling(language="en"))
    (folder / PROFILE_FILE).write_text(profile.model_dump_json())
    config = json.loads((folder / "config.json").read_text())
    config["sha256"][PROFILE_FILE] = sha256_of(folder / PROFILE_FILE)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def run(model: Path, text: list[str], target: Path, settings: Settings, **options: Any) -> dict[str, Any]:
    source = target.with_name(f"source-{target.name}.txt")
    if not source.exists():  # written again, it would be another input
        source.write_text("".join(f"{line}\n" for line in text))
    wanted = TranslationRequest(str(model), str(source), str(target), beam_size=1, **options)
    return translate_job(wanted, settings, lambda done, total, note: None, pytest.fail)


@pytest.mark.cpu(30)
def test_text_of_another_kind_is_reported_everywhere(
    bundle: Path, lines: list[str], settings: Settings, tmp_path: Path
) -> None:
    same = run(bundle, lines[1_000:1_200], tmp_path / "same.jsonl", settings)
    assert same["watched"] == "the text is like the training text" and same["drifts"] is False
    shouted = [line.upper() for line in lines[1_200:1_400]]
    other = run(bundle, shouted, tmp_path / "other.jsonl", settings)
    assert other["drifts"] is True
    assert "the text differs from the training text: " in other["watched"]
    assert "the text differs from the earlier jobs: " in other["watched"], "the first job is the earlier one"
    assert {row["against"] for row in other["drift"]} == {"training text", "earlier jobs"}
    drifting = {row["measure"] for row in other["drift"] if row["drifts"] and row["against"] == "training text"}
    assert {"upper_case", "characters_per_token"} <= drifting
    page = (tmp_path / "other.jsonl.job" / "drift.html").read_text()
    assert "Compared with the training text" in page and "<svg" in page and "http" not in page.replace("http-equiv", "")
    assert not [line for line in shouted if line in page], "no text is on the page"
    client = MlflowClient(settings.mlflow_tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    [logged] = client.search_runs([experiment.experiment_id], "attributes.run_name = 'other.jsonl'")
    assert {"drift.html", "drift.json", "profile.json"} <= {
        one.path for one in client.list_artifacts(logged.info.run_id)
    }
    assert json.loads(logged.data.tags["mlflow.loggedArtifacts"]) == [{"path": "drift.json", "type": "table"}]
    table = json.loads(Path(client.download_artifacts(logged.info.run_id, "drift.json", str(tmp_path))).read_text())
    assert [dict(zip(table["columns"], row, strict=True)) for row in table["data"]] == other["drift"]
    again = run(bundle, shouted, tmp_path / "other.jsonl", settings)
    assert again["reused"] and "watched" not in again, "a job that was done before is not compared again"


def test_a_model_without_a_profile_says_so_in_one_line(
    tiny_bundle: Path, lines: list[str], settings: Settings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines[:20]))
    run_translation(TranslationRequest(str(tiny_bundle), str(tmp_path / "in.txt"), str(tmp_path / "out.txt")))
    said = capfd.readouterr().err
    assert "not compared with the training text, because the model has no profile of it: export it again" in said


@pytest.mark.cpu(25)
def test_a_challenger_is_in_the_report_and_kept_for_the_gate(
    bundle: Path, other_bundle: Path, lines: list[str], settings: Settings, tmp_path: Path
) -> None:
    options = {"shadow": str(other_bundle), "share": 0.5, "review": 5}
    report = run(bundle, lines[:60], tmp_path / "out.jsonl", settings, **options)
    alone = run(bundle, lines[:60], tmp_path / "alone.jsonl", settings)
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "alone.jsonl").read_bytes() and "shadow" not in alone
    assert report["shadow"]["problem"] == "" and 15 < report["shadow"]["lines"] < 45
    assert report["review"] == len((tmp_path / "out.jsonl.review.csv").read_text().splitlines()) - 1
    [kept] = read_results(settings, sha256_of(other_bundle / "config.json"))
    assert kept.lines == report["shadow"]["lines"]
    assert read_results(settings, "0" * 64) == []


def test_wrong_values_are_refused_before_anything_is_read(
    tiny_bundle: Path, lines: list[str], settings: Settings, tmp_path: Path
) -> None:
    with raises(ConfigError, "--share 1.5", "at most 1"):
        run(tiny_bundle, lines[:2], tmp_path / "out.txt", settings, share=1.5)
    with raises(ConfigError, "--review -1"):
        run(tiny_bundle, lines[:2], tmp_path / "out.txt", settings, review=-1)
    with raises(ConfigError, "--review 5", "--input and --output"):
        translate_pipe(TranslationRequest(str(tiny_bundle), PIPE, PIPE, review=5), settings)


def test_a_bounded_number_of_earlier_jobs_is_kept_and_other_versions_count_by_their_text(tmp_path: Path) -> None:
    own = Profile(lines=5, histograms={"characters": {3: 5}, "score": {9: 5}}, categories={"status": {"ok": 5}})
    for number in range(_EARLIER_JOBS + 5):
        _keep(tmp_path, f"{number}.json", Watched(model="m", version=str(number % 2), profile=own))
    assert len(_files(tmp_path)) == _EARLIER_JOBS
    earlier = earlier_jobs(tmp_path, "1", "24.json")
    assert earlier.lines == 5 * (_EARLIER_JOBS - 1), "the job itself is left out"
    assert earlier.counts("score").sum() == 50 and earlier.categories == {"status": {"ok": 50}}
    _keep(tmp_path, "24.json", Watched(model="m", version="0", profile=own))
    assert len(_files(tmp_path)) == _EARLIER_JOBS, "a job that is done again replaces itself"
    (tmp_path / "9-broken.json").write_text("{")
    assert earlier_jobs(tmp_path, "1", "").lines == 5 * _EARLIER_JOBS


def test_models_of_any_name_have_a_folder_of_their_own(settings: Settings) -> None:
    folders = {_folder_of(settings, model, "") for model in ("a", "b", "/a/path", "../a")}
    folders |= {_folder_of(settings, "a", pair) for pair in ("en-de", "de-en")}
    assert len(folders) == 6 and all(folder.parent == settings.home / "translated" for folder in folders)


def test_a_job_without_a_challenger_keeps_no_result(settings: Settings) -> None:
    done = Done(fingerprint="0" * 32, number=1, model="m", model_version="1", statuses={}, outputs=())
    assert keep_result(settings, done) == "" and not (settings.home / "shadows" / ("0" * 64)).exists()


@pytest.mark.cpu(25)
def test_a_flow_sends_an_event_about_drift(
    bundle: Path, lines: list[str], settings: Settings, tmp_path: Path, prefect_api: str
) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{line.upper()}\n" for line in lines[:200]))
    report = translate(str(bundle), str(tmp_path / "in.txt"), str(tmp_path / "out.txt"), beam_size=1)
    assert report["drifts"]
    with get_client(sync_client=True) as client:
        about = {"event": {"name": [DRIFTED]}}
        page = client.request("POST", "/events/filter", json={"filter": about, "limit": 5}).json()
    [event] = page["events"]
    assert event["resource"]["prefect.resource.id"] == model_resource(str(bundle))
    assert event["payload"]["lines"] == 200 and event["payload"]["watched"] == report["watched"]
    measures = {(row["against"], row["measure"]) for row in event["payload"]["measures"]}
    assert ("training text", "upper_case") in measures
    assert measures == {(row["against"], row["measure"]) for row in report["drift"] if row["drifts"]}
