"""The report of a retraining in a real browser: it is drawn completely, nothing overlaps, and nothing is fetched."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.ui, pytest.mark.timeout(900), pytest.mark.cpu(100)]  # including `finished`

_LONGER = ("model.d_model=64", "model.d_ff=256", "train.max_updates=400", "train.validate_every=80")
_INK = 0.7  # of the height of a line's box, in its middle: letters do not fill it
_MEASURE = """() => {
  const box = element => element.getBoundingClientRect();
  const overlaps = svg => {
    const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim());
    const found = [];
    texts.forEach((text, place) => texts.slice(place + 1).forEach(other => {
      const [a, b] = [box(text), box(other)];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      const margin = (1 - INK) * Math.min(a.height, b.height, a.width, b.width);
      if (wide > 0.5 && high > Math.max(0.5, margin)) found.push([text.textContent, other.textContent]);
    }));
    return found;
  };
  const outside = svg => [...svg.querySelectorAll('text')].filter(text => {
    const [inner, outer] = [box(text), box(svg)];
    return inner.left < outer.left - 1 || inner.right > outer.right + 1
      || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
  }).map(text => text.textContent);
  const charts = [...document.querySelectorAll('figure svg')];
  const sections = [...document.querySelectorAll('section')];
  const attention = sections.find(section => section.querySelector('h2').textContent === 'Attention');
  const cells = [...attention.querySelectorAll('svg')].map(svg =>
    [...svg.querySelectorAll('path')].map(path => path.getAttribute('class')));
  return {
    width: document.documentElement.scrollWidth,
    paper: getComputedStyle(document.body).backgroundColor,
    sections: sections.map(section => [section.querySelector('h2').textContent, box(section).height]),
    empty: charts.filter(svg => svg.querySelectorAll('path, circle, rect').length < 2
      || box(svg).width < 100).map(svg => svg.outerHTML.slice(0, 300)),
    charts: charts.length,
    overlaps: charts.flatMap(overlaps),
    outside: charts.flatMap(outside),
    cells,
  };
}""".replace("INK", str(_INK))


@dataclass(frozen=True)
class Seen:
    """Page with the report, and its requests."""

    measured: dict[str, Any]
    asked_for: list[str]
    """Addresses that the page has requested besides its own."""
    errors: list[str]


@pytest.fixture(scope="module")
def report(continued: tuple[Any, dict[str, Any]]) -> Path:
    """Report of a second training, which has a champion to compare with."""
    nmt, _ = continued
    summary = nmt.run(*(part for change in _LONGER for part in ("--set", change)))
    assert (summary["model"]["version"], summary["champion"]["version"]) == ("2", "1"), "it is slower by half"
    return Path(nmt.home / "runs" / summary["run_id"] / "report.html")


def look(browser: Any, report: Path, width: int, scheme: str = "light") -> Seen:
    """Open the report in a window of this width in pixels."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, asked_for, errors = context.new_page(), [], []
    page.on("request", lambda request: asked_for.append(request.url))
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(report.as_uri())
    seen = Seen(page.evaluate(_MEASURE), [url for url in asked_for if url != report.as_uri()], errors)
    context.close()
    return seen


@pytest.mark.parametrize("width", [375, 1400])
def test_every_part_is_drawn_and_nothing_overlaps(browser: Any, report: Path, width: int) -> None:
    seen = look(browser, report, width)
    assert (seen.asked_for, seen.errors) == ([], [])
    measured = seen.measured
    assert measured["width"] <= width, "the page itself never scrolls sideways"
    assert measured["charts"] >= 10 and measured["empty"] == []
    assert measured["overlaps"] == [] and measured["outside"] == []
    assert min(height for _, height in measured["sections"]) > 40, measured["sections"]


def test_the_attention_of_three_sentences_is_drawn(browser: Any, report: Path) -> None:
    cells = look(browser, report, 1400).measured["cells"]
    assert len(cells) == 3 and all({"empty"} < set(shades) for shades in cells), cells


def test_it_is_dark_where_the_reader_wants_it_dark(browser: Any, report: Path) -> None:
    papers = [look(browser, report, 900, scheme).measured["paper"] for scheme in ("light", "dark")]
    assert papers == ["rgb(255, 255, 255)", "rgb(21, 24, 29)"]
