"""Read all pages of the results of a search in MLflow or Prefect.

A search returns one page, and nothing in the page shows that there are more. Code that takes the first page for all is
right until there are many models, versions, experiments or runs. So every search uses this module.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
    from prefect.client.schemas.objects import FlowRun


def read_all(search: Callable[..., Any], *arguments: Any, **named: Any) -> list[Any]:
    """Return all results of a search, from the first page to the last.

    Args:
        search: Method of `MlflowClient`.
        arguments: Positional arguments of the search.
        named: Keyword arguments of the search. `max_results` is the size of a page.
    """
    page = search(*arguments, **named)
    items = list(page)
    while page.token:
        page = search(*arguments, page_token=page.token, **named)
        items += page
    return items


def all_flow_runs(
    prefect: "SyncPrefectClient", run_filter: "FlowRunFilter", deployments: "DeploymentFilter | None" = None
) -> "Iterator[FlowRun]":
    """Yield the flow runs of Prefect that pass the filters, from the first page to the last.

    Args:
        prefect: Client of the server.
        run_filter: Filter of the runs.
        deployments: Filter of their deployments. None means any deployment, or none.
    """
    from prefect.client.schemas.sorting import FlowRunSort

    count = 0
    while page := prefect.read_flow_runs(
        flow_run_filter=run_filter, deployment_filter=deployments, sort=FlowRunSort.ID_DESC, offset=count
    ):
        yield from page
        count += len(page)
