"""A program chooses among the candidates of each line, once for a chunk. Its failures cost nothing but its choice."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.facts import raises
from support.judges import CountedJudge, number_of

from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError, StageError
from nmt_core.formats.single import Columns
from nmt_core.jobs import run as run_module
from nmt_core.jobs import stream
from nmt_core.jobs.chunk import ChunkResult, ChunkTask, translate_chunk
from nmt_core.jobs.inputs import find_inputs
from nmt_core.jobs.order import ModelVersion
from nmt_core.judges.files import contents_of_judge
from nmt_core.judges.reranking import with_its_judge
from nmt_core.translator import Translator

FOUR = SearchConfig(beam_size=4, max_length_offset=20, max_source_tokens=16, batch_tokens=256)
LINES = ["the cat sees a dog.", "", "now", "a big house and", "to it", "the dog", "sees a cat", "now now", "a dog", " "]


@pytest.fixture
def judge(tmp_path: Path) -> CountedJudge:
    return CountedJudge(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES * 2))
    return tmp_path / "in.txt"


def with_judge(judge: CountedJudge, fault: str = "none", search: SearchConfig = FOUR, **values: Any) -> SearchConfig:
    return SearchConfig.model_validate(search.model_dump() | judge.options(fault, **values))


def candidates(bundle: Path) -> list[list[str]]:
    """Return the candidates of each line, in the order of the search."""
    found = Translator.load(bundle, FOUR).with_search(n_best=4).translate(LINES * 2)
    return [[choice.text for choice in one.choices] for one in found]


def firsts(bundle: Path) -> list[str]:
    return [own[0] for own in candidates(bundle)]


def bests(bundle: Path) -> list[str]:
    """Return the candidate of each line that the program likes best, computed here."""
    return [
        max(own, key=lambda text, line=line: number_of(line, text))
        for line, own in zip(LINES * 2, candidates(bundle), strict=True)
    ]


def lines_with_a_choice(bundle: Path) -> int:
    return sum(len(set(own)) > 1 for own in candidates(bundle))


def test_the_best_candidate_of_each_line_is_taken_and_the_program_runs_once_a_chunk(
    job: Any, judge: CountedJudge, source: Path, tmp_path: Path
) -> None:
    outcome = job.run(source, tmp_path / "out.parquet", search=with_judge(judge))
    rows = pl.read_parquet(tmp_path / "out.parquet")
    assert rows["translation"].to_list() == bests(job.bundle) != firsts(job.bundle)
    assert len(judge.runs) == 3, "20 lines are three chunks"
    assert outcome.done.not_judged == 0 and "judge_problem" not in rows.columns
    worst = with_judge(judge, lower_is_better=True).model_copy(update={"n_best": 4})
    job.run(source, tmp_path / "worst.jsonl", search=worst)
    every = [json.loads(line) for line in (tmp_path / "worst.jsonl").read_text().splitlines()]
    for line, row in zip(LINES * 2, every, strict=True):
        own = [row["translation"], *(other["translation"] for other in row["alternatives"])]
        assert [number_of(line, text) for text in own] == sorted(number_of(line, text) for text in own)


@pytest.mark.parametrize(
    ("fault", "fact"),
    [
        ("dies", "ended with signal 9"),
        ("hangs", r"was not done within 2 seconds (`max_seconds`)"),
        ("fails", "ended with exit code 1 (out of memory)"),
        ("loses a row", "it must write one number for each line"),
    ],
)
def test_a_program_that_fails_costs_its_choice_only(
    fault: str, fact: str, job: Any, judge: CountedJudge, source: Path, tmp_path: Path
) -> None:
    seconds = {"max_seconds": 2} if fault == "hangs" else {}
    search = with_judge(judge, fault, **seconds)
    outcome = job.run(source, tmp_path / "out.parquet", search=search, chunk_lines=64)
    rows = pl.read_parquet(tmp_path / "out.parquet")
    assert rows["translation"].to_list() == firsts(job.bundle)
    assert outcome.done.not_judged == lines_with_a_choice(job.bundle) > 4
    assert fact in outcome.done.judge_problem and outcome.done.judge_problem.startswith("search.judge by-chance: `")


def test_a_stopped_job_asks_only_for_the_rest_and_ends_with_the_same_bytes(
    job: Any, judge: CountedJudge, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StoppedError(Exception):
        pass

    begun: list[int] = []

    def translate_one(task: ChunkTask) -> ChunkResult:
        if begun:
            raise StoppedError
        begun.append(task.number)
        return translate_chunk(task)

    search = with_judge(judge)
    job.run(source, tmp_path / "undisturbed.parquet", search=search)
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "translate_chunk", translate_one)
        with pytest.raises(StoppedError):
            job.run(source, tmp_path / "out.parquet", search=search)
    assert len(judge.runs) == 3 + 1
    job.run(source, tmp_path / "out.parquet", search=search)
    assert len(judge.runs) == 3 + 3
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "undisturbed.parquet").read_bytes()


def test_another_program_is_another_job(
    job: Any, judge: CountedJudge, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = with_judge(judge, version="1")

    def order(search: SearchConfig) -> Any:
        return job.order(source, tmp_path / "out.txt", search=search, judge_files=contents_of_judge(search))

    first = order(search)
    assert [Path(word).name for word in first.judge_files] == ["judge.py"]
    (tmp_path / "checkpoint").write_bytes(b"weights")
    others = [with_judge(judge, version="2"), with_judge(judge, version="1", checkpoint=str(tmp_path / "checkpoint"))]
    judge.script.write_text(judge.script.read_text() + "\n")
    prints = {first.fingerprint, *(order(other).fingerprint for other in [search, *others])}
    assert len(prints) == 4
    (tmp_path / "checkpoint").write_bytes(b"other weights")
    assert order(others[1]).fingerprint not in prints
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "merge", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            job.run(source, tmp_path / "out.txt", search=search, judge_files=first.judge_files)
    with raises(StageError, "holds another job", "search.judge: ", "judge.py was", "now"):
        job.run(source, tmp_path / "out.txt", search=search, judge_files=order(search).judge_files)


def test_a_pipe_is_judged_in_groups_and_its_failures_are_counted(
    job: Any, judge: CountedJudge, source: Path, tmp_path: Path
) -> None:
    def translated(fault: str, *, at_once: bool = False) -> tuple[list[str], Counter[str]]:
        texts: list[str] = []
        problems: Counter[str] = Counter()
        search = with_judge(judge, fault)
        stream.translate_stream(
            stream.stored(find_inputs(str(source)), Columns("")),
            with_its_judge(Translator.load(job.bundle, search)),
            ModelVersion(name="tiny", version="1", sha256=""),
            lambda _, rows: texts.extend(rows["translation"].to_list()),
            at_once=at_once,
            not_judged=problems,
        )
        return texts, problems

    assert translated("none") == (bests(job.bundle), Counter()) and judge.runs == [judge.runs[0]]
    texts, problems = translated("fails")
    assert texts == firsts(job.bundle)
    assert problems.total() == lines_with_a_choice(job.bundle) and len(problems) == 1
    judge.counts.unlink()
    assert translated("none", at_once=True)[0] == bests(job.bundle)
    assert len(judge.runs) == problems.total(), "once for each line that has a choice"


def test_a_model_runs_no_program_by_itself(tiny_bundle: Path, judge: CountedJudge) -> None:
    plain = Translator.load(tiny_bundle, FOUR)
    with raises(ConfigError, "search.rerank=judge", "'by-chance'", "with_judge"):
        plain.with_search(**judge.options())
    with raises(ConfigError, "search.rerank=judge"):
        Translator.load(tiny_bundle, with_judge(judge)).translate("the cat")
    trusted = with_its_judge(Translator.load(tiny_bundle, with_judge(judge)))
    assert trusted.with_search(method="sample").translate("the cat").text
    with raises(ConfigError, "search.rerank=judge"):
        trusted.with_search(**judge.options("fails"))
    assert len(judge.runs) == 1
