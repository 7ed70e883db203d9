"""Charts of the report: line charts and heat maps."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from flows.html_report.svg import COLOURS, FONT, LEVELS, Drawing, Point, fitted, labels, ticks, width_of

Series = Mapping[str, Sequence[Point]]
"""Points of each line by its name, in ascending order of x."""

WIDTH, HEIGHT = 340, 220
"""Size of a line chart in pixels. It is as wide as a telephone's screen, where its text then has its full size."""

_POINTS_MARKED = 40  # up to this many points, each gets a dot
_MOST_POINTS = 400  # more cannot be told apart
_CELL = 18
_LONGEST_LABEL = 90


def curves(
    title: str,
    series: Series,
    x_title: str,
    *,
    from_zero: bool = False,
    size: Point = (WIDTH, HEIGHT),
    is_explained: bool = True,
) -> Drawing:
    """Draw a line chart of at most `COLOURS` lines. A value that is not finite leaves a gap.

    Args:
        title: Title above the chart.
        series: Points of each line.
        x_title: Title of the x axis.
        from_zero: Let the y axis include 0.
        size: Width and height in pixels.
        is_explained: Name the lines above the chart, if there are several.
    """
    width, height = size
    drawing = Drawing(width, height, title)
    drawing.text((4, 14), fitted(title, width - 8, FONT + 1), style="title")
    known = {name: points for name, points in list(series.items())[:COLOURS] if any(map(_is_finite, points))}
    if not known:
        drawing.text((width / 2, height / 2), "no values", "middle", "faint")
        return drawing
    has_legend = is_explained and len(known) > 1
    top = 30 + (14 if has_legend else 0)
    if has_legend:
        _legend(drawing, list(known), 30)
    every = [point for points in known.values() for point in points if _is_finite(point)]
    lowest, highest = min(y for _, y in every), max(y for _, y in every)
    if from_zero:
        lowest, highest = min(0.0, lowest), max(0.0, highest)
    if lowest == highest == 0:
        highest = 1.0  # no value drawn here can be negative
    rows = ticks(lowest, highest)
    left = 10 + max(map(width_of, labels(rows)))
    frame = Frame((left, top), (width - 12, height - 36), (min(x for x, _ in every), max(x for x, _ in every)), rows)
    frame.draw(drawing, x_title)
    for number, points in enumerate(known.values()):
        runs = [[frame.place(point) for point in run] for run in _runs(_thinned(points))]
        drawing.path(runs, f"line s{number}")
        if len(points) <= _POINTS_MARKED:
            drawing.dots([at for run in runs for at in run], 2.2, f"s{number}")
        else:
            drawing.dots([run[0] for run in runs if len(run) == 1], 1.2, f"s{number}")
    return drawing


class Frame:
    """Rectangle of a chart, which maps points to pixels."""

    def __init__(self, corner: Point, end: Point, x_range: Point, rows: Sequence[float]) -> None:
        self._corner, self._end, self._rows = corner, end, rows
        low, high = x_range
        self._x_range = (low, high) if high > low else (low - 0.5, high + 0.5)

    def place(self, point: Point) -> Point:
        """Return the position of a point in pixels."""
        (left, top), (right, bottom), (first, last) = self._corner, self._end, self._x_range
        low, high = self._rows[0], self._rows[-1]
        return (
            left + (point[0] - first) / (last - first) * (right - left),
            bottom - (point[1] - low) / (high - low) * (bottom - top),
        )

    def draw(self, drawing: Drawing, x_title: str) -> None:
        """Draw the grid lines, the tick labels and the title of the x axis."""
        (left, _), (right, bottom) = self._corner, self._end
        for tick, label in zip(self._rows, labels(self._rows), strict=True):
            y = self.place((self._x_range[0], tick))[1]
            drawing.line((left, y), (right, y), "rule")
            drawing.text((left - 5, y + 4), label, "end", "faint")
        taken = -math.inf
        columns = ticks(*self._x_range)
        for tick, label in zip(columns, labels(columns), strict=True):
            x = self.place((tick, 0))[0]
            half = width_of(label) / 2
            if left - 1 <= x <= right + 1 and x - half > taken + 6 and x + half <= drawing.width:
                drawing.line((x, bottom), (x, bottom + 3), "axis")
                drawing.text((x, bottom + 15), label, "middle", "faint")
                taken = x + half
        drawing.line((left, bottom), (right, bottom), "axis")
        drawing.text(((left + right) / 2, drawing.height - 4), fitted(x_title, right - left), "middle", "faint")


def _legend(drawing: Drawing, names: Sequence[str], y: float) -> None:
    room = (drawing.width - 8) / len(names)
    x = 4.0
    for number, name in enumerate(names):
        label = fitted(name, room - 24)
        drawing.line((x, y - 4), (x + 12, y - 4), f"line s{number}")
        drawing.text((x + 16, y), label)
        x += min(room, width_of(label) + 30)


