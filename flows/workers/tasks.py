"""How one shard of a stage travels through Prefect to a worker of a cluster, and its result back."""

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
    """What a shard has raised, on its way through Prefect, which shows the message."""

    def __init__(self, message: str, answer: bytes) -> None:
        super().__init__(message, answer)
        self.answer = answer
        """For `unpack`."""

    def __str__(self) -> str:
        return str(self.args[0])


def _perform(order: bytes) -> bytes:
    """Do a task on a worker, whose errors Prefect sees and we understand."""
    answer = perform(order)
    try:
        unpack(answer)
    except Exception as error:
        raise TaskFailedError(f"{type(error).__name__}: {error}", answer) from None
    return answer


PERFORM = prefect_task(cache_policy=NO_CACHE, persist_result=False)(_perform)  # the function travels by its name


class _TheirSettings(SettingsContext):
    """Leaves workers Prefect's settings of their own: to set ours there takes 50 ms, for each task anew."""

    def serialize(self, include_secrets: bool = True) -> dict[str, Any]:
        """What goes to the worker."""
        return {}


_NO_FLOW = flow(name="shards")(abs)


def submit_bare(runner: Runner, perform_task: PrefectTask[[bytes], bytes], order: bytes) -> PrefectFuture[bytes]:
    """Submit a task that takes no more with it than the flow run to which it belongs.

    Prefect would send the flow, its parameters and the stage that is being run as well, and with them whatever they
    hold on to. To be called in a context of its own.
    """
    TaskRunContext.__var__.set(None)  # type: ignore[arg-type]  # the stage, which is a task itself
    with ExitStack() as stack:
        stack.enter_context(_TheirSettings(**dict(get_settings_context())))
        if context := FlowRunContext.get():
            stack.enter_context(context.model_copy(update={"flow": _NO_FLOW, "parameters": {}}))
        return runner.submit(perform_task, {"order": order})
