"""Tags of an MLflow run that name its owner: the Prefect flow run, the attempt at it, and the process."""

FLOW_RUN_TAG = "prefect.flow_run_id"
"""Id of the Prefect flow run."""

ATTEMPT_TAG = "prefect.flow_run_attempt"
"""Number of the attempt: Retry keeps the flow run."""

PROCESS_TAG = "nmt.process"
"""The process, as `nmt_core.execution.processes.this_process` names it."""
