"""Automations that a Prefect server needs to run unattended. Installing them again changes nothing.

A self-hosted server has none of them. Without the first one, a run whose machine went down stays `Running` until the
next scheduled `reconcile`, and keeps its place in the queue.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect.automations import (
    AutomationCore,
    CallWebhook,
    EventTrigger,
    Posture,
    RunDeployment,
    SendNotification,
)
from prefect.blocks.core import Block
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.exceptions import ObjectNotFound
from pydantic import SecretStr

from flows.runs.preemption import PREEMPTED
from flows.servers.heartbeats import ENDED, HEARTBEAT, HEARTBEATS_MISSED, heartbeat_seconds
from flows.translation.watching import DRIFTED, model_resource
from flows.watch import CHANGED, resource_of
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError

NOTIFY = "NMT_NOTIFY"

_DRIFT_WITHIN = timedelta(days=7)
_ENDS = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed", PREEMPTED)}
_OF_A_RUN = {"prefect.resource.id": "prefect.flow-run.*"}
_BLOCK = "nmt-failures"
_FAILURE = "{{ flow.name }} {{ flow_run.name }} is {{ flow_run.state.name }}: {{ flow_run.state.message }}"
_PAYLOAD = """{
  "text": {{ (flow.name ~ " " ~ flow_run.name ~ " is " ~ flow_run.state.name) | tojson }},
  "flow": {{ flow.name | tojson }},
  "flow_run": {{ flow_run.id | string | tojson }},
  "state": {{ flow_run.state.name | tojson }},
  "message": {{ flow_run.state.message | string | tojson }}
}"""


def silent_runs(reconcile: UUID) -> AutomationCore:
    """Return the automation that starts `reconcile` when a run stops sending heartbeats.

    The server alone could not decide that the run's process is gone: after a downtime of its own, all runs look silent.
    """
    return AutomationCore(
        name="nmt: runs without a heartbeat are Crashed",
        description="`reconcile` waits for another heartbeat. Without one, it marks the run Crashed: run it again.",
        trigger=EventTrigger(
            after={HEARTBEAT},
            expect={HEARTBEAT, ENDED} | _ENDS,
            match=dict(_OF_A_RUN),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=HEARTBEATS_MISSED * heartbeat_seconds()),
        ),
        actions=[RunDeployment(deployment_id=reconcile)],
    )


def failures(client: SyncPrefectClient, notify: str) -> AutomationCore:
    """Return the automation that sends a notification when a run fails or crashes.

    Preempted runs are not included, because they only need a retry.

    Args:
        client: Client of the server.
        notify: Web address of a webhook, or type and name of a block that can notify, as in slack-webhook/team or
            sendgrid-email/team.

    Raises:
        ConfigError: The block does not exist.
    """
    webhook = notify.startswith(("http://", "https://"))
    block = _webhook(notify) if webhook else _block_named(client, notify)
    is_webhook = webhook or notify.startswith("webhook/")
    message: Any = (
        CallWebhook(block_document_id=block, payload=_PAYLOAD)
        if is_webhook
        else SendNotification(block_document_id=block, subject="nmt-pipeline: a run has failed", body=_FAILURE)
    )
    return AutomationCore(
        name="nmt: tell of runs that fail",
        description=f"Set by {NOTIFY}.",
        trigger=EventTrigger(
            expect={"prefect.flow-run.Failed", "prefect.flow-run.Crashed"},
            match=dict(_OF_A_RUN),
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[message],
    )


def name_of_new_text(recipe: str) -> str:
    """Return the name of the automation that retrains a recipe."""
    return f"nmt: retrain {recipe} when its text changes"


def new_text(recipe: str, retrain: UUID) -> AutomationCore:
    """Return the automation that retrains a recipe when `watch` finds that its text has changed."""
    return AutomationCore(
        name=name_of_new_text(recipe),
        description="The flow `watch` checks the addresses of the corpora.",
        trigger=_after(CHANGED, resource_of(recipe)),
        actions=[RunDeployment(deployment_id=retrain)],
    )


def name_of_drift(recipe: str) -> str:
    """Return the name of the automation that retrains a recipe after jobs with drift."""
    return f"nmt: retrain {recipe} when translated text drifts"


def drift(recipe: str, model: str, jobs: int, retrain: UUID) -> AutomationCore:
    """Return the automation that retrains a recipe after a number of jobs with drift within a week."""
    return AutomationCore(
        name=name_of_drift(recipe),
        description="The flow `translate` compares each job with the training text and with earlier jobs.",
        trigger=_after(DRIFTED, model_resource(model), jobs, _DRIFT_WITHIN),
        actions=[RunDeployment(deployment_id=retrain)],
    )


def _after(event: str, resource: str, times: int = 1, within: timedelta = timedelta(0)) -> EventTrigger:
    """Return the trigger that fires when a resource has sent an event a number of times within a period."""
    return EventTrigger(
        expect={event},
        match={"prefect.resource.id": resource},
        posture=Posture.Reactive,
        threshold=times,
        within=within,
    )


def install(client: SyncPrefectClient, wanted: Iterable[AutomationCore]) -> list[str]:
    """Create missing automations and update those that differ. A paused automation stays paused.

    Of several with one name, which two installations at once create, one stays: each would start a run.
    """
    done = []
    for automation in wanted:
        found = client.read_automations_by_name(automation.name)
        for twin in found[1:]:
            with suppress(ObjectNotFound):  # another installation has just removed it
                client.delete_automation(twin.id)
            done.append(f"removed the second {automation.name}")
        if not found:
            client.create_automation(automation)
            done.append(f"created {automation.name}")
        elif _content(found[0]) != _content(automation):
            client.update_automation(found[0].id, automation.model_copy(update={"enabled": found[0].enabled}))
            done.append(f"updated {automation.name}")
    return done


def wanted_automations(
    client: SyncPrefectClient,
    retrains: Sequence[tuple[str, UUID]],
    reconcile: UUID | None,
    drifts: Sequence[tuple[PipelineConfig, UUID]] = (),
) -> list[AutomationCore]:
    """Return all automations that a server needs.

    Args:
        client: Client of the server.
        retrains: Recipes whose text is watched, with their deployments of `retrain`.
        reconcile: Deployment of `reconcile`, if there is one.
        drifts: Recipes that are retrained after drift (`schedule.drifting_jobs`), with their deployments of `retrain`.
    """
    automations = [new_text(recipe, deployment) for recipe, deployment in retrains]
    automations += [
        drift(config.name, config.model_name, config.schedule.drifting_jobs, deployment)
        for config, deployment in drifts
    ]
    automations += [silent_runs(reconcile)] if reconcile else []
    if notify := os.environ.get(NOTIFY, ""):
        automations.append(failures(client, notify))
    return automations


def _content(automation: AutomationCore) -> dict[str, Any]:
    """Return the content of an automation without what the server adds. Events are sets, whose order does not count."""
    return automation.model_dump(include={"description", "trigger", "actions"})


def _webhook(address: str) -> UUID:
    """Save the address in a block, which Prefect encrypts because it may be a secret."""
    block = Webhook(url=SecretStr(address))
    return UUID(str(block.save(_BLOCK, overwrite=True)))


def _block_named(client: SyncPrefectClient, name: str) -> UUID:
    if name.count("/") != 1:
        raise ConfigError(
            f"{NOTIFY}={name!r}: must be a web address, or a block's type and name such as slack-webhook/team"
        )
    try:
        block = Block.load(name)
    except ValueError:
        raise ConfigError(
            f"{NOTIFY}={name!r}: no such block on the server: `prefect block ls` lists the blocks"
        ) from None
    document = block._block_document_id  # type: ignore[union-attr]  # Prefect has no public access to it
    if document is None:
        raise ConfigError(f"{NOTIFY}={name!r}: the block has not been saved: save it in Prefect first")
    return UUID(str(document))
