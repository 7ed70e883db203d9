"""Deployments with the names, schedules and limits of real ones, and without their forms.

The form of `retrain` describes every option. Prefect's server checks it several times each time it is installed, for
half a CPU-second, and sends it with every list of deployments. Tests that are about anything else leave it away.
"""

import functools
from dataclasses import replace

from prefect.flows import Flow

from flows.deployment.deployments import Entry


def without_form(entry: Entry) -> Entry:
    """Return a deployment of a flow with the same name that takes no parameters."""
    return replace(entry, flow=_flow(entry.flow.name), parameters={}, form=None)


@functools.cache
def _flow(name: str) -> Flow[[], None]:
    return Flow(nothing, name=name)


def nothing() -> None:
    """Do nothing."""
