"""Translations are reused while the teacher, its search and its sentences are the same, and only then."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.config import PipelineConfig
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.synthesis import translations
from nmt_core.synthesis.translations import INDEX

Recipe = Callable[..., PipelineConfig]
Run = Callable[..., dict[str, Artifact]]

SEARCH = {"beam_size": 2, "n_best": 2, "max_length_offset": 4}
PART = {"name": "made", "text": "parallel_source", "search": SEARCH, "drop": []}


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses of the folders of the jobs that run. They run as always."""
    folders: list[str] = []
    run_job = translations.run_job

    def counted(request: Any, order: Any, folder: Any, means: Any) -> Any:
        folders.append(folder.url)
        return run_job(request, order, folder, means)

    monkeypatch.setattr(translations, "run_job", counted)
    return folders


def rows(artifact: Artifact, corpus: str = "made") -> pl.DataFrame:
    tables = [pl.read_parquet(file) for file in sorted(artifact.path.glob("train-*.parquet"))]
    return pl.concat(tables, how="diagonal").filter(corpus=corpus)


@pytest.mark.parametrize(
    ("part", "mix"),
    [
        ({}, {"tag": "<KD>"}),
        ({}, {"weight": 2}),
        ({"drop": ["empty"]}, {}),
        ({"choose": "chrf"}, {}),
        ({"name": "other"}, {}),
    ],
    ids=["tag", "weight", "filter", "choice", "name"],
)
def test_no_job_runs_again_for_what_comes_after_the_translation(
    recipe: Recipe, run_until: Run, tiny_bundle: Path, jobs: list[str], part: dict[str, Any], mix: dict[str, Any]
) -> None:
    before = PART | {"teachers": str(tiny_bundle)}
    first = run_until(recipe([before]))["synthesise"]
    assert len(jobs) == 1
    after, rules = before | part, [{"corpus": (before | part)["name"]} | mix] if mix else []
    second = run_until(recipe([after], mix={"corpora": rules}))["synthesise"]
    assert (second.fingerprint != first.fingerprint, len(jobs)) == (True, 1), "no job ran"
    one, other = first.report(), second.report()
    same = ("sentences", "tokens", "seconds", "translations")
    assert [one["teachers"][0][name] for name in same] == [other["teachers"][0][name] for name in same]
    assert (one["teachers"][0]["reused_from"], other["teachers"][0]["reused_from"]) == ("", first.short)
    assert (one["tokens"], other["tokens"]) == (one["teachers"][0]["tokens"], 0), "what this artifact cost"
    if tag := mix.get("tag"):
        assert rows(second)["source"].to_list() == [f"{tag} {source}" for source in rows(first)["source"]]
        assert rows(second)["target"].to_list() == rows(first)["target"].to_list()
    assert first.damage(thorough=True) is None and second.damage(thorough=True) is None


@pytest.mark.parametrize("change", ["search", "sentences", "model"])
def test_another_search_text_or_model_translates_again(
    recipe: Recipe, run_until: Run, tiny_bundle: Path, other_bundle: Path, jobs: list[str], change: str
) -> None:
    part: dict[str, Any] = PART | {"teachers": str(tiny_bundle)}
    run_until(recipe([part]))
    part |= {
        "search": {"search": SEARCH | {"beam_size": 3}},
        "sentences": {"most_sentences": 9},
        "model": {"teachers": str(other_bundle)},
    }[change]
    made = run_until(recipe([part]))["synthesise"].report()
    assert (len(jobs), made["teachers"][0]["reused_from"]) == (2, "")
    assert made["tokens"] == made["teachers"][0]["tokens"] > 0


def test_a_stage_that_is_forced_or_whose_translations_are_damaged_translates_again(
    recipe: Recipe, run_until: Run, tiny_bundle: Path, jobs: list[str], tmp_path: Path
) -> None:
    config = recipe([PART | {"teachers": str(tiny_bundle)}])
    made = run_until(config)
    job, store = Job(SilentReporter(), Resources()), Store(tmp_path / "store")
    forced = run_stage(STAGES["synthesise"], config, store, made, job, force=True).artifact
    assert (len(jobs), forced.report()["teachers"][0]["reused_from"]) == (2, "")
    file = forced.path / "translations-00000.parquet"
    assert (forced.path / INDEX).is_file()
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    again = run_until(recipe([PART | {"teachers": str(tiny_bundle), "drop": ["empty"]}]))["synthesise"]
    assert (len(jobs), again.report()["teachers"][0]["reused_from"]) == (3, "")
