"""Transport of one shard of a stage through Prefect to a worker of a cluster, and of its result back."""

from contextlib import ExitStack
from typing import Any

from prefect import flow
from prefect import task as prefect_task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext, SettingsContext, TaskRunContext, get_settings_context
from prefect.futures import PrefectFuture
from prefect.task_runners import TaskRunner
from prefect.tasks import Task as PrefectTask

from nmt_core.execution.child import perform, unpack

Runner = TaskRunner[PrefectFuture[bytes]]


class TaskFailedError(Exception):
    """Error of a shard, which Prefect shows by its message."""

    def __init__(self, message: str, answer: bytes) -> None:
        super().__init__(message, answer)
        self.answer = answer
        """Packed answer for `unpack`."""

    def __str__(self) -> str:
        return str(self.args[0])


def _perform(order: bytes) -> bytes:
    """Perform a task on a worker, and turn its error into one that Prefect can show and the caller can unpack."""
    answer = perform(order)
    try:
        unpack(answer)
    except Exception as error:
        raise TaskFailedError(f"{type(error).__name__}: {error}", answer) from None
    return answer


PERFORM = prefect_task(cache_policy=NO_CACHE, persist_result=False)(_perform)  # the function travels by its name


class _TheirSettings(SettingsContext):
    """Settings context that leaves Prefect's settings on workers unchanged: setting ours takes 50 ms for each task."""

    def serialize(self, include_secrets: bool = True) -> dict[str, Any]:
        """Return the settings that are sent to the worker: none."""
        return {}


_NO_FLOW = flow(name="shards")(abs)


def submit_bare(runner: Runner, perform_task: PrefectTask[[bytes], bytes], order: bytes) -> PrefectFuture[bytes]:
    """Submit a task with no context except the flow run that it belongs to.

    Prefect would also send the flow, its parameters and the running stage, with everything that they refer to. Call
    this in a context of its own.
    """
    TaskRunContext.__var__.set(None)  # type: ignore[arg-type]  # the stage, which is a task itself
    with ExitStack() as stack:
        stack.enter_context(_TheirSettings(**dict(get_settings_context())))
        if context := FlowRunContext.get():
            stack.enter_context(context.model_copy(update={"flow": _NO_FLOW, "parameters": {}}))
        return runner.submit(perform_task, {"order": order})
