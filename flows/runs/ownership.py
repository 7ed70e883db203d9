"""Tags of Prefect and MLflow that say what belongs to whom.

The owner of an MLflow run is the Prefect flow run, its attempt, and the process.
"""

DEPLOYMENT_TAG = "nmt"
"""Tag of all deployments of this package in Prefect."""

FLOW_RUN_TAG = "prefect.flow_run_id"
"""Id of the Prefect flow run."""

ATTEMPT_TAG = "prefect.flow_run_attempt"
"""Number of the attempt. A retry keeps the flow run."""

PROCESS_TAG = "nmt.process"
"""Process, as `nmt_core.execution.processes.this_process` names it."""
