"""How a run ends whose machines were taken away: it has not failed, so nobody is told that it has."""

from typing import Any

from prefect.client.schemas.objects import State, StateType

from nmt_core.errors import BudgetError, PreemptedError, words_of

PREEMPTED = "Preempted"
"""Name of the state: Prefect's events, and so what automations wait for, go by the name, and Retry by the type."""


def preempted(error: PreemptedError) -> Any:
    """What a flow returns when its training was preempted: Prefect raises the error again where the flow was called.

    Raises:
        BudgetError: it was not preempted, but has taken all that it may: somebody has to decide.
    """
    if isinstance(error, BudgetError):
        raise error
    return State(type=StateType.CRASHED, name=PREEMPTED, message=words_of(error), data=error)
