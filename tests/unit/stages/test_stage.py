"""The stage runner: reuse, reruns, two processes at once, and the remains of a crash."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.until import patient, until

from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.stages.stage import Job, Outcome, Resources, SilentReporter, Stage, restrict, run_stage
from nmt_core.store.artifacts import MANIFEST, Artifact, Store, fingerprint_of

HERE = Path(__file__).parents[1]
FIRST = Stage("first", 1, ("split",), (), "small_stages:first")
SECOND = Stage("second", 1, ("encode",), ("first",), "small_stages:second")
LOOKS = Stage("looks", 1, ("split",), (), "small_stages:looks_around")
FAILS = Stage("fails", 1, ("split",), (), "small_stages:fails_once")
WAITS = Stage("waiting", 1, ("split",), (), "small_stages:waits")
SMALL: dict[str, Any] = {"name": "small", "corpus": {"toy": {}}}

Run = Callable[..., list[Outcome]]


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File that lists the stage functions that really ran."""
    monkeypatch.syspath_prepend(HERE)
    file = tmp_path / "journal"
    monkeypatch.setenv("SMALL_STAGES_JOURNAL", str(file))
    return file


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def run(store: Store, job: Job) -> Run:
    """Run a table of stages in order, each from the stages before it, with changes to the configuration by section."""

    def run_table(*table: Stage, force: bool = False, **sections: dict[str, Any]) -> list[Outcome]:
        config = PipelineConfig.model_validate(SMALL | sections)
        made: dict[str, Artifact] = {}
        outcomes = []
        for stage in table:
            inputs = {name: made[name] for name in stage.needs}
            outcomes.append(run_stage(stage, config, store, inputs, job, force=force))
            made[stage.name] = outcomes[-1].artifact
        return outcomes

    return run_table


def ran(journal: Path) -> list[str]:
    return journal.read_text().split() if journal.exists() else []


def partials(store: Store) -> list[Path]:
    return list(store.root.glob("*/*.partial"))


def test_a_second_run_reuses_everything(run: Run, journal: Path) -> None:
    first = run(FIRST, SECOND)
    second = run(FIRST, SECOND)
    assert [outcome.reused for outcome in first] == [False, False]
    assert [outcome.reused for outcome in second] == [True, True]
    assert [outcome.artifact for outcome in first] == [outcome.artifact for outcome in second]
    assert ran(journal) == ["first", "second"]


def test_an_option_reruns_its_stage_and_what_follows(run: Run, journal: Path) -> None:
    run(FIRST, SECOND)
    run(FIRST, SECOND, encode={"max_length": 100})
    assert ran(journal) == ["first", "second", "second"]
    changed = run(FIRST, SECOND, split={"seed": 9})
    assert ran(journal) == ["first", "second", "second", "first", "second"]
    assert (changed[1].artifact.path / "sum.txt").read_text() == f"{9 + 256}"


def test_a_damaged_artifact_is_made_anew_with_a_warning(run: Run, journal: Path, reporter: Any) -> None:
    first, second = run(FIRST, SECOND)
    number = first.artifact.path / "deep" / "number.txt"
    content = number.read_text()
    number.write_text(content[:-1] + chr(ord(content[-1]) ^ 1))  # one bit, and the size is the same
    again = run(FIRST, SECOND)
    assert [outcome.reused for outcome in again] == [False, True]
    assert number.read_text() == content
    assert again[1].artifact == second.artifact
    assert ran(journal) == ["first", "second", "first"]
    (warning,) = [line for line in reporter.lines if line.startswith("WARNING")]
    assert f"{number} does not match its sha256 in the manifest" in warning and "first is made again" in warning
    assert all(outcome.reused for outcome in run(FIRST, SECOND))


@pytest.mark.parametrize("text", ["", "{}"])
def test_an_artifact_with_a_damaged_manifest_is_made_anew(run: Run, journal: Path, reporter: Any, text: str) -> None:
    first, _ = run(FIRST, SECOND)
    (first.artifact.path / MANIFEST).write_text(text)
    assert [outcome.reused for outcome in run(FIRST, SECOND)] == [False, True]
    assert len([line for line in reporter.lines if "is damaged and not used" in line]) == 1


def test_options_of_other_sections_change_nothing(run: Run, journal: Path) -> None:
    run(FIRST, SECOND)
    outcomes = run(FIRST, SECOND, train={"seed": 5}, search={"beam_size": 1}, languages={"target": "de"})
    assert all(outcome.reused for outcome in outcomes)


