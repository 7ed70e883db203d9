"""The script for neural judges: what it reads and writes, and what it says without its package.

Its models are not here. A real judge, smaller by far, takes their place (`support.small_judge`).
"""

import io
import json
import math
import random
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support import small_judge
from support.facts import raises

from nmt_core.config import Metric, RerankingJudge
from nmt_core.corpus.toy import generate
from nmt_core.judges.programs import numbers_of, signature_of
from nmt_core.judges.reranking import judge_of

ROWS = [
    {"source": "a", "translation": "b", "reference": "c"},
    {"source": "", "translation": "\u2028\ud800", "extra": 1},
]


@pytest.fixture(scope="module")
def neural() -> ModuleType:
    return small_judge.neural()


def lines(*rows: Any) -> io.StringIO:
    return io.StringIO("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))


def test_rows_without_references_keep_their_source_and_translation(neural: ModuleType) -> None:
    found = neural.read_rows(lines(*ROWS), with_reference=False)
    assert found == [{"source": "a", "translation": "b"}, {"source": "", "translation": "\u2028\ud800"}]
    assert neural.read_rows(lines(ROWS[0]), with_reference=True) == [ROWS[0]]


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        (ROWS[1], ["line 2: no JSON object", r"KeyError\('reference'\)", "give --no-reference"]),
        ("{", ["line 2: no JSON object with source, translation, reference"]),
        (["a", "b"], ["line 2: no JSON object"]),
        ({"source": 1, "translation": "b", "reference": "c"}, ["line 2: source, translation, reference must be text"]),
    ],
)
def test_a_row_that_cannot_be_judged_is_named(neural: ModuleType, row: Any, facts: list[str]) -> None:
    with raises(neural.JudgeError, *facts):
        neural.read_rows(lines(ROWS[0], row), with_reference=True)


def test_nothing_is_written_unless_every_row_has_a_finite_number(neural: ModuleType) -> None:
    rows = [{"source": "a", "translation": "b"}] * 2
    assert list(neural.written(rows, lambda _: [0.1, 1])) == ["0.1\n", "1.0\n"]
    assert list(neural.written([], lambda _: pytest.fail("no model is needed"))) == []
    with raises(neural.JudgeError, "the model gave 1 numbers for 2 rows"):
        next(neural.written(rows, lambda _: [0.1]))
    with raises(neural.JudgeError, "line 2: the model gave nan"):
        next(neural.written(rows, lambda _: [0.1, math.nan]))


def test_metricx_reads_the_reference_only_if_there_is_one(neural: ModuleType) -> None:
    assert neural.prompt(ROWS[0]) == "source: a candidate: b reference: c"
    assert neural.prompt({"source": "a", "translation": "b"}) == "source: a candidate: b"


@pytest.mark.parametrize("kind", ["comet", "metricx"])
def test_help_needs_no_package_and_a_missing_package_is_named(kind: str) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-S", str(small_judge.SCRIPT), kind, *words]  # -S: no packages are installed
        return subprocess.run(command, input="", capture_output=True, text=True, check=False)

    helped = run("--help")
    assert helped.returncode == 0 and "--no-reference" in helped.stdout
    tokenizer = ["--tokenizer", "folder"] if kind == "metricx" else []
    refused = run("--checkpoint", "model.ckpt", *tokenizer)
    assert (refused.returncode, refused.stdout) == (1, "")
    requirements = small_judge.SCRIPT.with_name(f"{kind}.txt")
    assert requirements.is_file()
    assert refused.stderr == (
        f"{kind}: the package torch is missing from {sys.executable}: install it there with "
        f"`{sys.executable} -m pip install -r {requirements}`\n"
    )


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("judge") / "weights.json"
    file.write_text(json.dumps(small_judge.learned(pairs("train")[:600], seed=1)))
    return file


def pairs(part: str) -> list[tuple[str, str]]:
    toy = generate(pairs=1_000, seed=1, held_out=40)
    return list(getattr(toy, part))


def test_a_small_judge_finds_planted_damage_as_a_metric_and_as_a_judge_of_candidates(weights: Path) -> None:
    draw = random.Random(2)
    held_out = pairs("test")
    command = shlex.join([sys.executable, small_judge.__file__, str(weights)])
    cases = [
        (source, translation, small_judge.damaged(source, translation, kind, draw))
        for source, translation in held_out
        for kind in small_judge.DAMAGES
    ]
    metric = Metric(name="small", command=command, version="1", checkpoint=str(weights))
    sources, good, bad = zip(*cases, strict=True)
    twice = numbers_of(metric, [*sources, *sources], [*good, *bad], [""] * 2 * len(cases), allow_code=True)
    better = [one > other for one, other in zip(twice[: len(cases)], twice[len(cases) :], strict=True)]
    assert sum(better) / len(better) > 0.9
    assert "small|version:1|checkpoint:sha256-" in signature_of(metric)
    judge = RerankingJudge(name="small", command=command, checkpoint=str(weights))
    few = [(source, text) for source, translation, damage in cases[:9] for text in (damage, translation)]
    assert list(judge_of(judge)(few)) == pytest.approx(
        numbers_of(metric, *map(list, zip(*few, strict=True)), [""] * len(few), allow_code=True)
    )
