"""SVG drawings, from which charts are built.

Colours are CSS classes. The page, or `STYLE` in a separate file, gives each class a light and a dark value. Text
widths are estimated, so that labels do not overlap and stay inside the drawing.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal
from unicodedata import east_asian_width

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]

FONT = 11
"""Font size of a chart in pixels."""
COLOURS = 6
"""Number of series that can be told apart. Their classes are s0, s1, ..."""
LEVELS = 12
"""Number of shades of a heat map. Their classes are h1, h2, ... for positive and n1, n2, ... for negative values."""

_LIGHT = ("#ffffff", "#1f2937", "#6b7280", "#e5e7eb")
_DARK = ("#15181d", "#e5e7eb", "#9ca3af", "#343a43")
_SERIES_LIGHT = ("#1d4ed8", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0e7490")
_SERIES_DARK = ("#7aa5ff", "#ff9d5c", "#5fd38a", "#c99bff", "#e5c34a", "#4fd0e3")
_LEAST_SCALED, _MOST_SCALED = 0.9, 1.35  # scale limits on a page, so that text stays readable
_LEAST_RANGE = 1e-9  # relative to the values; a smaller range is a rounding error
_WIDE_CHARACTER, _NARROW_CHARACTER = 1.0, 0.58  # relative to the font size


def _variables(base: Sequence[str], series: Sequence[str]) -> str:
    names = ("paper", "ink", "faint", "rule", *(f"s{number}" for number in range(COLOURS)))
    return "".join(f"--{name}:{colour};" for name, colour in zip(names, (*base, *series), strict=True))


def _rules() -> str:
    rules = [
        "svg text{fill:var(--ink);font:11px system-ui,sans-serif}",
        "svg .title{font-weight:600;font-size:12px}",
        "svg .faint{fill:var(--faint)}",
        "svg .rule{stroke:var(--rule);fill:none}",
        "svg .axis{stroke:var(--faint);fill:none}",
        "svg .paper{fill:var(--paper)}",
        "svg .empty{fill:var(--rule);fill-opacity:0.35}",
        "svg .line{fill:none;stroke-width:1.6;stroke-linejoin:round}",
    ]
    for number in range(COLOURS):
        rules.append(f"svg .line.s{number}{{stroke:var(--s{number})}}svg .dot.s{number}{{fill:var(--s{number})}}")
    for level in range(1, LEVELS + 1):
        opacity = f"fill-opacity:{level / LEVELS:.2f}"
        rules.append(f"svg .h{level}{{fill:var(--s0);{opacity}}}svg .n{level}{{fill:var(--s1);{opacity}}}")
    return "".join(rules)


LIGHT, DARK = _variables(_LIGHT, _SERIES_LIGHT), _variables(_DARK, _SERIES_DARK)
"""CSS declarations of the light and the dark colours."""
RULES = _rules()
"""CSS rules of the classes."""
STYLE = f"svg{{{LIGHT}}}@media (prefers-color-scheme:dark){{svg{{{DARK}}}}}{RULES}"
"""CSS of a file that contains one drawing and nothing else."""


class Drawing:
    """Drawing with a size in pixels, which a page may scale.

    Args:
        width: Width in pixels.
        height: Height in pixels.
        about: Description of the drawing for screen readers.
    """

    def __init__(self, width: float, height: float, about: str) -> None:
        self.width, self.height = width, height
        self._about = about
        self._parts: list[str] = []

    def text(self, at: Point, text: str, anchor: Anchor = "start", style: str = "", turned: bool = False) -> None:
        """Add a line of text. With `turned`, it reads upwards."""
        where = f'x="{_number(at[0])}" y="{_number(at[1])}"'
        turn = f' transform="rotate(-90 {_number(at[0])} {_number(at[1])})"' if turned else ""
        kind = f' class="{style}"' if style else ""
        self._parts.append(f'<text {where} text-anchor="{anchor}"{kind}{turn}>{escape(text)}</text>')

    def line(self, start: Point, end: Point, style: str) -> None:
        """Add a straight line."""
        self.path([[start, end]], style)

    def path(self, runs: Iterable[Sequence[Point]], style: str) -> None:
        """Add lines through points. A run of a single point is left out."""
        parts = [f"M{'L'.join(f'{_number(x)} {_number(y)}' for x, y in run)}" for run in runs if len(run) > 1]
        if parts:
            self._parts.append(f'<path class="{style}" d="{"".join(parts)}"/>')

    def dots(self, points: Iterable[Point], radius: float, style: str) -> None:
        """Add a dot at each point."""
        self._parts += [
            f'<circle class="dot {style}" cx="{_number(x)}" cy="{_number(y)}" r="{_number(radius)}"/>'
            for x, y in points
        ]

    def cells(self, corners: Iterable[Point], size: Point, style: str) -> None:
        """Add rectangles of one size as one path."""
        width, height = _number(size[0]), _number(size[1])
        path = "".join(f"M{_number(x)} {_number(y)}h{width}v{height}h-{width}z" for x, y in corners)
        if path:
            self._parts.append(f'<path class="{style}" d="{path}"/>')

    def inline(self) -> str:
        """Return the SVG for a page that defines the CSS rules of the classes."""
        least, most = self.width * _LEAST_SCALED, self.width * _MOST_SCALED
        return self._svg("", f'style="min-width:{least:.0f}px;max-width:{most:.0f}px"')

    def file(self) -> bytes:
        """Return the SVG as the content of a separate file."""
        own = f'<style>{STYLE}</style><rect class="paper" width="{self.width:.0f}" height="{self.height:.0f}"/>'
        return self._svg(own, f'width="{self.width:.0f}" height="{self.height:.0f}"').encode()

    def put(self, other: "Drawing", at: Point) -> None:
        """Add another drawing as a part of this one."""
        self._parts.append(f'<g transform="translate({_number(at[0])} {_number(at[1])})">{"".join(other._parts)}</g>')

    def _svg(self, own: str, size: str) -> str:
        view = f'viewBox="0 0 {self.width:.0f} {self.height:.0f}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {view} {size} role="img" aria-label="{escape(self._about)}">'
            f"{own}{''.join(self._parts)}</svg>"
        )


def width_of(text: str, size: float = FONT) -> float:
    """Return the estimated width of a text in pixels."""
    wide = sum(east_asian_width(character) in "WF" for character in text)
    return size * (wide * _WIDE_CHARACTER + (len(text) - wide) * _NARROW_CHARACTER)


def fitted(text: str, pixels: float, size: float = FONT) -> str:
    """Return the text, cut with an ellipsis if it is wider than `pixels`."""
    if width_of(text, size) <= pixels:
        return text
    while text and width_of(f"{text}…", size) > pixels:
        text = text[:-1]
    return f"{text}…"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return evenly spaced round numbers, the first at or below `low` and the last at or above `high`."""
    if high - low <= _LEAST_RANGE * max(abs(low), abs(high)):
        high, low = high + (abs(high) or 1) * 0.5, low - (abs(low) or 1) * 0.5
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def labels(values: Sequence[float]) -> list[str]:
    """Return labels for the numbers on an axis, as short as possible while they differ from each other."""
    for digits in range(4, 15):
        texts = [_shown(value, digits) for value in values]
        if len(set(texts)) == len(values):
            break
    return texts


def _shown(value: float, digits: int) -> str:
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:.{digits}g}M"
    if size >= 10_000:
        return f"{value / 1e3:.{digits}g}k"
    if size and size < 1e-3:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:.{digits}g}"


def _number(value: float) -> str:
    """Format pixels with one decimal."""
    return f"{value:.1f}".removesuffix(".0")
