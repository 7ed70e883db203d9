"""New text starts a retraining: look at the addresses of a recipe, and tell Prefect if one has other text by now."""

import json
from pathlib import Path

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.events import emit_event
from prefect.events.worker import EventsWorker

from flows.settings import Settings
from nmt_core.config import PipelineConfig
from nmt_core.corpus.fetching.addresses import scheme_of
from nmt_core.corpus.fetching.lockfile import Lockfile
from nmt_core.corpus.fetching.watching import changes, look, watched
from nmt_core.errors import ConfigError

CHANGED = "nmt.text.changed"
_SECONDS_FOR_THE_EVENT = 30


def resource_of(recipe: str) -> str:
    """What Prefect's events call a recipe."""
    return f"nmt.recipe.{recipe}"


@flow(name="watch", flow_run_name="{config.name}", persist_result=False)
def watch(config: PipelineConfig) -> list[str]:
    """Look whether the text of a recipe has changed since the last look, without fetching it.

    A web or store address is compared by its ETag, or by its size and time; a file of this machine by its sha256. What
    has changed is struck from the recipe's lock file, so that the next retraining fetches it anew; an automation starts
    that retraining. The first look only remembers. Text that the recipe pins by a sha256 cannot change.

    Args:
        config: The recipe.
    """
    logger, addresses = get_run_logger(), watched(config)
    if not config.corpus.lock and any(scheme_of(address) for address in addresses):
        raise ConfigError(
            f"{config.name}: corpus.lock names no file, and without one a retraining takes the text at an address for "
            "what it was the first time: name a file, or pin the text by its sha256"
        )
    state = Settings.load().home / "watch" / f"{config.name}.json"
    before = _read(state)
    now = look(addresses)
    for address, problem in now.unanswered.items():
        logger.warning(f"{address} cannot be looked at: {problem}")
    found = changes(before, now.digests)
    seen = before | now.digests
    rows = [{"address": address, "digest": digest, "changed": address in found} for address, digest in seen.items()]
    create_table_artifact(rows, key="watch", description=f"What {config.name} reads, as it was found now")
    if found:
        logger.info(f"{len(found)} of {len(seen)} addresses have other text: {', '.join(found)}")
        Lockfile(config.corpus.lock).forget(found)
        payload = {"recipe": config.name, "addresses": found}
        emit_event(CHANGED, {"prefect.resource.id": resource_of(config.name)}, payload=payload)
        EventsWorker.drain_all(timeout=_SECONDS_FOR_THE_EVENT)
    else:
        logger.info(f"nothing has changed at {len(seen)} addresses")
    _write(state, seen)  # last: whoever is stopped before this finds the same change again
    return found


def _read(file: Path) -> dict[str, str]:
    try:
        seen: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # the first look, or one that was cut off
        return {}
    return seen


def _write(file: Path, seen: dict[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.partial")
    draft.write_text(json.dumps(seen, indent=1), encoding="utf-8")
    draft.replace(file)
