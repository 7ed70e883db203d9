"""Make a self-contained HTML page: one file with its style, its script and its data.

A page is a package with the files page.html.jinja, page.css and page.js.
"""

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import jinja2


def render_page(package: str, *filters: Callable[[Any], object], **values: Any) -> str:
    """Return the page of a package as text.

    Args:
        package: name of the package, such as `nmt_core.explain`.
        filters: functions that the template uses as filters, by their names without a leading underscore.
        values: values of the template. `data | tojson` may stand in a script element, whatever text it holds.
    """
    template = _template(package, filters)
    style = _file(__package__, "colours.css") + _file(package, "page.css")
    return template.render(style=style, script=_file(package, "page.js"), **values)


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