def test_a_version_reruns_its_stage_and_what_follows(run: Run, journal: Path) -> None:
    run(FIRST, SECOND)
    run(FIRST, replace(SECOND, version=2))
    assert ran(journal) == ["first", "second", "second"]
    run(replace(FIRST, version=2), SECOND)
    assert ran(journal) == ["first", "second", "second", "first", "second"]


def test_a_comment_in_the_code_reruns_nothing(
    run: Run, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(FIRST, SECOND)
    (tmp_path / "commented_stages.py").write_text("# a comment\n" + (HERE / "small_stages.py").read_text())
    monkeypatch.syspath_prepend(tmp_path)
    commented = [replace(stage, run=stage.run.replace("small", "commented")) for stage in (FIRST, SECOND)]
    assert commented[0].load().__module__ == "commented_stages"
    assert all(outcome.reused for outcome in run(*commented))


def test_an_undeclared_section_cannot_be_read(run: Run) -> None:
    with pytest.raises(AttributeError, match="train"):
        run(Stage("peeks", 1, ("split",), (), "small_stages:reads_undeclared"))
    run(Stage("peeks", 1, ("split", "train"), (), "small_stages:reads_undeclared"))


def test_restricting_leaves_the_configuration_as_it_was() -> None:
    config = PipelineConfig.model_validate(SMALL)
    restricted = restrict(config, ["train"])
    assert restricted.train == config.train
    assert config.model_dump()["model"]
    with pytest.raises(AttributeError):
        _ = restricted.model


def test_the_manifest_tells_how_the_artifact_was_made(run: Run) -> None:
    first, second = run(FIRST, SECOND)
    manifest = second.artifact.manifest()
    assert manifest.inputs == {"first": first.artifact.fingerprint}
    assert manifest.identity["config"] == {"encode": PipelineConfig.model_validate(SMALL).encode.model_dump()}
    assert (manifest.stage, manifest.recipe, manifest.identity["version"]) == ("second", "small", 1)
    assert {"python", "torch", "nmt-pipeline"} <= set(manifest.versions)
    assert set(first.artifact.manifest().outputs) == {"deep/number.txt", "report.json"}
    assert second.artifact.report()["unit"] == "numbers"


def test_an_artifact_appears_all_at_once(run: Run, store: Store) -> None:
    (outcome,) = run(LOOKS)
    assert (outcome.artifact.path / "seen.txt").read_text() == "True False"
    assert not partials(store)


def test_a_failed_stage_leaves_nothing_behind(run: Run, store: Store, journal: Path) -> None:
    with pytest.raises(StageError, match="not today"):
        run(FAILS)
    assert list(store.published()) == []
    assert not partials(store)
    with pytest.raises(StageError, match="not today"):
        run(FAILS)
    assert ran(journal) == ["started", "started"]


def test_a_failed_stage_that_can_resume_resumes(run: Run, store: Store, journal: Path) -> None:
    resumable = replace(FAILS, resumable=True)
    with pytest.raises(StageError, match="not today"):
        run(resumable)
    assert list(store.published()) == []
    assert len(partials(store)) == 1
    run(resumable)
    assert ran(journal) == ["started", "resumed"]
    assert not partials(store)


@pytest.mark.parametrize("damage", ["removed", "truncated", "no manifest"])
def test_a_damaged_artifact_is_made_again(run: Run, journal: Path, damage: str) -> None:
    (made,) = run(FIRST)
    file = made.artifact.path / "deep" / "number.txt"
    if damage == "removed":
        file.unlink()
    elif damage == "truncated":
        file.write_text("")
    else:
        (made.artifact.path / "manifest.json").unlink()
    (again,) = run(FIRST)
    assert not again.reused
    assert again.artifact == made.artifact
    assert file.read_text() == "1"
    assert run(FIRST)[0].reused


def test_a_forced_rerun_replaces_the_artifact(run: Run, store: Store, journal: Path) -> None:
    (made,) = run(FIRST)
    (made.artifact.path / "deep" / "number.txt").write_text("7")
    (again,) = run(FIRST, force=True)
    assert not again.reused
    assert (again.artifact.path / "deep" / "number.txt").read_text() == "1"
    assert list(store.published()) == [made.artifact]
    assert not partials(store)


@pytest.mark.parametrize("function", ["fills_the_disk", "fills_the_disk_with_polars"])
def test_a_full_disk_is_told_with_the_remedy(run: Run, store: Store, function: str) -> None:
    with pytest.raises(StageError) as caught:
        run(FIRST, Stage("fills", 1, ("split",), (), f"small_stages:{function}"))
    message = str(caught.value)
    assert "stage fills: the disk of" in message
    assert str(store.root) in message
    assert "nmt artifacts gc" in message
    assert [artifact.stage for artifact in store.published()] == ["first"]
    assert not partials(store)


# A stage that learns what decides its artifact

LEARNS = Stage("learns", 1, ("split",), (), "learning_stage:run", identity="learning_stage:identity")
LEARNING_STAGE = """
import os, time
from pathlib import Path
from nmt_core.stages.stage import StageReport

HERE = Path(os.environ["SMALL_STAGES_JOURNAL"])
NOTE = HERE.with_name("note")

def identity(config):
    return {"note": NOTE.read_text() if NOTE.exists() else "nothing"}

def run(config, inputs, out, job):
    with HERE.open("a") as journal:
        journal.write("learns\\n")
    while not HERE.with_name("go").exists():
        time.sleep(0.01)
    NOTE.write_text("something")
    (out / "made").write_text("")
    return StageReport(items_in=1, items_out=1, unit="things")
"""


@pytest.fixture
def learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "learning_stage.py").write_text(LEARNING_STAGE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "learning_stage", raising=False)


