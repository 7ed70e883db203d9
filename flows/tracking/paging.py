"""Complete results of MLflow's searches.

A search of MLflow returns one page, and nothing in the page shows that there are more. Code that takes the first page
for all is right until there are many models, versions, experiments or runs. So every search uses this module.
"""

from collections.abc import Callable
from typing import Any


def read_all(search: Callable[..., Any], *arguments: Any, **named: Any) -> list[Any]:
    """Return all results of a search, from the first page to the last.

    Args:
        search: Method of `MlflowClient`.
        arguments: Positional arguments of the search.
        named: Keyword arguments of the search. `max_results` is the size of a page.
    """
    page = search(*arguments, **named)
    found = list(page)
    while page.token:
        page = search(*arguments, page_token=page.token, **named)
        found += page
    return found
