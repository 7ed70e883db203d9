"""Speed of one model relative to another, which does not depend on chance."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nmt_core.config import SearchConfig
from nmt_core.export import speed
from nmt_core.export.speed import Ratio, describe_search, speed_ratio, timed
from nmt_core.translator import Translator

LINES = ["the cat sees a dog.", "now"]


@pytest.fixture
def both(tiny_bundle: Path) -> tuple[Translator, Translator]:
    search = SearchConfig(beam_size=1, max_length_offset=4, max_source_tokens=16)
    one, other = (Translator.load(tiny_bundle, search, scores=False) for _ in range(2))
    return one, other


def test_chance_decides_nothing(both: tuple[Translator, Translator], monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two equal models is now and then measured at half the speed, as happens with small models."""
    clock, chance, order = [0.0], random.Random(1), list[Translator]()

    def rate(translator: Translator, lines: Sequence[str]) -> tuple[list[Any], float]:
        order.append(translator)
        clock[0] += 0.04
        return [], 1_000 * chance.choice([0.5, 0.8, 1.0, 1.0, 1.0, 1.25])

    monkeypatch.setattr(speed, "timed", rate)
    monkeypatch.setattr(speed.time, "monotonic", lambda: clock[0])
    ratios = []
    for _ in range(60):
        order.clear()
        ratios.append(speed_ratio(LINES, *both).median)
        assert len(order) >= 2 * speed._SECONDS / 2 / 0.04 - 2
        assert order[:4] == [both[1], both[0], both[0], both[1]], "they take turns at being the first"
    assert min(ratios) > 0.85 and max(ratios) < 1.18


def test_a_slow_model_has_three_rounds(both: tuple[Translator, Translator], monkeypatch: pytest.MonkeyPatch) -> None:
    clock, rates = [0.0], iter([50.0, 100.0, 100.0, 60.0, 30.0, 90.0])

    def rate(translator: Translator, lines: Sequence[str]) -> tuple[list[Any], float]:
        clock[0] += 60
        return [], next(rates)

    monkeypatch.setattr(speed, "timed", rate)
    monkeypatch.setattr(speed.time, "monotonic", lambda: clock[0])
    ratio = speed_ratio(LINES, *both)  # rounds: 100/50, 100/60 and 90/30
    assert ratio == Ratio(median=2.0, low=100 / 60, high=3.0, rounds=3)


@pytest.mark.parametrize(("true", "bound", "longer"), [(1.0, 0.8, False), (0.82, 0.8, True), (0.5, 0.8, False)])
def test_rounds_continue_while_it_is_not_clear_on_which_side_of_the_bound_a_model_is(
    both: tuple[Translator, Translator],
    monkeypatch: pytest.MonkeyPatch,
    true: float,
    bound: float,
    longer: bool,
) -> None:
    clock, chance = [0.0], random.Random(1)

    def rate(translator: Translator, lines: Sequence[str]) -> tuple[list[Any], float]:
        clock[0] += 0.2
        return [], (true if translator is both[0] else 1.0) * 1_000 * chance.uniform(0.85, 1.15)

    monkeypatch.setattr(speed, "timed", rate)
    monkeypatch.setattr(speed.time, "monotonic", lambda: clock[0])
    ratio = speed_ratio(LINES, *both, bound=bound)
    assert (ratio.rounds > 11) is longer
    assert ratio.low <= ratio.median <= ratio.high and clock[0] < 21


def test_it_is_of_the_tokens_that_a_model_found(both: tuple[Translator, Translator]) -> None:
    translations, rate = timed(both[0], LINES)
    assert [one.text for one in translations] == [one.text for one in both[1].translate(LINES)]
    assert rate > 0
    assert describe_search(both[0]).startswith("greedy search in ")
