"""Champion that the report compares the new model with."""

from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from flows.runs.start_from import tag_of
from flows.runs.summary import Champion


def champion_before(model_name: str, alias: str, export: str, evaluate: str, tracking_uri: str) -> Champion | None:
    """Return the current champion, or None if there is none or if it is the new model itself.

    Args:
        model_name: Name of the registered model.
        alias: Alias of the champion for all pairs of languages, or of the champion for one.
        export: Fingerprint of the new model's export.
        evaluate: Fingerprint of the new model's evaluation.
        tracking_uri: Address of MLflow.
    """
    try:
        version = MlflowClient(tracking_uri).get_model_version_by_alias(model_name, alias)
    except MlflowException:  # no champion; if MLflow does not answer, registering reports it
        return None
    evaluated = version.tags.get(tag_of("evaluate"), "")
    if (version.tags.get(tag_of("export")), evaluated) == (export, evaluate):
        return None
    return Champion(version=str(version.version), evaluate=evaluated)
