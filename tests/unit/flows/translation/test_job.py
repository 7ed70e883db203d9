"""`nmt translate` of files: a job whose totals are in MLflow, with a model whose version is looked up once."""

import io
import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import mlflow
import pytest
from mlflow.tracking import MlflowClient
from support.facts import raises
from support.judges import CountedJudge

from flows.cli.translate import run_translation
from flows.registry.models import model_of
from flows.settings import Settings
from flows.translation.job import EXPERIMENT, translate_job, workers_of
from flows.translation.pipe import translate_pipe
from flows.translation.request import PIPE, TranslationRequest
from flows.translation.targets import require_writable
from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError, DataError, ModelError, StageError
from nmt_core.jobs.checks import FAULTS
from nmt_core.jobs.folder import JobFolder
from nmt_core.judges.lines import ProgramError
from nmt_core.search import onnx_session
from nmt_core.store import storage


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_bytes("the cat sees a dog.\n\n\xff\nnow\n".encode("latin-1"))
    return tmp_path / "in.txt"


def run(wanted: TranslationRequest, settings: Settings) -> dict[str, Any]:
    return translate_job(wanted, settings, lambda done, total, note: None, pytest.fail)


def test_the_totals_of_a_job_are_in_mlflow(tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path) -> None:
    report = run(TranslationRequest(str(tiny_bundle), str(source), str(tmp_path / "out.txt"), beam_size=1), settings)
    assert report["lines"] == 4 and report["by_status"]["empty"] == 1 and report["by_status"]["invalid_utf8"] == 1
    client = MlflowClient(settings.mlflow_tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    [logged] = client.search_runs([experiment.experiment_id], "attributes.run_name = 'out.txt'")
    assert logged.info.status == "FINISHED"
    assert logged.data.metrics["by_status.invalid_utf8"] == 1 and logged.data.metrics["lines"] == 4
    assert logged.data.metrics["lines_per_second"] > 0
    assert logged.data.params["model_version"] == report["model_version"]
    again = run(TranslationRequest(str(tiny_bundle), str(source), str(tmp_path / "out.txt"), beam_size=1), settings)
    assert again["reused"] and again["by_status"] == report["by_status"]


def test_a_document_gets_the_languages_of_the_model_and_alignments(
    tiny_bundle: Path, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "in.tmx").write_text("<tmx><tu><tuv lang='en'><seg>the <hi>cat</hi> sees</seg></tuv></tu></tmx>")
    wanted = TranslationRequest(str(tiny_bundle), str(tmp_path / "in.tmx"), str(tmp_path / "out.tmx"), beam_size=1)
    assert run(wanted, settings)["lines"] == 1
    assert '<tuv lang="ko"><seg>' in (tmp_path / "out.tmx").read_text()
    plan = json.loads((tmp_path / "out.tmx.job" / "plan.json").read_text())["order"]
    assert plan["search"]["alignments"] == "words"
    assert plan["documents"]["target_language"] == "ko" and plan["documents"]["source_language"] == "en"
    assert run(wanted, settings)["reused"]
    none = replace(wanted, alignments="none", target=str(tmp_path / "none.tmx"), for_review=True, redo="all")
    run(none, settings)
    plan = json.loads((tmp_path / "none.tmx.job" / "plan.json").read_text())["order"]
    assert plan["search"]["alignments"] == "none" and plan["documents"]["redo"] == "all"


def test_options_for_documents_are_checked(tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path) -> None:
    wanted = TranslationRequest(str(tiny_bundle), str(source), str(tmp_path / "out.txt"))
    with raises(ConfigError, "--redo both", "none, fuzzy or all"):
        run(replace(wanted, redo="both"), settings)
    with raises(ConfigError, "--for-review", str(source), "not a document"):
        run(replace(wanted, for_review=True), settings)
    with raises(ConfigError, "--output out.po", "--input"):
        translate_pipe(replace(wanted, source=PIPE, target="out.po"), settings)
    with raises(ConfigError, "--input in.docx", "--output"):
        translate_pipe(replace(wanted, source="in.docx", target=PIPE), settings)


@pytest.fixture
def registered(tiny_bundle: Path, settings: Settings, tmp_path: Path) -> MlflowClient:
    """Two equal versions of a model, of which the first is the champion."""
    shutil.copytree(tiny_bundle, tmp_path / "model" / "artifacts" / "bundle")
    (tmp_path / "model" / "MLmodel").write_text("flavors: {}\n")
    client = MlflowClient(settings.mlflow_tracking_uri)
    name = tmp_path.name
    client.create_registered_model(name)
    for _ in range(2):
        client.create_model_version(name, (tmp_path / "model").as_uri())
    client.set_registered_model_alias(name, "champion", "1")
    return client


@pytest.mark.parametrize("step", ["stage", "translate_chunk"])
def test_an_alias_is_looked_up_once_for_a_job(
    step: str, registered: MlflowClient, source: Path, settings: Settings, tmp_path: Path
) -> None:
    champion, target = f"models:/{tmp_path.name}@champion", str(tmp_path / "out.txt")
    wanted = TranslationRequest(champion, str(source), target)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(f"nmt_core.jobs.run.{step}", interrupt)
        run(wanted, settings)
    registered.set_registered_model_alias(tmp_path.name, "champion", "2")
    with pytest.raises(StageError, match=rf"model: {tmp_path.name} version 1, now {tmp_path.name} version 2"):
        run(TranslationRequest(f"models:/{tmp_path.name}/2", str(source), target), settings)
    assert run(wanted, settings)["model_version"] == "1"
    assert run(wanted, settings)["model_version"] == "2", "the next job begins anew"
    plan = JobFolder(f"{target}.job").plan()
    assert plan and plan.asked == champion


def test_the_latest_version_is_looked_up_once_for_a_job(
    registered: MlflowClient, source: Path, settings: Settings, tmp_path: Path
) -> None:
    wanted = TranslationRequest(f"models:/{tmp_path.name}/latest", str(source), str(tmp_path / "out.txt"))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("nmt_core.jobs.run.translate_chunk", interrupt)
        run(wanted, settings)
    registered.create_model_version(tmp_path.name, (tmp_path / "model").as_uri())
    assert run(wanted, settings)["model_version"] == "2"
    assert run(wanted, settings)["model_version"] == "3", "the next job begins anew"


def test_a_stage_of_the_registry_is_refused(registered: MlflowClient, settings: Settings, tmp_path: Path) -> None:
    stage = f"models:/{tmp_path.name}/Production"
    with pytest.raises(
        ModelError, match=f"Production is not a version .*: give a number, models:/{tmp_path.name}/latest"
    ):
        model_of(stage, settings).__enter__()


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_command_says_how_it_went(
    tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_translation(TranslationRequest(str(tiny_bundle), str(source), str(tmp_path / "out.tsv"), long_lines="cut"))
    said = capfd.readouterr()
    assert said.out == ""
    assert "out.tsv: 4 lines by" in said.err and "lines/s" in said.err
    assert "1 of 4 lines: invalid_utf8" in said.err and "1 of 4 lines: empty" in said.err
    assert len((tmp_path / "out.tsv").read_text().splitlines()) == 5


class Typed(io.BytesIO):
    """A standard stream."""

    def __init__(self, content: bytes = b"", *, is_tty: bool = False) -> None:
        super().__init__(content)
        self.is_tty = is_tty
        self.buffer = self

    def isatty(self) -> bool:
        return self.is_tty


@pytest.mark.parametrize("is_tty", [False, True])
def test_a_pipe_gives_a_line_for_each_line_without_a_job(
    is_tty: bool, tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out = Typed()
    monkeypatch.setattr(sys, "stdin", Typed(source.read_bytes(), is_tty=is_tty))
    monkeypatch.setattr(sys, "stdout", out)
    run_translation(TranslationRequest(str(tiny_bundle), "-", "-"))
    lines = out.getvalue().split(b"\n")
    assert len(lines) == 5 and lines[0] and lines[3] and not (lines[1] or lines[2] or lines[4])
    said = "Bytes that are not UTF-8 are kept only with an output file: name one with --output."
    assert said in capfd.readouterr().err
    monkeypatch.setattr(sys, "stdin", Typed(source.read_bytes(), is_tty=is_tty))
    run_translation(TranslationRequest(str(tiny_bundle), "-", str(tmp_path / "piped.txt.gz")))
    assert said not in capfd.readouterr().err
    (note,) = (tmp_path / "piped.txt.gz.unreadable.jsonl").read_text().splitlines()
    assert json.loads(note) == {"file": "standard input", "line": 3, "base64": "/w=="}
    monkeypatch.setattr(sys, "stdout", again := Typed())
    run_translation(TranslationRequest(str(tiny_bundle), str(source), "-"))
    assert again.getvalue() == out.getvalue()
    monkeypatch.setattr(sys, "stdin", Typed(b"now\n"))
    run_translation(TranslationRequest(str(tiny_bundle), "-", str(tmp_path / "piped.txt.gz")))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.txt", "piped.txt.gz"]


WRONG = [
    ({"target": "nowhere/out.txt"}, DataError, "cannot be written because folder .*nowhere does not exist: create it"),
    ({"target": "."}, DataError, "is a folder, but the input is one file: give a file"),
    ({"source": "nowhere.txt"}, DataError, "nowhere.txt: there is no such file"),
    ({"beam_size": 65}, ConfigError, "--beam 65: must be from 1 to 64"),
    ({"overrides": ("search.n_bets=2",)}, ConfigError, "search.n_bets is not a key: did you mean 'n_best'"),
    ({"overrides": ("search.n_best=5",)}, ConfigError, "search n_best=5 is more than beam_size=4: raise beam_size"),
    ({"overrides": ("search.top_p=2",)}, ConfigError, "search.top_p=2: must be at most 1"),
    ({"overrides": ("train.seed=2",)}, ConfigError, "--set train.seed=2: only the search of a finished model"),
    ({"overrides": ("search.n_best=2",)}, ConfigError, "out.txt: can hold one translation"),
    ({"overrides": ("search.n_best=2",), "target": "-"}, ConfigError, "standard output: can hold one translation"),
    ({"long_lines": "fold"}, ConfigError, "--long-lines fold: must be split or cut"),
    (
        {"model": "models:/nobody/latest"},
        ModelError,
        "model models:/nobody/latest: .*`nmt run RECIPE` registers one",
    ),
    (
        {"model": "models:/nobody@champion"},
        ModelError,
        "model models:/nobody@champion: .*`nmt run RECIPE` registers one",
    ),
    ({"model": "."}, ModelError, "not a bundle, because it has no config.json"),
]


@pytest.mark.parametrize(("change", "kind", "message"), WRONG, ids=[str(change) for change, _, _ in WRONG])
def test_what_is_wrong_is_said_before_anything_is_made(
    change: dict[str, Any], kind: type[Exception], message: str, tiny_bundle: Path, source: Path, settings: Settings,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    wanted = {"model": str(tiny_bundle), "source": "in.txt", "target": "out.txt"} | change
    with pytest.raises(kind, match=message):
        run_translation(TranslationRequest(**wanted))
    assert [file.name for file in tmp_path.iterdir()] == ["in.txt"]


def test_options_of_the_search_may_be_set(tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path) -> None:
    options = ("search.n_best=2", "search.beam_size=5", "search.max_length_offset=20")
    wanted = TranslationRequest(
        str(tiny_bundle), str(source), str(tmp_path / "out.jsonl"), overrides=options, beam_size=3
    )
    assert run(wanted, settings)["lines"] == 4
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {len(row["alternatives"]) for row in rows} == {0, 1}
    plan = JobFolder(str(tmp_path / "out.jsonl.job")).plan()
    assert plan and plan.order.search.beam_size == 5


def test_a_pipe_takes_beginnings_from_a_column(tiny_bundle: Path, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "now", "begin": "small"}\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out := Typed())
        run_translation(TranslationRequest(str(tiny_bundle), str(tmp_path / "in.jsonl"), "-", prefix_column="begin"))
    assert out.getvalue().startswith(b"small")


def test_a_damaged_bundle_is_named_and_nothing_is_made(
    tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path
) -> None:
    bundle, target = tmp_path / "bundle", str(tmp_path / "out.txt")
    shutil.copytree(tiny_bundle, bundle)
    (bundle / "search.json").write_text('{"beam_size": ')
    with pytest.raises(ModelError, match=r"search\.json: whole file is not JSON.*: correct it, or remove it"):
        run(TranslationRequest(str(bundle), str(source), target), settings)
    (bundle / "search.json").unlink()
    (bundle / "fp32/step.onnx").write_bytes(b"")
    with pytest.raises(ModelError, match=r"step\.onnx: .* its sha256 is .* has"):
        run(TranslationRequest(str(bundle), str(source), target), settings)
    assert not Path(target).exists()
    shutil.copyfile(tiny_bundle / "fp32/step.onnx", bundle / "fp32/step.onnx")
    assert run(TranslationRequest(str(bundle), str(source), target), settings)["lines"] == 4, (
        "once repaired, the same command works"
    )


def test_text_output_and_job_may_all_be_in_s3(
    tiny_bundle: Path, source: Path, settings: Settings, s3_folder: str, tmp_path: Path
) -> None:
    storage.write_bytes([source.read_bytes()], f"{s3_folder}/in.txt")
    report = run(TranslationRequest(str(tiny_bundle), f"{s3_folder}/in.txt", f"{s3_folder}/out.tsv"), settings)
    run(TranslationRequest(str(tiny_bundle), str(source), str(tmp_path / "out.tsv")), settings)
    assert report["lines"] == 4 and report["target"] == f"{s3_folder}/out.tsv"
    store, name = storage.store_of(s3_folder)
    assert store.cat_file(f"{name}/out.tsv") == (tmp_path / "out.tsv").read_bytes()
    journal = ["done.json", "drift.html", "plan.json", "profile.json"]
    made = ["in.txt", "out.tsv", *(f"out.tsv.job/{file}" for file in journal), "out.tsv.unreadable.jsonl"]
    assert [key.removeprefix(f"{name}/") for key in store.find(name)] == made


@pytest.mark.parametrize("change", [{"target": "s3://mistyped/out.txt"}, {"job": "s3://mistyped/job"}])
def test_a_bucket_that_is_not_there_is_named_before_anything_is_made(
    change: dict[str, Any], s3: str, tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path
) -> None:
    wanted = {"model": str(tiny_bundle), "source": str(source), "target": str(tmp_path / "out.txt")} | change
    with pytest.raises(DataError, match=r"s3://mistyped/\w+.*: cannot be written \(.*bucket.*\): check the address"):
        run(TranslationRequest(**wanted), settings)
    assert [file.name for file in tmp_path.iterdir()] == ["in.txt"]
    assert fsspec.filesystem("s3", use_listings_cache=False).ls("") == ["bucket"]


def test_a_model_in_the_registry_is_known_by_its_number(
    registered: MlflowClient, settings: Settings, tmp_path: Path
) -> None:
    with model_of(f"models:/{tmp_path.name}@champion", settings) as model:
        assert (model.version.name, model.version.version) == (tmp_path.name, "1")
        assert settings.home in model.folder.parents
    assert not list((settings.home / "copies").iterdir()), "a copy for as long as it is needed"
    assert mlflow.get_tracking_uri()


def test_a_job_keeps_the_precision_with_which_it_began(
    tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path
) -> None:
    """This holds even if the job has not read its text yet: a worker with another device may begin meanwhile."""
    wanted = TranslationRequest(str(tiny_bundle), str(source), str(tmp_path / "out.txt"))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("nmt_core.jobs.run.stage", interrupt)
        run(wanted, settings)
    begun = JobFolder(str(tmp_path / "out.txt.job")).begun()
    assert begun and begun.order.search.precision == "fp32", "the fastest one of the bundle here"
    other = begun.order.model_copy(update={"search": begun.order.search.model_copy(update={"precision": "fp16"})})
    file = tmp_path / "out.txt.job" / "order-1.json"
    file.write_text(begun.model_copy(update={"order": other}).model_dump_json())
    with pytest.raises(ConfigError, match=r"search\.precision=fp16 on cpu: the model has fp32"):
        run(wanted, settings)
    assert not file.exists(), "what cannot be done makes room"


def test_a_job_that_is_done_binds_no_other_to_its_precision(
    tiny_bundle: Path, int8_bundle: Path, source: Path, settings: Settings, tmp_path: Path
) -> None:
    def precision_of(model: Path, *overrides: str) -> tuple[str, bool]:
        report = run(
            TranslationRequest(str(model), str(source), str(tmp_path / "out.txt"), overrides=overrides), settings
        )
        plan = JobFolder(str(tmp_path / "out.txt.job")).plan()
        assert plan
        return plan.order.search.precision, report["reused"]

    assert precision_of(tiny_bundle) == ("fp32", False)
    assert precision_of(int8_bundle) == ("int8", False)
    assert precision_of(int8_bundle) == ("int8", True)
    assert precision_of(tiny_bundle) == ("fp32", False)
    assert precision_of(int8_bundle, "search.precision=fp32") == ("fp32", False)
    assert precision_of(int8_bundle) == ("fp32", True), "what is there is one of those that would do"
    source.write_text("now\n")
    assert precision_of(int8_bundle) == ("int8", False)


@pytest.mark.parametrize(
    ("named", "gone", "lines"),
    [
        ("in/in.txt", ["in.txt"], 4),
        ("in", ["in.txt", "more.txt"], 5),
        ("in", ["in.txt"], 5),
        ("in/*.txt", ["more.txt"], 5),
        ("in/*.txt", ["in.txt", "more.txt"], 5),
    ],
)
def test_a_job_whose_text_has_gone_resumes_from_its_chunks(
    named: str, gone: list[str], lines: int, tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path
) -> None:
    """All of it, or files of it."""
    (tmp_path / "in").mkdir()
    source.rename(tmp_path / "in" / "in.txt")
    (tmp_path / "in" / "more.txt").write_text("now\n")
    wanted = TranslationRequest(str(tiny_bundle), str(tmp_path / named), str(tmp_path / "out.jsonl"))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("nmt_core.jobs.run.translate_chunk", interrupt)
        run(wanted, settings)
    for name in gone:
        (tmp_path / "in" / name).unlink()
    assert run(wanted, settings)["lines"] == lines
    shutil.rmtree(tmp_path / "in")
    with pytest.raises(DataError, match="there is no such file, or nothing in it"):
        run(wanted, settings)


def test_workers_that_begin_at_one_moment_do_not_refuse_each_other(tmp_path: Path) -> None:
    def look(_: int) -> None:
        require_writable(str(tmp_path / "out.txt"))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(look, range(2_000)))
    assert not list(tmp_path.iterdir())


def test_each_gpu_has_a_process_of_its_own(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_session, "best_device", lambda: "cuda")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    two = replace(settings, gpus=("5", "GPU-7d1c"), threads=5)
    with workers_of(two, "fp16") as (workers, threads):
        assert (workers.count, threads) == (2, 2)
        assert sorted(map(str, workers.map(os.getenv, ["CUDA_VISIBLE_DEVICES"] * 2))) == ["5", "GPU-7d1c"]
    for here, precision in ((two, "int8"), (replace(two, gpus=("5",)), "fp16")):
        with workers_of(here, precision) as (workers, threads):
            assert (workers.count, threads) == (1, 5), "threads of this process"


def test_streams_that_cannot_be_used_are_explained(
    tiny_bundle: Path, source: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_pipe = TranslationRequest(str(tiny_bundle), str(source), PIPE, beam_size=1)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        with raises(StageError, "standard output", "has ended"):
            translate_pipe(to_pipe, settings)
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with raises(StageError, "standard output", "full", "--output"):
            translate_pipe(to_pipe, settings)
    monkeypatch.setattr(sys, "stdout", None)
    with raises(DataError, "standard output", "closed", "--output"):
        translate_pipe(to_pipe, settings)
    monkeypatch.setattr(sys, "stdin", None)
    with raises(DataError, "standard input", "closed", "--input"):
        translate_pipe(TranslationRequest(str(tiny_bundle), PIPE, str(source)), settings)
    with raises(ConfigError, "--keep id", "--input and --output"):
        translate_pipe(
            TranslationRequest(str(tiny_bundle), str(source), str(source.with_suffix(".jsonl")), keep=("id",)), settings
        )


def test_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for target, kind in (("/dev/null", "device"), (str(tmp_path / "fifo"), "named pipe")):
        with raises(DataError, target, kind, f"> {target}"):
            require_writable(target)


@pytest.fixture
def glossary(tmp_path: Path) -> Path:
    (tmp_path / "terms.tsv").write_text("en\tko\ncat\t학생\ndog\t中\nnow\t\n")
    return tmp_path / "terms.tsv"


def test_terms_are_counted_in_the_report_and_in_mlflow(
    tiny_bundle: Path, source: Path, glossary: Path, settings: Settings, tmp_path: Path
) -> None:
    wanted = TranslationRequest(str(tiny_bundle), str(source), str(tmp_path / "terms.jsonl"), glossary=str(glossary))
    warnings: list[str] = []
    report = translate_job(wanted, settings, lambda *note: None, warnings.append)
    assert [report[name] for name in ("terms", "terms_kept", "share_of_terms_kept")] == [3, 2, 0.6667]
    assert len(warnings) == 1 and "dog = 中" in warnings[0] and "cannot write the translation" in warnings[0]
    client = MlflowClient(settings.mlflow_tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    [logged] = client.search_runs([experiment.experiment_id], "attributes.run_name = 'terms.jsonl'")
    assert logged.data.metrics["share_of_terms_kept"] == 0.6667
    assert logged.data.params["glossary"] == str(glossary)
    rows = [json.loads(line) for line in (tmp_path / "terms.jsonl").read_text().splitlines()]
    assert "학생" in rows[0]["translation"] and "terms" not in rows[0]
    assert rows[0]["status"] in {"terms_missing", *FAULTS}
    assert "now" in rows[3]["translation"]
    free = TranslationRequest(str(tiny_bundle), str(source), str(tmp_path / "free.jsonl"))
    assert "terms" not in run(free, settings)


def test_terms_of_a_pipe_are_printed(
    tiny_bundle: Path,
    source: Path,
    glossary: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    run_translation(TranslationRequest(str(tiny_bundle), str(source), PIPE, glossary=str(glossary), keep_terms=""))
    out, err = capfd.readouterr()
    assert "학생" in out.splitlines()[0] and len(out.splitlines()) == 4
    assert "terms with their translation: 2 of 3 (66.7%)" in err and "cannot write" in err


def test_a_wrong_glossary_is_answered_before_anything_is_made(
    tiny_bundle: Path, source: Path, glossary: Path, settings: Settings, tmp_path: Path
) -> None:
    wanted = TranslationRequest(
        str(tiny_bundle), str(source), str(tmp_path / "out.txt"), glossary=str(tmp_path / "none.tsv")
    )
    with raises(DataError, "none.tsv", "cannot be read", "check the path of the glossary"):
        run(wanted, settings)
    (tmp_path / "none.tsv").write_text("cat\ta\nCat\tb\n")
    with raises(DataError, "none.tsv, line 2", "'Cat'", "keep one of them"):
        run(wanted, settings)
    with raises(ConfigError, "--inflected-terms", "--glossary"):
        run(replace(wanted, glossary="", inflected_terms=True), settings)
    assert not (tmp_path / "out.txt.job").exists()


def test_a_judge_chooses_if_requests_may_name_programs(
    tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path
) -> None:
    judge = CountedJudge(tmp_path)
    options = judge.options("fails")["judge"]
    overrides = ("search.rerank=judge", f"search.judge={json.dumps(options)}", "search.method=sample")
    target = str(tmp_path / "out.jsonl")
    wanted = TranslationRequest(str(tiny_bundle), str(source), target, overrides=overrides)
    with raises(ProgramError, "search.judge: `", "NMT_ALLOW_CODE forbids"):
        run(wanted, settings)
    with raises(ProgramError, "NMT_ALLOW_CODE forbids"):
        translate_pipe(replace(wanted, target=PIPE), settings)
    assert not judge.runs and not Path(target).exists()
    warnings: list[str] = []
    trusting = replace(settings, allow_code=True)
    report = translate_job(wanted, trusting, lambda done, total, note: None, warnings.append, lambda message: None)
    assert report["not_judged"] == 2 and len(judge.runs) == 1
    (warning,) = [one for one in warnings if "judge" in one]
    assert warning.startswith("2 of 4 lines have the first candidate of the search, because the judge did not choose (")
    assert f"(search.judge by-chance: `{options['command']}`: ended with exit code 1 (out of memory): run it" in warning
    assert warning.endswith("once it works, translate again into another folder with --job")


def test_a_model_that_brings_a_program_is_refused(
    tiny_bundle: Path, source: Path, settings: Settings, tmp_path: Path
) -> None:
    judge = CountedJudge(tmp_path)
    copy = Path(shutil.copytree(tiny_bundle, tmp_path / "evil"))
    search = SearchConfig.model_validate({"beam_size": 2} | judge.options())
    (copy / "search.json").write_text(search.model_dump_json())
    with raises(ModelError, "search.json: names the program", "no model may", "--set search.judge.command"):
        run(TranslationRequest(str(copy), str(source), str(tmp_path / "out.txt")), replace(settings, allow_code=True))
    (copy / "search.json").write_text(search.without_judge.model_dump_json())
    assert run(TranslationRequest(str(copy), str(source), str(tmp_path / "out.txt")), settings)["lines"] == 4
    assert not judge.runs
