"""Batch translation as a Prefect flow: the same function as `nmt translate`."""

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from flows import reports
from flows.settings import Settings
from flows.translation import translate_file


@flow(name="translate", persist_result=False)
def translate(model: str, source: str, target: str, beam_size: int | None = None) -> dict[str, int]:
    """Translate a file, line by line.

    Args:
        model: models:/NAME@champion, or the folder of an exported model.
        source: Text file to read.
        target: Text file to write, one line for each line read.
        beam_size: Beam size, if not the model's own.
    """
    statuses = translate_file(model, source, target, beam_size, Settings.load())
    report = {"model": model, "target": target, "lines": statuses.total(), "by_status": dict(statuses)}
    create_markdown_artifact(reports.markdown(f"translated {source}", report), key="report-translate")
    return dict(statuses)
