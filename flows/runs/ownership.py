"""Tags that name the owner of an MLflow run: the Prefect flow run, its attempt, and the process."""

FLOW_RUN_TAG = "prefect.flow_run_id"
"""Id of the Prefect flow run."""

ATTEMPT_TAG = "prefect.flow_run_attempt"
"""Number of the attempt. A retry keeps the flow run."""

PROCESS_TAG = "nmt.process"
"""Process, as `nmt_core.execution.processes.this_process` names it."""
