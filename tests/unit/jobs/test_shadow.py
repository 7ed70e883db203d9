"""A challenger translates a share of a job's lines beside the champion, and costs nothing else whatever happens."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
from scipy.stats import binomtest

from nmt_core.bundle.folder import sha256_of
from nmt_core.errors import StageError
from nmt_core.jobs import run as run_module
from nmt_core.jobs.order import ModelVersion, Shadow
from nmt_core.jobs.shadow import drawn
from nmt_core.jobs.shadow_result import ShadowResult, sign_test
from nmt_core.jobs.staging import SCHEMA

LINES = ["the cat sees a dog.", "", "a big house 12", "now", "a small house and it runs", "\x00", "to it to it"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "in.jsonl"
    file.write_text(
        "".join(json.dumps({"text": f"{line} {number % 4}"}) + "\n" for number, line in enumerate(LINES * 6))
    )
    return file


def challenger(bundle: Path, job: Any, share: float = 0.5) -> Shadow:
    version = ModelVersion(name="other", version="2", sha256=sha256_of(bundle / "config.json"))
    return Shadow(asked="other", model=version, search=job.search, share=share)


def with_shadow(job: Any, bundle: Path) -> Any:
    return replace(job, means=replace(job.means, shadow=str(bundle)))


def run(job: Any, bundle: Path, source: Path, target: Path, share: float = 0.5) -> ShadowResult:
    outcome = with_shadow(job, bundle).run(source, target, shadow=challenger(bundle, job, share))
    assert outcome.done.shadow
    return outcome.done.shadow


@pytest.mark.cpu(25)
def test_the_output_is_the_same_and_both_models_are_compared(
    job: Any, other_bundle: Path, tiny_bundle: Path, source: Path, tmp_path: Path
) -> None:
    job.run(source, tmp_path / "alone.parquet")
    result = run(job, other_bundle, source, tmp_path / "both.parquet")
    assert (tmp_path / "both.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()
    assert result.problem == "" and 8 < result.lines < 30
    assert sum(result.champion_statuses.values()) == sum(result.challenger_statuses.values()) == result.lines
    champion_bad, challenger_bad = result.bad_lines
    assert challenger_bad - champion_bad == result.challenger_bad_alone - result.champion_bad_alone
    assert result.agreement < 90 and result.identical < result.lines
    assert result.champion_score is not None and result.challenger_score is not None and result.speed
    itself = run(job, tiny_bundle, source, tmp_path / "itself.parquet")
    assert itself.lines == result.lines == itself.identical, "the draw does not depend on the model"
    assert itself.agreement == 100 and itself.champion_statuses == itself.challenger_statuses
    assert itself.p_value == 1 and itself.champion_score == pytest.approx(itself.challenger_score, abs=1e-3)


@pytest.mark.cpu(20)
def test_a_challenger_that_dies_is_named_and_costs_nothing_else(
    job: Any, other_bundle: Path, source: Path, tmp_path: Path
) -> None:
    job.run(source, tmp_path / "alone.jsonl")
    order = challenger(other_bundle, job)
    missing = with_shadow(job, tmp_path / "nowhere")
    outcome = missing.run(source, tmp_path / "out.jsonl", shadow=order)
    assert outcome.done.lines == 42 and outcome.done.shadow
    assert "nowhere" in outcome.done.shadow.problem
    assert outcome.done.shadow.in_words().startswith("shadow other version 2: not compared")
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "alone.jsonl").read_bytes()


@pytest.mark.cpu(25)
def test_a_challenger_that_is_killed_each_time_is_named_and_costs_nothing_else(
    job: Any, other_bundle: Path, source: Path, tmp_path: Path
) -> None:
    job.run(source, tmp_path / "alone.jsonl")
    with killed_when_seen() as killed:
        result = run(job, other_bundle, source, tmp_path / "out.jsonl")
    assert len(killed) > 1, "a worker that dies is replaced before the challenger is given up"
    assert "killed by SIGKILL" in result.problem and result.lines == 0
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "alone.jsonl").read_bytes()


@contextmanager
def killed_when_seen() -> Iterator[list[int]]:
    """Kill each worker that this process starts in the block. Yield the list of their numbers."""
    this, killed, over = psutil.Process(), list[int](), threading.Event()
    others = {child.pid for child in this.children(recursive=True)}

    def kill() -> None:
        while not over.wait(0.01):
            for child in this.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if child.pid not in others and "nmt_core.execution.child " in " ".join(child.cmdline()):
                        others.add(child.pid)
                        child.kill()
                        killed.append(child.pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        over.set()
        killer.join()


def test_a_job_that_was_stopped_after_its_output_ends_with_the_same_comparison(
    job: Any, other_bundle: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = run(job, other_bundle, source, tmp_path / "out.jsonl")
    before = (tmp_path / "out.jsonl").read_bytes()
    begun = with_shadow(job, other_bundle)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run_module, "run_shadow", interrupt)
        begun.run(source, tmp_path / "again.jsonl", shadow=challenger(other_bundle, job))
    assert (tmp_path / "again.jsonl").read_bytes() == before, "the output does not wait for the challenger"
    with pytest.raises(StageError, match=r"shadow: other version 2, share 0\.5, now none"):
        job.run(source, tmp_path / "again.jsonl")
    resumed = run(job, other_bundle, source, tmp_path / "again.jsonl")
    assert resumed.model_copy(update={"speed": None}) == undisturbed.model_copy(update={"speed": None})


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_lines_are_drawn_by_chunk_and_never_without_text() -> None:
    cells = [("word", None, None, "", "")] * 2_000 + [(" ", None, None, "", ""), ("?", "invalid_utf8", b"\xff", "", "")]
    rows = pl.DataFrame(cells, schema=SCHEMA, orient="row")
    places = drawn(rows, 0, 0.05)
    assert places == drawn(rows, 0, 0.05) != drawn(rows, 1, 0.05)
    assert 60 < len(places) < 140
    assert drawn(rows, 0, 1.0) == list(range(2_000))


def test_the_sign_test_is_exact() -> None:
    for one, other in ((0, 0), (3, 9), (20, 20), (0, 12), (40, 8)):
        exact = binomtest(one, one + other, 0.5).pvalue if one + other else 1.0
        assert sign_test(one, other) == pytest.approx(exact)
