"""A job with a glossary: it counts terms, changes no bytes without terms, and another glossary is another job."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.errors import StageError
from nmt_core.jobs import run as run_module
from nmt_core.jobs.chunk import translate_chunk
from nmt_core.jobs.order import GlossaryIdentity
from nmt_core.terms.glossary import Term, identity_of, terms_of

LINES = ["the cat sees a dog.", "now", "", "the small cat and the big cat", "to it"] * 4
TERMS = terms_of({"cat": "학생", "now": None})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    return tmp_path / "in.txt"


def with_terms(job: Any, terms: tuple[Term, ...]) -> tuple[Any, dict[str, Any]]:
    """Return the job of a glossary, and its description in the order."""
    identity = GlossaryIdentity(terms=len(terms), sha256=identity_of(terms))
    return replace(job, means=replace(job.means, terms=terms)), {"glossary": identity}


def test_terms_are_kept_and_counted(job: Any, source: Path, tmp_path: Path) -> None:
    own, options = with_terms(job, TERMS)
    done = own.run(source, tmp_path / "out.parquet", **options).done
    assert (done.terms, done.terms_kept) == (16, 16)
    rows = pl.read_parquet(tmp_path / "out.parquet")
    assert rows.columns == ["source", "translation", "score", "model", "model_version", "status"]
    for line, text in rows.select("source", "translation").iter_rows():
        assert text.count("학생") >= line.count("cat") and ("now" in text or "now" not in line)
    assert own.run(source, tmp_path / "out.parquet", **options).reused


def test_terms_that_do_not_occur_change_no_byte(job: Any, source: Path, tmp_path: Path) -> None:
    job.run(source, tmp_path / "free.jsonl")
    own, options = with_terms(job, terms_of({"zebra": "학생"}))
    done = own.run(source, tmp_path / "none.jsonl", **options).done
    assert (tmp_path / "free.jsonl").read_bytes() == (tmp_path / "none.jsonl").read_bytes()
    assert (done.terms, done.terms_kept) == (0, 0)


def test_an_order_without_a_glossary_has_the_fingerprint_that_it_had(job: Any, source: Path, tmp_path: Path) -> None:
    order = job.order(source, tmp_path / "out.txt")
    assert "glossary" not in order.model_dump(mode="json")
    _, options = with_terms(job, TERMS)
    assert order.fingerprint != job.order(source, tmp_path / "out.txt", **options).fingerprint


def test_another_glossary_is_noticed_when_a_job_is_resumed(
    job: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, options = with_terms(job, TERMS)
    calls = iter(range(100))

    def killed(task: Any) -> Any:
        if next(calls):
            raise KeyboardInterrupt
        return translate_chunk(task)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "translate_chunk", killed)
        with pytest.raises(KeyboardInterrupt):
            own.run(source, tmp_path / "out.txt", **options)
    changed, others = with_terms(job, terms_of({"cat": "house", "now": None}))
    with pytest.raises(StageError, match=r"holds another job.*glossary: 2 terms \(sha256 .*\), now 2 terms \(sha256"):
        changed.run(source, tmp_path / "out.txt", **others)
    with pytest.raises(StageError, match=r"glossary: 2 terms \(sha256 .*\), now none"):
        job.run(source, tmp_path / "out.txt")
    again, options = with_terms(job, TERMS[::-1])  # the order of the terms does not matter
    outcome = again.run(source, tmp_path / "out.txt", **options)
    assert 0 < outcome.translated < len(LINES) and outcome.done.terms == 16
