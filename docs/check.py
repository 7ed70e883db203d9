"""Check the built site: every link and anchor within it exists, and no page loads anything from another host.

python docs/check.py site
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}
"""Elements that make a browser load something, and the attribute that names it."""
_OUTSIDE = ("http:", "https:", "//")
_LIST = "search.json"
"""File that the search of the site reads."""


class Page(HTMLParser):
    """Links, anchors and loaded addresses of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element links to, loads, or is an anchor for."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        address = values.get(LOADED.get(tag, ""), "")
        if address and values.get("rel") != "canonical":
            self.loaded.append(address)


def problems(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere, and each address of another host that a page loads."""
    site = site.resolve()
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    lines = [] if pages else [f"{site}: no pages: build the site first"]
    if pages and not (site / _LIST).exists():
        lines.append(f"{site}: no {_LIST}: the search has nothing to read")
    for file, page in pages.items():
        place = str(file.relative_to(site))
        lines += [f"{place}: loads {address}" for address in page.loaded if address.startswith(_OUTSIDE)]
        if file.name != "404.html":  # served at any depth, so its links begin at the root of the server
            lines += [f"{place}: {why}" for link in page.links if (why := _broken(link, file, site, pages))]
            lines += [f"{place}: {why}" for link in page.loaded if (why := _broken(link, file, site, pages))]
    for sheet in sorted(site.rglob("*.css")):
        if "url(http" in sheet.read_text(encoding="utf-8") or "@import" in sheet.read_text(encoding="utf-8"):
            lines.append(f"{sheet.relative_to(site)}: loads something from another host")
    return lines


def _broken(link: str, file: Path, site: Path, pages: dict[Path, Page]) -> str:
    """Return the fault of a link, or an empty string if it has none."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if target.is_dir():
        target = target / "index.html"
    if not target.is_relative_to(site) or not target.exists():
        return f"{link} leads nowhere"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return f"{link}: that page has no such anchor"
    return ""


def main() -> None:
    """Print every problem of the site that the argument names, and exit with 1 if there is any."""
    site = Path(sys.argv[1])
    lines = problems(site)
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    pages = len(list(site.rglob("*.html")))
    if lines:
        sys.exit("\n".join(lines))
    print(f"{site}: {pages} pages, {size / 1e6:.1f} MB, all links lead somewhere")


if __name__ == "__main__":
    main()
