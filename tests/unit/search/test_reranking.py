"""A judge orders the candidates of many lines at once."""

from collections.abc import Sequence

import pytest

from nmt_core.errors import NmtError
from nmt_core.search.reranking import reranked
from nmt_core.search.translation import EMPTY, Alternative, Translation

LINES = ["one", "two", "", "three"]
FOUND = [
    Translation("b", -1.0, "ok", 1, (Alternative("a", -2.0), Alternative("b", -3.0), Alternative("c", -4.0))),
    Translation("x", -1.0, "ok", 1, (Alternative("x", -2.0),)),
    EMPTY,
    Translation("q", -1.0, "ok", 1, (Alternative("p", -2.0),)),
]


def test_only_lines_with_a_choice_are_judged_and_equal_numbers_keep_their_order() -> None:
    asked: list[tuple[str, str]] = []

    def rank(pairs: Sequence[tuple[str, str]]) -> list[float]:
        asked.extend(pairs)
        return [{"a": 1.0, "b": 0.0, "c": 2.0}.get(text, 5.0) for _, text in pairs]

    found = reranked(LINES, FOUND, rank, 3)
    assert asked == [("one", "b"), ("one", "a"), ("one", "c"), ("three", "q"), ("three", "p")]
    assert [choice.text for choice in found[0].choices] == ["c", "a", "b"]
    assert found[0].score == -4.0, "the score stays the model's own"
    assert [one.text for one in found] == ["c", "x", "", "q"]
    assert not any(one.judge_problem for one in found)


def test_a_judge_that_fails_leaves_the_order_of_the_search() -> None:
    def rank(pairs: Sequence[tuple[str, str]]) -> list[float]:
        raise NmtError("no memory")

    found = reranked(LINES, FOUND, rank, 1)
    assert [(one.text, one.alternatives, one.judge_problem) for one in found] == [
        ("b", (), "no memory"),
        ("x", (), ""),
        ("", (), ""),
        ("q", (), "no memory"),
    ]


def test_a_judge_is_not_asked_about_nothing() -> None:
    assert reranked([""], [EMPTY], lambda pairs: pytest.fail("asked"), 1)[0].status == "empty"