def _is_finite(point: Point) -> bool:
    return math.isfinite(point[0]) and math.isfinite(point[1])


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Yield the stretches of points between gaps."""
    for is_finite, run in groupby(points, _is_finite):
        if is_finite:
            yield list(run)


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Return at most as many points as can be told apart.

    The lowest and the highest point of each stretch are kept, so that no spike is lost.
    """
    if len(points) <= _MOST_POINTS:
        return list(points)
    stretch = math.ceil(len(points) / (_MOST_POINTS // 2))
    kept: list[Point] = []
    for first in range(0, len(points), stretch):
        part = points[first : first + stretch]
        gaps = [point for point in part if not _is_finite(point)][:1]
        finite = [point for point in part if _is_finite(point)]
        ends = {min(finite, key=lambda point: point[1]), max(finite, key=lambda point: point[1])} if finite else set()
        kept += sorted(ends) + gaps
    return kept


def heat_map(title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]) -> Drawing:
    """Draw a cell for each row and column, darker for larger values from 0 to 1, with labels on the left and on top."""
    left = 8 + max((min(width_of(row), _LONGEST_LABEL) for row in rows), default=0)
    top = 30 + max((min(width_of(column), _LONGEST_LABEL) for column in columns), default=0)
    width = max(WIDTH, left + len(columns) * _CELL + 6)
    drawing = Drawing(width, top + len(rows) * _CELL + 6, title)
    drawing.text((4, 14), fitted(title, width - 8, FONT + 1), style="title")
    every = [(left + column * _CELL, top + row * _CELL) for row in range(len(rows)) for column in range(len(columns))]
    drawing.cells(every, (_CELL - 1, _CELL - 1), "empty")
    for number, column in enumerate(columns):
        at = (left + number * _CELL + _CELL / 2 + 4, top - 5)
        drawing.text(at, fitted(column, _LONGEST_LABEL), turned=True)
    for number, row in enumerate(rows):
        drawing.text((left - 5, top + number * _CELL + _CELL / 2 + 4), fitted(row, _LONGEST_LABEL), "end")
    _fill(drawing, values, (left, top), (_CELL - 1, _CELL - 1), _CELL)
    return drawing


def colour_map(title: str, values: Sequence[Sequence[float]], x_title: str, y_title: str) -> Drawing:
    """Draw a small cell for each value from -1 to 1, in two colours. Row 0 is on top, column 0 on the left."""
    rows, columns = len(values), len(values[0])
    left, top, right, bottom = 34, 24, WIDTH - 6, HEIGHT - 34
    drawing = Drawing(WIDTH, HEIGHT, title)
    drawing.text((4, 14), fitted(title, WIDTH - 8, FONT + 1), style="title")
    width, height = (right - left) / columns, (bottom - top) / rows
    _fill(drawing, values, (left, top), (width + 0.1, height + 0.1), width, height)
    for number in range(0, columns, max(1, columns // 4)):
        drawing.text((left + (number + 0.5) * width, bottom + 14), str(number), "middle", "faint")
    for number in range(0, rows, max(1, rows // 4)):
        drawing.text((left - 4, top + (number + 0.5) * height + 4), str(number), "end", "faint")
    drawing.text(((left + right) / 2, HEIGHT - 4), x_title, "middle", "faint")
    drawing.text((10, (top + bottom) / 2), y_title, "middle", "faint", turned=True)
    return drawing


def _fill(
    drawing: Drawing,
    values: Sequence[Sequence[float]],
    corner: Point,
    size: Point,
    across: float,
    down: float | None = None,
) -> None:
    """Draw the cells of each shade as one path."""
    shades: dict[str, list[Point]] = {}
    for row, of_row in enumerate(values):
        for column, value in enumerate(of_row):
            level = min(LEVELS, round(abs(value) * LEVELS)) if math.isfinite(value) else 0
            if level:
                at = (corner[0] + column * across, corner[1] + row * (down or across))
                shades.setdefault(f"{'h' if value > 0 else 'n'}{level}", []).append(at)
    for shade, corners in shades.items():
        drawing.cells(corners, size, shade)


def side_by_side(charts: Sequence[Drawing], columns: int, about: str) -> Drawing:
    """Arrange charts of one size in rows, for a file that contains nothing else."""
    rows = math.ceil(len(charts) / columns)
    whole = Drawing(columns * (WIDTH + 16), rows * (HEIGHT + 16), about)
    for number, chart in enumerate(charts):
        whole.put(chart, (number % columns * (WIDTH + 16) + 8, number // columns * (HEIGHT + 16) + 8))
    return whole
