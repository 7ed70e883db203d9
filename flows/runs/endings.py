"""End of a flow or task: an error that a user can cause is the message of its state, in one line.

Prefect writes the traceback of an exception into the log of a run, as for a bug. A state that is returned has none.
"""

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.runs.preemption import preempted
from nmt_core.errors import BudgetError, NmtError, PreemptedError, words_of

_MOST_OF_A_MESSAGE = 2_000  # characters; a recipe may be wrong in many places

_LOG_OF_RUNS = "prefect.flow_runs"


class _ErrorsOfUsers(logging.Filter):
    """Filter that drops the traceback with which a worker's engine logs the error of a run that has ended."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], NmtError))


_ERRORS_OF_USERS = _ErrorsOfUsers()

P = ParamSpec("P")
R = TypeVar("R")


def ends_in_words(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function of a flow return a state with the message of an `NmtError`, which it would otherwise raise.

    Prefect raises the error again in the caller of the flow.
    """

    @functools.wraps(function)
    def run(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return function(*arguments, **options)
        except NmtError as error:
            state = state_of(error)
            logging.getLogger(_LOG_OF_RUNS).addFilter(_ERRORS_OF_USERS)
            if state.is_failed():
                get_run_logger().error(state.message)
            return cast(R, state)

    return run


def completed(message: str, result: R) -> R:
    """Return the state of a flow that has succeeded, with a message. Prefect gives the result to the flow's caller."""
    return cast(R, Completed(message=message, data=result))


def state_of(error: NmtError) -> State:
    """Return the state of a flow or task that an error ended."""
    if isinstance(error, PreemptedError) and not isinstance(error, BudgetError):
        return cast(State, preempted(error))
    return Failed(message=words_of(error, _MOST_OF_A_MESSAGE), data=error)
