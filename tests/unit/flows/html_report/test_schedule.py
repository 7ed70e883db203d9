"""The figure of the learning-rate schedule: from the recipe alone, by the formula of the paper."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from flows.html_report.schedule import TITLE, schedule_chart, schedule_points, write_schedule
from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.errors import ConfigError, DataError


def test_the_curve_is_the_formula_of_the_paper_with_its_peak_at_the_end_of_warm_up() -> None:
    train = TrainConfig(warmup_updates=4_001, max_updates=100_000)
    points = schedule_points(train, ModelConfig())
    assert (points[0][0], points[-1][0]) == (1, 100_000)
    for update, rate in points:
        assert rate == pytest.approx(512**-0.5 * min(update**-0.5, update * 4_001**-1.5))
    assert max(points, key=lambda point: point[1])[0] == 4_001


@pytest.mark.parametrize("updates", [1, 2, 50])
def test_a_training_that_ends_before_the_peak_rises_to_its_end(updates: int) -> None:
    points = schedule_points(TrainConfig(warmup_updates=4_000, max_updates=updates), ModelConfig())
    assert [update for update, _ in points] == list(range(1, updates + 1))
    assert [rate for _, rate in points] == sorted(rate for _, rate in points)


def test_a_constant_rate_is_a_level_line() -> None:
    train = TrainConfig(learning_rate_schedule="constant", learning_rate_scale=0.5)
    assert {rate for _, rate in schedule_points(train, ModelConfig())} == {0.5}


def test_the_figure_is_drawn_to_scale(tmp_path: Path) -> None:
    file = tmp_path / "new" / "schedule.svg"
    train, model = TrainConfig(warmup_updates=1_000, max_updates=5_000), ModelConfig()
    write_schedule(train, model, file)
    tree = ElementTree.fromstring(file.read_text(encoding="utf-8"))
    assert tree.tag.endswith("svg") and TITLE in "".join(tree.itertext())
    [line] = [one.get("d") or "" for one in tree.iter() if one.get("class") == "line s0"]
    places = [(float(x), float(y)) for x, y in re.findall(r"(-?[0-9.]+)[ ,](-?[0-9.]+)", line)]
    highest = min(places, key=lambda place: place[1])
    first, last = places[0][0], places[-1][0]
    assert (highest[0] - first) / (last - first) == pytest.approx(999 / 4_999, abs=0.01)
    assert schedule_chart(train, model).inline() != file.read_text(encoding="utf-8")


def test_a_figure_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"schedule\.png: the figure is SVG: give a name that ends in \.svg"):
        write_schedule(TrainConfig(), ModelConfig(), tmp_path / "schedule.png")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot be written \(.*\): choose another file"):
        write_schedule(TrainConfig(), ModelConfig(), tmp_path / "file" / "schedule.svg")
