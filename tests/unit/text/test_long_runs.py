"""Runs that are no language are found in any text, and text of every script is left alone."""

import base64
import hashlib
import random
import re

import pytest

from nmt_core.spelling import SPACES as SPACES_OF_SPELLING
from nmt_core.text.long_runs import MOST_CHARACTERS, SPACES, long_runs

DATA = base64.b64encode(random.Random(1).randbytes(3_000)).decode()
LINES_OF_DATA = "\n".join(DATA[place : place + 76] for place in range(0, 3_800, 76))
SUMS = " ".join(hashlib.md5(bytes([number])).hexdigest() for number in range(40))


@pytest.mark.parametrize(
    "run",
    [
        DATA,
        "https://example.org/?" + "&".join(f"key{number}=%E4%{number}" for number in range(60)),
        "function(a){if(!a)return;" * 30,
        "c" * 1_000_000,
        "." * 501,
        "\U0001f600" * 501,
        "e" + "\u0301\u0316" * 50_000,
        LINES_OF_DATA,
        SUMS,
        " ".join(f"https://example.org/pages/number-{number}" for number in range(20)),
    ],
)
def test_a_run_is_found_where_it_is(run: str) -> None:
    assert long_runs(run) == [(0, len(run))]
    line = f"See {run} here, and {run}"
    assert [line[start:end] for start, end in long_runs(line)] == [run, run]
    among = f"数据{run}，完。"
    assert [among[start:end] for start, end in long_runs(among)] == [run]


@pytest.mark.parametrize(
    "text",
    [
        "c" * MOST_CHARACTERS,
        "汉字很多，没有空格。" * 10_000,
        "ภาษาไทยไม่มีช่องว่าง" * 1_000,
        "བོད་ཡིག་" * 1_000,
        "ሰላም፡ዓለም፡" * 1_000,
        "Donaudampfschifffahrtsgesellschaft auf der Donau " * 1_000,
        "ＡＢＣ１２３" * 1_000,
        "the cat" + " " * 1_000_000 + "sees",
        "the cat sees. " * 100_000,
    ],
)
def test_language_is_no_run(text: str) -> None:
    assert long_runs(text) == []


def test_spelling_knows_the_same_spaces() -> None:
    assert re.fullmatch(rf"\[{re.escape(SPACES)}\]\+", SPACES_OF_SPELLING)
