"""Detection of new text: check the addresses of a recipe, and send Prefect an event if their content has changed."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.events import Event, Resource, get_events_client
from prefect.events.related import related_resources_from_run_context

from flows.display.markdown import cells, plain
from flows.runs.endings import completed, ends_in_words
from flows.runs.run_names import Deployed, Parameters, unless_typed
from flows.servers.heartbeats import says_its_end
from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.corpus.fetching.addresses import scheme_of
from nmt_core.corpus.fetching.lockfile import Lockfile
from nmt_core.corpus.fetching.watching import changes, look, watched
from nmt_core.errors import ConfigError, NmtError, counted, words_of
from nmt_core.recipes.recipe import with_changes
from nmt_core.store.atomic import write_atomically

CHANGED = "nmt.text.changed"
_TRIES = 10  # to send the event; a second apart after the first three


class EventError(NmtError):
    """Prefect did not accept the event about a change."""


def resource_of(recipe: str) -> str:
    """Return the name of a recipe in Prefect's events."""
    return f"nmt.recipe.{recipe}"


def _name(parameters: Parameters, deployed: Deployed) -> str:
    config = parameters["config"]
    return f"{config['name'] if isinstance(config, Mapping) else config.name}: watch"


@says_its_end
@flow(name="watch", flow_run_name=unless_typed(_name), persist_result=False, validate_parameters=False)
@ends_in_words
def watch(config: PipelineConfig) -> list[str]:
    """Check if the text of a recipe has changed since the last check, without downloading it.

    A web or store address is compared by its ETag, or by its size and time; a file of this machine by its sha256.
    Changed addresses are removed from the recipe's lock file, so that the next retraining downloads them again. An
    automation starts that retraining. The first check only records the state. Text that the recipe pins by a sha256
    cannot change. While a retraining is running that would make Prefect skip another one, a change is left to the next
    check.

    Args:
        config: Recipe whose text is checked.

    Raises:
        ConfigError: The recipe has no lock file.
        EventError: The text has changed, and Prefect does not accept the event. The next check finds the change again.
    """
    config = with_changes(config, "")  # Prefect passes the values of a form
    logger, addresses = get_run_logger(), watched(config)
    if not config.corpus.lock and any(scheme_of(address) for address in addresses):
        raise ConfigError(
            f"{config.name}: corpus.lock names no file, so a retraining would reuse the first text that it "
            "downloaded: set corpus.lock to a file, or pin the text by its sha256"
        )
    state = Settings.load().home / "watch" / f"{config.name}.json"
    before = _read(state)
    now = look(addresses)
    for address, problem in now.unanswered.items():
        logger.warning(f"{address}: cannot be checked: {problem}")
    changed = changes(before, now.digests)
    seen = before | now.digests
    number = counted(len(seen), "address", "addresses")
    rows = [{"address": address, "digest": digest, "changed": address in changed} for address, digest in seen.items()]
    create_table_artifact(cells(rows), key="watch", description=f"Text of {plain(config.name)} at this check")
    if changed and config.schedule.overlap == "skip" and _is_retraining(config.name):
        logger.info(
            f"{len(changed)} of {number} changed, while a retraining is running: the next check after "
            "its end starts another one"
        )
        return changed  # nothing is stored, so that the next check finds the same changes
    if changed:
        logger.info(f"{len(changed)} of {number} changed: {', '.join(changed)}")
        Lockfile(config.corpus.lock).forget(changed)
        tell(
            Event(event=CHANGED, resource=_resource(config.name), payload={"recipe": config.name, "addresses": changed})
        )
    else:
        logger.info(f"nothing has changed at {number}")
    _write(state, seen)  # last: if the flow is stopped before this, the next check finds the same change again
    words = f"{len(changed)} of {number} changed" if changed else "nothing has changed"
    return completed(words, changed)


def tell(event: Event, fact: str = "text has changed", remedy: str = "run `watch` again") -> None:
    """Send an event, and return when the server has received it.

    Prefect's `emit_event` leaves this to a thread that does not report failures.

    Args:
        event: Event to send.
        fact: What the event reports, for the message of an error.
        remedy: What to do if the event is lost, for the same message.

    Raises:
        EventError: The server does not answer, or does not accept the event.
    """
    try:
        asyncio.run(_send(event))
    except Exception as error:  # from the socket, the handshake, or httpx when the related resources are read
        raise EventError(
            f"{fact}, but Prefect did not accept the event ({words_of(error)}): check that its server "
            f"answers, then {remedy}"
        ) from error


async def _send(event: Event) -> None:
    async with get_client() as client:
        event.related += await related_resources_from_run_context(client)
    async with get_events_client(reconnection_attempts=_TRIES, checkpoint_every=1) as events:  # confirm each event
        await events.emit(event)


def _is_retraining(recipe: str) -> bool:
    """Return True if a retraining of the recipe is running, beside which Prefect would skip another one."""
    running = FlowRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING, StateType.CANCELLING])
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=["retrain"])),
            flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=running)),
        )
    return any(run.parameters.get("config", {}).get("name") == recipe for run in runs)


def _resource(recipe: str) -> Resource:
    return Resource({"prefect.resource.id": resource_of(recipe)})


def _read(file: Path) -> dict[str, str]:
    try:
        seen: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no earlier check, or one that was interrupted
        return {}
    return seen


def _write(file: Path, seen: dict[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(seen, indent=1))
