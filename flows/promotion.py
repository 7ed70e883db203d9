"""Promotion and rollback by hand, as Prefect flows."""

from uuid import UUID

from prefect import flow, get_client
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run

from flows.display.markdown import plain
from flows.registry.champions import Author, user_and_machine
from flows.registry.manual import history_of, promote_by_hand, roll_back_by_hand
from flows.servers.heartbeats import says_its_end
from flows.settings import Settings


@says_its_end
@flow(name="promote", flow_run_name="promote {model}", persist_result=False)
def promote(model: str, version: str = "", why: str = "", force: bool = False) -> str:
    """Make a version of a registered model the champion, whatever the gate said of it.

    Args:
        model: Name of the registered model.
        version: Number of the version; empty: the challenger.
        why: The reason, for whoever looks into it later.
        force: Also a version that was rolled back before.
    """
    settings = Settings.load()
    return _told(model, promote_by_hand(model, version, _author(why), settings, force=force), settings)


@says_its_end
@flow(name="rollback", flow_run_name="roll back {model}", persist_result=False)
def rollback(model: str, why: str = "") -> str:
    """Make the champion before this one the champion again; the gate never promotes this one again by itself.

    Args:
        model: Name of the registered model.
        why: The reason, for whoever looks into it later.
    """
    settings = Settings.load()
    return _told(model, roll_back_by_hand(model, _author(why), settings), settings)


def _author(why: str) -> Author:
    """Whoever Prefect says has started the run, if it knows, and whose process this is."""
    run_id = str(flow_run.id or "")
    started_by = ""
    if run_id:
        with get_client(sync_client=True) as client:
            creator = client.read_flow_run(UUID(run_id)).created_by
        started_by = creator.display_value or "" if creator else ""
    here = user_and_machine()
    return Author(by="hand", why=why, who=f"{started_by} by {here}" if started_by else here, flow_run=run_id)


def _told(model: str, done: str, settings: Settings) -> str:
    """Show in Prefect what was done, and all changes before it."""
    _, events = history_of(model, settings)
    trail = "\n".join(f"- {plain(event)}" for event in reversed(events))
    create_markdown_artifact(f"# {plain(done)}\n\n{trail}\n", key="champion", description=plain(done))
    return done