def test_what_a_run_learns_is_in_the_fingerprint_that_the_next_run_looks_for(
    run: Run, store: Store, journal: Path, learning: None
) -> None:
    journal.with_name("go").touch()
    (made,) = run(LEARNS)
    assert made.artifact.manifest().identity["config"] == {"note": "something"}
    assert made.artifact.fingerprint == fingerprint_of(made.artifact.manifest().identity)
    (again,) = run(LEARNS)
    assert again.reused
    assert list(store.published()) == [made.artifact]
    assert not partials(store)


def test_a_waiting_stage_finds_what_was_learnt_meanwhile(store: Store, journal: Path, learning: None) -> None:
    config = PipelineConfig.model_validate(SMALL)

    class Releasing(SilentReporter):
        """Reporter that releases the other thread as soon as this one waits for it."""

        def log(self, message: str) -> None:
            journal.with_name("go").touch()

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(run_stage, LEARNS, config, store, {}, Job(SilentReporter(), Resources()))
        until(lambda: ran(journal))
        second = run_stage(LEARNS, config, store, {}, Job(Releasing(), Resources()))
    assert second.reused
    assert second.artifact == first.result().artifact
    assert ran(journal) == ["learns"]


# Real processes


@pytest.fixture
def start(store: Store, journal: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start processes that all run the stage `waiting`."""
    processes: list[subprocess.Popen[str]] = []

    def start_one(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "small_stages.py"), str(store.root), *words],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(HERE)},
        )
        processes.append(process)
        return process

    yield start_one
    for process in processes:
        process.kill()
        process.communicate()


def test_of_two_processes_one_works_and_the_other_reuses(
    start: Callable[..., subprocess.Popen[str]], journal: Path, store: Store
) -> None:
    processes = [start(), start()]
    until(lambda: ran(journal) and journal.with_name("told").exists())
    assert ran(journal) == ["waits"]
    journal.with_name("go").touch()
    answers = [process.communicate(timeout=patient(60))[0].strip() for process in processes]
    assert sorted(answers) == ["made", "reused"]
    assert ran(journal) == ["waits"]
    assert len(list(store.published())) == 1


def test_a_waiting_stage_reports_it(start: Callable[..., subprocess.Popen[str]], journal: Path, store: Store) -> None:
    messages: list[str] = []

    class Releasing(SilentReporter):
        """Reporter that releases the other process as soon as this one reports that it waits for it."""

        def log(self, message: str) -> None:
            messages.append(message)
            journal.with_name("go").touch()

    start()
    until(lambda: ran(journal))
    outcome = run_stage(WAITS, PipelineConfig.model_validate(SMALL), store, {}, Job(Releasing(), Resources()))
    assert outcome.reused
    assert messages == ["another process is making waiting: waiting"]


@pytest.mark.parametrize("words", [(), ("resumable",)])
def test_after_kill_9_the_stage_is_run_again(
    start: Callable[..., subprocess.Popen[str]], journal: Path, store: Store, run: Run, words: tuple[str, ...]
) -> None:
    victim = start(*words)
    until(lambda: partials(store) and list(partials(store)[0].iterdir()))
    victim.kill()
    victim.wait()
    assert list(store.published()) == []
    assert len(partials(store)) == 1
    journal.with_name("go").touch()
    (outcome,) = run(replace(WAITS, resumable=bool(words)))
    assert not outcome.reused
    assert outcome.artifact.damage(thorough=True) is None
    assert not partials(store)
