"""State of a run whose machines were preempted: it has not failed, so no failure notification is sent."""

from typing import Any

from prefect.client.schemas.objects import State, StateType

from nmt_core.errors import BudgetError, PreemptedError, words_of

PREEMPTED = "Preempted"
"""Name of the state. Prefect's events and automations refer to a state by its name, and Retry by its type."""


def preempted(error: PreemptedError) -> Any:
    """Return the state of a flow whose training was preempted.

    Prefect raises the error again in the caller of the flow.

    Raises:
        BudgetError: The run was not preempted but has used its budget, so a user must decide what to do.
    """
    if isinstance(error, BudgetError):
        raise error
    return State(type=StateType.CRASHED, name=PREEMPTED, message=words_of(error), data=error)
