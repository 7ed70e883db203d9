"""Charts: every number is a number, no label is outside of the drawing or over another one, and nothing is lost."""

import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.html_report.charts import HEIGHT, WIDTH, colour_map, curves, heat_map, side_by_side
from flows.html_report.svg import Drawing, fitted, labels, ticks, width_of

SVG = "{http://www.w3.org/2000/svg}"
VALUES = st.floats(-1e7, 1e7, allow_subnormal=False) | st.just(math.nan) | st.just(math.inf)


@dataclass(frozen=True)
class Box:
    """Return the rectangle that a text occupies."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Box") -> bool:
        return (
            min(self.right, other.right) - max(self.left, other.left) > 0.5
            and min(self.bottom, other.bottom) - max(self.top, other.top) > 0.5
        )


def boxes(drawing: Drawing) -> list[Box]:
    found = []
    for text in ElementTree.fromstring(drawing.file()).iter(f"{SVG}text"):
        words, x, y = text.text or "", float(text.get("x", 0)), float(text.get("y", 0))
        size = 12 if text.get("class") == "title" else 11
        wide = width_of(words, size)
        start = {"start": 0.0, "middle": -wide / 2, "end": -wide}[text.get("text-anchor", "start")]
        if text.get("transform"):  # reads upwards
            found.append(Box(words, x - size * 0.8, y - start - wide, x + size * 0.2, y - start))
        else:
            found.append(Box(words, x + start, y - size * 0.8, x + start + wide, y + size * 0.2))
    return found


def check(drawing: Drawing) -> None:
    svg = drawing.inline()
    assert not re.search(r"\b(nan|inf|None)\b", svg)
    ElementTree.fromstring(svg)
    found = boxes(drawing)
    for box in found:
        assert box.left >= -1 and box.right <= drawing.width + 1, box
        assert box.top >= -1 and box.bottom <= drawing.height + 1, box
    for one, other in combinations(found, 2):
        assert not one.overlaps(other), (one, other)


@settings(max_examples=60)
@given(st.lists(st.lists(VALUES, max_size=60), min_size=1, max_size=3), st.integers(1, 10_000), st.booleans())
def test_any_curve_is_drawn_inside_its_frame_with_labels_apart(
    values: list[list[float]], step: int, from_zero: bool
) -> None:
    series = {f"series {n}": [(step * x, y) for x, y in enumerate(ys)] for n, ys in enumerate(values)}
    drawing = curves("a title of some length", series, "update", from_zero=from_zero)
    check(drawing)
    for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", drawing.inline()):
        assert -1 <= float(x) <= WIDTH + 1 and -1 <= float(y) <= HEIGHT + 1


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(25, 3.0)],
        [(25, 3.0), (50, 3.0)],
        [(n, math.nan) for n in range(9)],
        [(n, 1e-7 * n) for n in range(9)],
        [(100_000 * n, 5e8 + n) for n in range(9)],
        [(n, math.sin(n)) for n in range(5_000)],
    ],
)
def test_odd_curves_are_drawn(points: list[tuple[float, float]]) -> None:
    drawing = curves("loss", {"train": points}, "update")
    check(drawing)
    assert len(drawing.inline()) < 30_000


def test_a_spike_is_seen_among_many_points() -> None:
    points = [(float(n), 1.0) for n in range(10_000)]
    points[6_543] = (6_543.0, 50.0)
    heights = [float(y) for _, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", curves("x", {"a": points}, "n").inline())]
    assert min(heights) < 50, "near the top"


def test_a_gap_stays_a_gap() -> None:
    points = [(0.0, 1.0), (1.0, 2.0), (2.0, math.nan), (3.0, 2.0), (4.0, 1.0)]
    (line,) = re.findall(r'class="line s0" d="([^"]*)"', curves("x", {"a": points}, "n").inline())
    assert line.count("M") == 2


@given(st.floats(-1e9, 1e9), st.floats(1e-9, 1e9))
def test_ticks_rise_and_enclose(low: float, size: float) -> None:
    found = ticks(low, low + size)
    tolerance = 1e-6 * max(abs(low), size)
    assert found[0] <= low + tolerance and found[-1] >= low + size - tolerance
    assert 2 <= len(found) <= 9
    assert all(later > earlier for earlier, later in pairwise(found))


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0, 0.25, 0.5], ["0", "0.25", "0.5"]),
        ([0.0, 0.0005, 0.001], ["0", "5e-4", "0.001"]),
        ([-2, 1_500, 25_000, 3e6], ["-2", "1500", "25k", "3M"]),
        ([5e8, 5e8 + 5_000], ["500M", "500.005M"]),
        ([9_999.5, 9_999.6], ["9999.5", "9999.6"]),
    ],
)
def test_numbers_on_an_axis_are_short_and_differ(values: list[float], texts: list[str]) -> None:
    assert labels(values) == texts


def test_a_text_is_cut_to_its_room() -> None:
    assert fitted("short", 100) == "short"
    assert width_of(fitted("한국어로 된 아주 긴 제목", 60)) <= 60
    assert fitted("long " * 20, 60).endswith("…")


def test_a_heat_map_has_a_cell_for_each_weight_that_can_be_seen() -> None:
    tokens = ["▁the", "▁cat", "고양이", "a-very-long-token-of-a-name", "end"]
    weights = [[1.0 if row == column else 0.0 for column in range(5)] for row in range(5)]
    drawing = heat_map("Sentence 1", tokens, tokens, weights)
    check(drawing)
    (path,) = re.findall(r'class="h12" d="([^"]*)"', drawing.inline())
    assert path.count("M") == 5
    assert "<script" not in heat_map("x", ["<script>"], ["&"], [[0.5]]).inline()


def test_a_colour_map_is_small() -> None:
    values = [[math.sin(row / 1.2**column) for column in range(64)] for row in range(48)]
    drawing = colour_map("Positional encoding", values, "dimension", "position")
    check(drawing)
    assert len(drawing.inline()) < 100_000


def test_a_file_brings_its_colours_and_a_page_does_not() -> None:
    chart = curves("loss", {"train": [(0, 1.0), (1, 2.0)]}, "update")
    both = side_by_side([chart, chart, chart], 2, "two rows")
    assert (both.width, both.height) == (2 * (WIDTH + 16), 2 * (HEIGHT + 16))
    assert b"prefers-color-scheme:dark" in both.file() and b'class="paper"' in both.file()
    assert "<style>" not in chart.inline()


def test_a_score_that_is_zero_throughout_has_no_axis_below_zero() -> None:
    text = curves("BLEU", {"BLEU": [(20.0, 0.0), (40.0, 0.0)]}, "update").inline()
    assert ">-" not in text and ">0<" in text and ">1<" in text
