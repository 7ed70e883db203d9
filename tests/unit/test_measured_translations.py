"""Evaluation of the benchmark of translation: ratios, and the limits that are missed."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from translate_measured import Loaded, Row, missed, unlike


def row(name: str, tokens: int, walls: list[float], precision: str = "int8", identical: float = 1.0) -> Row:
    cpus = [2 * wall for wall in walls]
    return Row("news", precision, 5, name, "", tokens, walls, cpus, bleu=30.0, identical=identical)


def loaded(name: str, precision: str, seconds: float, megabytes: float) -> Loaded:
    answers = [{"seconds": seconds * times, "rss": megabytes * times} for times in (0.5, 9.0, 1.0)]
    return Loaded(precision, name, answers)


def test_a_ratio_is_the_median_of_pairs_that_ran_one_after_the_other() -> None:
    ours, theirs = row("ours", 100, [1.0, 2.0, 4.0]), row("CTranslate2", 100, [1.5, 2.0, 8.0])
    assert theirs.ratios(ours) == (1.5, 1.5)  # of 1.5, 1.0 and 2.0
    fewer = row("CTranslate2", 50, [1.0, 2.0, 4.0])
    assert fewer.ratios(ours) == (2.0, 2.0), "as many seconds for half of the tokens"
    assert ours.ratios(ours) == (1.0, 1.0)


def test_a_missed_bar_is_named() -> None:
    rows = [row("ours", 100, [1.0]), row("CTranslate2", 100, [1.19]), row("PyTorch eager", 100, [0.5])]
    assert missed(rows, []) == ["news, int8, beam 5, CTranslate2: 1.19 of 1.20"]
    rows[1] = row("CTranslate2", 100, [1.21])
    assert missed(rows, []) == []


def test_each_system_has_a_bar_of_its_own() -> None:
    rows = [row(name, 100, walls, "fp16") for name, walls in (("ours", [1.0]), ("CTranslate2", [1.1]))]
    rows = [replace(one, beam=4) for one in [*rows, row("transformers", 100, [4.0], "fp16")]]
    assert missed(rows, []) == ["news, fp16, beam 4, transformers: 4.00 of 5.00"]


def test_each_is_compared_with_ours_of_its_own_precision() -> None:
    rows = [
        *(row("ours", 100, [1.0]), row("CTranslate2", 100, [1.3])),
        *(row("ours", 100, [2.0], "fp32"), row("CTranslate2", 100, [2.0], "fp32")),
    ]
    assert missed(rows, []) == ["news, fp32, beam 5, CTranslate2: 1.00 of 1.12"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (loaded("ours", "int8", 1.4, 390), []),
        (loaded("ours", "int8", 1.6, 390), ["loading in int8, seconds: 1.60, and 1.50 is allowed"]),
        (loaded("ours", "int8", 1.4, 410), ["loading in int8, rss: 410.00, and 400.00 is allowed"]),
        (loaded("ours", "fp32", 1.4, 900), []),
        (loaded("CTranslate2", "int8", 9.0, 900), []),
    ],
)
def test_what_takes_too_much_to_load_is_named(model: Loaded, expected: list[str]) -> None:
    assert missed([row("ours", 100, [1.0])], [model]) == expected


def test_other_translations_of_the_same_weights_are_named_in_fp32() -> None:
    rows = [
        row("ours", 100, [1.0], "fp32"),
        row("CTranslate2", 100, [1.0], "fp32", identical=0.985),
        row("PyTorch eager", 100, [1.0], "fp32", identical=0.5),
        row("CTranslate2", 100, [1.0], "int8", identical=0.5),
    ]
    assert unlike(rows) == ["news, beam 5: 98.50%"]
    assert unlike([row("CTranslate2", 100, [1.0], "fp32", identical=0.99)]) == []
