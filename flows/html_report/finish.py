"""What a run does at its end: the report, in the run's folder, in MLflow and in Prefect."""

from prefect.artifacts import create_link_artifact

from flows.html_report.page import write_page
from flows.runs.summary import PAGE, RunSummary
from flows.settings import Settings
from flows.tracking.mlflow_tracker import TrackedRun, Tracker
from nmt_core.errors import words_of

_LINK = "report"
"""Key of the artifact in Prefect."""


def hand_out(summary: RunSummary, settings: Settings, tracker: Tracker, tracked: TrackedRun, mlflow_page: str) -> str:
    """Write the report, and tell MLflow and Prefect of it; return why that failed, or nothing. Never raises.

    Args:
        summary: of the run, which has ended.
        settings: where the run's folder is.
        tracker: of MLflow.
        tracked: the run there.
        mlflow_page: address of the run there; empty: MLflow is a database without a server.
    """
    try:
        file = write_page(summary, settings)
        tracker.text(tracked, file.read_text(encoding="utf-8"), PAGE)
        if summary.status == "finished":  # else Prefect may be what failed, and would be waited for
            link = f"{mlflow_page}/artifacts/{PAGE}" if mlflow_page else file.as_uri()
            create_link_artifact(link, key=_LINK, description="Report of the run")
    except Exception as error:
        return f"the report is not complete ({type(error).__name__}: {words_of(error)})"
    return ""
