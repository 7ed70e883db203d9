"""Self-contained HTML pages: one file with its style, its script and its data, which loads nothing from elsewhere.

A page is a package with the files page.html.jinja, page.css and page.js. All pages have the colours of this module.
"""

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import jinja2

_COLOURS = """:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1f24; --faint: #57606a; --line: #d0d7de; --card: #f6f8fa;
  --accent: #0b62c4; --warm: #c4570b; --good: #1a7f4b;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #14181d; --ink: #e8ebef; --faint: #a3adb8; --line: #39424d; --card: #1d232a;
    --accent: #5aa9ff; --warm: #ff9d52; --good: #4cc38a;
  }
}
* { box-sizing: border-box; }
"""


def write_page(package: str, *filters: Callable[[Any], object], **values: Any) -> str:
    """Return the page of a package as text.

    Args:
        package: name of the package, such as `nmt_core.explain`.
        filters: functions that the template uses as filters, by their names without a leading underscore.
        values: values of the template. `data | tojson` may stand in a script element, whatever text it holds.
    """
    template = _template(package, filters)
    return template.render(style=_COLOURS + _file(package, "page.css"), script=_file(package, "page.js"), **values)


@cache
def _template(package: str, filters: tuple[Callable[[Any], object], ...]) -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.filters |= {filter_.__name__.lstrip("_"): filter_ for filter_ in filters}
    return environment.from_string(_file(package, "page.html.jinja"))


def _file(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
