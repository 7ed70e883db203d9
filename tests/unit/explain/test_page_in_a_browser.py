"""The page in a real browser: it draws everything, logs no error, sends no request, and fits on a phone."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.until import patient

from nmt_core.config import SearchConfig
from nmt_core.explain.explanation import explain
from nmt_core.explain.page import page
from nmt_core.models.model import TranslationModel

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # the browser has services of its own that it would call
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--window-size=1400,1000",
    "--virtual-time-budget=5000",
    "--dump-dom",
]
# Opens the page at a width, uses it as a person would, and writes down what it finds.
PROBE = """<!doctype html><html><body>
<iframe id="page" src="page.html" width="{width}" height="900"></iframe><pre id="found"></pre>
<script>
page.onload = () => {{
  const inside = page.contentDocument, root = inside.documentElement;
  const choose = (selector, value) => {{
    const select = inside.querySelector(selector);
    if (!select) return;
    select.value = value;
    select.dispatchEvent(new Event("change"));
  }};
  const cells = () => [...inside.querySelectorAll('[data-grid="cross"] .map rect')];
  const shares = () => cells().map((one) => one.getAttribute("fill-opacity"));
  const before = shares();
  choose('[data-grid="cross"] .layer', 0);
  choose('[data-grid="cross"] .head', 2);
  const after = shares();
  const colours = () => [...inside.querySelectorAll('[data-heat="0"] image')].map((one) => one.getAttribute("href"));
  const ofFirstHead = colours();
  choose('[data-heat="0"] .head', 1);
  const ofSecondHead = colours();
  const queries = inside.querySelectorAll('[data-heat="0"] image')[1];
  if (queries) {{
    const box = queries.getBoundingClientRect();
    queries.dispatchEvent(new PointerEvent("pointermove", {{ clientX: box.right - 1, clientY: box.top + 1 }}));
  }}
  const blank = [...inside.querySelectorAll("canvas")].filter((canvas) =>
    !canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0));
  const wide = [...inside.querySelectorAll("main *")].filter((one) =>
    !one.closest(".scroll") && one.getBoundingClientRect().right > root.clientWidth + 1);
  found.textContent = JSON.stringify({{
    asked_for: page.contentWindow.performance.getEntriesByType("resource").map((one) => one.name),
    drawn: root.dataset.drawn,
    width: [root.scrollWidth, root.clientWidth],
    wide: wide.map((one) => one.tagName + "." + one.className),
    canvases: inside.querySelectorAll("canvas").length,
    blank: blank.length,
    maps: [...inside.querySelectorAll("svg.map, svg.mask")].map((svg) => svg.querySelectorAll("rect").length),
    changed: JSON.stringify(before) !== JSON.stringify(after),
    pressed: inside.querySelectorAll('[data-grid="cross"] [aria-pressed="true"]').length,
    pictures: inside.querySelectorAll("[data-heat] image").length,
    redrawn: ofFirstHead.map((one, number) => one !== ofSecondHead[number]),
    read: inside.querySelector("[data-heat] .said")?.textContent,
    seen: getComputedStyle(inside.body).backgroundColor,
  }});
}};
</script></body></html>"""


def written(bundle: Path, folder: Path) -> Path:
    """The folder, with the page of a sentence in it."""
    search = SearchConfig(beam_size=3, max_length_offset=8, min_length=3)
    explanation = explain(bundle, "the cat sees a big house & it.", search)
    (folder / "page.html").write_text(page(explanation, "tiny"), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folder(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tiny_bundle, tmp_path_factory.mktemp("page"))


def probed(folder: Path, width: int, *flags: str) -> dict[str, Any]:
    """Return what the probe records. An error of the page, or a request by it, fails the test."""
    assert CHROMIUM
    (folder / "probe.html").write_text(PROBE.format(width=width), encoding="utf-8")
    command = [CHROMIUM, *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}"]
    done = subprocess.run(
        [*command, (folder / "probe.html").as_uri()], capture_output=True, text=True, check=False, timeout=patient(120)
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found and found[1], done.stderr[-2_000:]
    measured: dict[str, Any] = json.loads(html.unescape(found[1]))
    assert measured["asked_for"] == []
    return measured


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed: `apt-get install chromium`")
@pytest.mark.parametrize("width", [375, 1400])
def test_the_page_is_drawn_and_fits(width: int, folder: Path) -> None:
    found = probed(folder, width)
    assert found["drawn"] == "yes"
    assert found["width"][0] <= found["width"][1] <= width and found["wide"] == []
    assert found["canvases"] > 20 and found["blank"] == 0
    assert len(found["maps"]) == 5 and min(found["maps"]) > 9
    assert found["changed"] and found["pressed"] == 1
    assert found["pictures"] == 30
    of_heads = 1, 2, 3, 4, 5, 7, 8  # queries, keys, values, scores, the weights and the sums; nothing is masked here
    assert [number for number, is_redrawn in enumerate(found["redrawn"]) if is_redrawn] == [
        *of_heads[:5],
        6,
        *of_heads[5:],
    ]
    assert re.fullmatch(r"Queries Q, .*, component \d+: ≈ −?\d.*", found["read"])


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed: `apt-get install chromium`")
@pytest.mark.parametrize(("kind", "maps", "strips"), [("RNNsearch", 2, True), ("encoder-decoder", 1, False)])
def test_the_page_of_a_recurrent_model_is_drawn_and_fits(
    kind: str, maps: int, strips: bool, recurrent: Callable[[str], tuple[TranslationModel, Path]], tmp_path: Path
) -> None:
    found = probed(written(recurrent(kind)[1], tmp_path), 375)
    assert found["drawn"] == "yes"
    assert found["width"][0] <= found["width"][1] <= 375 and found["wide"] == []
    assert len(found["maps"]) == maps and min(found["maps"]) > 9
    assert (found["canvases"] > 10) == strips and found["blank"] == 0


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed: `apt-get install chromium`")
def test_it_is_dark_where_the_reader_wants_it_dark(folder: Path) -> None:
    light = probed(folder, 900)["seen"]
    dark = probed(folder, 901, "--blink-settings=preferredColorScheme=0")["seen"]
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 24, 29)")
