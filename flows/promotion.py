"""Manual promotion and rollback as Prefect flows."""

from uuid import UUID

from prefect import flow, get_client
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run

from flows.display.markdown import plain
from flows.registry.champions import Author, user_and_machine
from flows.registry.manual import history_of, promote_by_hand, roll_back_by_hand
from flows.runs.endings import completed, ends_in_words
from flows.runs.run_names import Deployed, Parameters, unless_typed
from flows.servers.heartbeats import says_its_end
from flows.settings import Settings


def _name_of_promotion(parameters: Parameters, deployed: Deployed) -> str:
    return f"promote {parameters['model']} {parameters.get('version') or 'challenger'}"


def _name_of_rollback(parameters: Parameters, deployed: Deployed) -> str:
    return f"roll back {parameters['model']}"


@says_its_end
@flow(name="promote", flow_run_name=unless_typed(_name_of_promotion), persist_result=False)
@ends_in_words
def promote(model: str, version: str = "", why: str = "", force: bool = False, pair: str = "") -> str:
    """Make a version of a registered model the champion, regardless of the gate's verdict.

    Args:
        model: Name of the registered model.
        version: Version number. Leave empty to promote the challenger.
        why: Reason for the promotion. It is recorded in the model's history.
        force: Promote the version even if it was rolled back before.
        pair: Pair of languages with a champion of its own, such as en-de. Leave empty for all pairs.
    """
    settings = Settings.load()
    return _told(model, promote_by_hand(model, version, _author(why), settings, force=force, pair=pair), settings)


@says_its_end
@flow(name="rollback", flow_run_name=unless_typed(_name_of_rollback), persist_result=False)
@ends_in_words
def rollback(model: str, why: str = "", pair: str = "") -> str:
    """Restore the previous champion of a registered model. The gate never promotes the replaced version again.

    Args:
        model: Name of the registered model.
        why: Reason for the rollback. It is recorded in the model's history.
        pair: Pair of languages with a champion of its own, such as en-de. Leave empty for all pairs.
    """
    settings = Settings.load()
    return _told(model, roll_back_by_hand(model, _author(why), settings, pair), settings)


def _author(why: str) -> Author:
    """Return the author of a change: the user who started the flow run, if Prefect knows, and the process's user."""
    run_id = str(flow_run.id or "")
    started_by = ""
    if run_id:
        with get_client(sync_client=True) as client:
            creator = client.read_flow_run(UUID(run_id)).created_by
        started_by = creator.display_value or "" if creator else ""
    here = user_and_machine()
    return Author(by="hand", why=why, who=f"{started_by} by {here}" if started_by else here, flow_run=run_id)


def _told(model: str, done: str, settings: Settings) -> str:
    """Show the change and the model's history in Prefect, and return the change."""
    _, events = history_of(model, settings)
    trail = "\n".join(f"- {plain(event)}" for event in reversed(events))
    create_markdown_artifact(f"# {plain(done)}\n\n{trail}\n", key="champion", description=plain(done))
    return completed(done, done)
