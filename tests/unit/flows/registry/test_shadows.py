"""A challenger that translates real jobs significantly worse than the champion is refused, if the recipe asks so."""

import pytest

from flows.registry.shadows import shadow_check
from nmt_core.config import RegistryConfig
from nmt_core.jobs.shadow_result import ShadowResult


def result(champion_bad: int, challenger_bad: int, lines: int = 1_000) -> ShadowResult:
    return ShadowResult(
        model="m",
        version="2",
        sha256="0" * 64,
        share=0.05,
        lines=lines,
        champion_statuses={"ok": lines - champion_bad, "repeats": champion_bad},
        challenger_statuses={"split": lines - challenger_bad, "copied": challenger_bad},
        champion_bad_alone=champion_bad,
        challenger_bad_alone=challenger_bad,
    )


def test_the_gate_asks_for_nothing_by_default() -> None:
    assert shadow_check([result(0, 900)], RegistryConfig()) == []


@pytest.mark.parametrize(
    ("results", "passed", "p_below"),
    [
        ([result(10, 40)], False, 0.001),
        ([result(10, 12)], True, 1.1),
        ([result(40, 10)], True, 0.001),
        ([result(5, 9, 500), result(5, 9, 500)], True, 1.1),
        ([result(5, 20, 500), result(5, 20, 500)], False, 0.01),
    ],
)
def test_significantly_more_bad_statuses_refuse(results: list[ShadowResult], passed: bool, p_below: float) -> None:
    [check] = shadow_check(results, RegistryConfig(shadow="if_measured"))
    assert check.kind == "shadow" and check.passed is passed
    assert check.p_value is not None and check.p_value < p_below
    bad = [sum(one.challenger_bad_alone for one in results), sum(one.champion_bad_alone for one in results)]
    assert f"{bad[0]} of 1,000 lines" in check.why and f"{bad[1]} of the champion's" in check.why
    assert check.difference == pytest.approx((bad[0] - bad[1]) / 1_000)


def test_too_few_lines_refuse_only_where_they_are_required() -> None:
    few = [result(0, 9, 100)]
    [check] = shadow_check(few, RegistryConfig(shadow="required"))
    assert not check.passed
    assert "100 lines" in check.why and "registry.shadow_lines=1,000" in check.why and "--shadow" in check.why
    [check] = shadow_check(few, RegistryConfig(shadow="if_measured"))
    assert check.passed
    [check] = shadow_check([], RegistryConfig(shadow="required", shadow_lines=1))
    assert not check.passed and "0 lines" in check.why
