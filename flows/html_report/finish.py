"""Last step of a run: its report in the run's folder, in MLflow and in Prefect."""

from prefect.artifacts import create_markdown_artifact

from flows.display.outcome import outcome, result_page
from flows.html_report.page import write_page
from flows.runs.summary import PAGE, RunSummary
from flows.settings import Settings
from flows.tracking.mlflow_tracker import TrackedRun, Tracker
from nmt_core.errors import words_of

_RESULT = "report"
"""Key of the artifact in Prefect. The page of a run shows it first, because all others belong to the run's tasks."""


def hand_out(summary: RunSummary, settings: Settings, tracker: Tracker, tracked: TrackedRun, report_page: str) -> str:
    """Write the report, and publish it in MLflow and Prefect. Never raises.

    Args:
        summary: Summary of the run, which has ended.
        settings: Settings that locate the run's folder.
        tracker: Tracker of MLflow.
        tracked: MLflow run that represents this run.
        report_page: Address of the report in MLflow. Empty means that no server shows it.

    Returns:
        Message about what failed, or an empty text.
    """
    try:
        file = write_page(summary, settings)
        tracker.text(tracked, file.read_text(encoding="utf-8"), PAGE)
        if summary.status == "finished":  # otherwise Prefect may be what failed, and the call would wait for it
            link = report_page or file.as_uri()
            text = result_page(summary, summary.pages.get("MLflow", ""), link)
            create_markdown_artifact(text, key=_RESULT, description=outcome(summary))
    except Exception as error:
        return f"the report is incomplete ({type(error).__name__}: {words_of(error)})"
    return ""
