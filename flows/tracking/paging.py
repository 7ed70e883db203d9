"""MLflow's searches, read to the last page.

A search of MLflow gives one page, and nothing in a page says that it is not all of it: code that takes the first page
for everything is right until there are many models, versions, experiments or runs. So every search goes through here.
"""

from collections.abc import Callable
from typing import Any


def read_all(search: Callable[..., Any], *arguments: Any, **named: Any) -> list[Any]:
    """Return everything that a search finds, from the first page to the last.

    Args:
        search: method of `MlflowClient`.
        arguments: arguments of the search.
        named: its arguments by name; `max_results` is the size of a page.
    """
    page = search(*arguments, **named)
    found = list(page)
    while page.token:
        page = search(*arguments, page_token=page.token, **named)
        found += page
    return found
