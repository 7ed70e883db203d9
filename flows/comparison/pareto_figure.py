"""Figure of quality against speed: a dot for each precision and beam of each model, and the Pareto front.

The area of a dot grows with the size of the model in bytes. Dots that another one dominates in all three measures are
grey.
"""

import math
from collections.abc import Sequence

from flows.comparison.pareto import Point, is_dominated
from flows.html_report.charts import Frame
from flows.html_report.svg import FONT, Drawing, fitted, labels, ticks, width_of

_WIDTH, _HEIGHT = 720, 400
"""Size of the chart in pixels, with which its text is readable in a paper and on the page of a repository."""
_MARGIN, _LINE = 8, 16
_LEAST_RADIUS, _MOST_RADIUS = 3.0, 9.0
_HEADROOM = 1.06
"""Factor by which the axis of speed is longer than the fastest point, so that no dot is cut off."""


def pareto_figure(points: Sequence[Point]) -> Drawing | None:
    """Draw BLEU against tokens per CPU-second, with a numbered line for each point. Return None without points."""
    if not points:
        return None
    ordered = sorted(points, key=lambda point: -point.tokens_per_cpu_second)
    title = f"BLEU with 95% interval, {ordered[0].test_set}"
    whole = Drawing(_WIDTH + 2 * _MARGIN, _HEIGHT + _LINE * len(ordered) + 4 * _MARGIN, "BLEU against speed and size")
    whole.put(_chart(title, ordered), (_MARGIN, _MARGIN))
    for number, point in enumerate(ordered, start=1):
        y = 3 * _MARGIN + _HEIGHT + _LINE * (number - 1) + FONT
        _key(whole, (_MARGIN, y), number, point, ordered)
    return whole


def _chart(title: str, points: Sequence[Point]) -> Drawing:
    drawing = Drawing(_WIDTH, _HEIGHT, title)
    drawing.text((4, 14), fitted(title, _WIDTH - 8, FONT + 1), style="title")
    lows = [point.bleu if point.low is None else point.low for point in points]
    highs = [point.bleu if point.high is None else point.high for point in points]
    rows = ticks(min(lows), max(highs))
    left = 10 + max(map(width_of, labels(rows)))
    fastest = max(point.tokens_per_cpu_second for point in points)
    frame = Frame((left, 30), (_WIDTH - 12, _HEIGHT - 36), (0.0, fastest * _HEADROOM), rows)
    frame.draw(drawing, "target tokens per CPU-second; the area of a dot grows with the size in MB")
    drawing.path([[frame.place((point.tokens_per_cpu_second, point.bleu)) for point in _outline(points)]], "axis")
    largest = max(point.megabytes for point in points)
    for number, point in reversed([*enumerate(points, start=1)]):
        style = _style(point, points)
        x, y = frame.place((point.tokens_per_cpu_second, point.bleu))
        if point.low is not None and point.high is not None:
            ends = [frame.place((point.tokens_per_cpu_second, end)) for end in (point.low, point.high)]
            drawing.line(ends[0], ends[1], f"line {style}" if style != "faint" else "rule")
        radius = _LEAST_RADIUS + (_MOST_RADIUS - _LEAST_RADIUS) * math.sqrt(point.megabytes / largest)
        drawing.dots([(x, y)], radius, style)
        drawing.text((x + radius + 2, y - 4), str(number), style="faint" if style == "faint" else "")
    return drawing


def _outline(points: Sequence[Point]) -> list[Point]:
    """Return the points, of points from the fastest to the slowest, that have a higher BLEU than all faster ones."""
    found: list[Point] = []
    for point in points:
        if not found or point.bleu > found[-1].bleu:
            found.append(point)
    return found


def _style(point: Point, points: Sequence[Point]) -> str:
    """Return the colour of a point: one for each recipe, or grey if the point is dominated."""
    recipes = list(dict.fromkeys(sorted(one.recipe for one in points)))
    return "faint" if is_dominated(point, points) else f"s{recipes.index(point.recipe)}"


def _key(drawing: Drawing, at: tuple[float, float], number: int, point: Point, points: Sequence[Point]) -> None:
    """Write the number of a point, its model and its measures in one line."""
    x, y = at
    style = _style(point, points)
    drawing.text((x + 16, y), str(number), "end")
    drawing.dots([(x + 26, y - 4)], 4, style)
    measures = f"{point.bleu:.1f} BLEU, {point.tokens_per_cpu_second:,.0f} tokens/CPU-s, {point.megabytes:,.1f} MB"
    room = _WIDTH - 50 - width_of(measures) - width_of(f", {point.use}")
    drawing.text((x + 36, y), f"{fitted(point.recipe, room)}, {point.use}", style="faint" if style == "faint" else "")
    drawing.text((_MARGIN + _WIDTH, y), measures, "end", "faint" if style == "faint" else "")
