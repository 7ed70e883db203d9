"""Who stands beside the new model in the report: the champion that it meets when it is registered."""

from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from flows.runs.start_from import tag_of
from flows.runs.summary import Champion

_ALIAS = "champion"


def champion_before(model_name: str, export: str, evaluate: str, tracking_uri: str) -> Champion | None:
    """The champion, if there is one that is not the new model itself, which the fingerprints name."""
    try:
        version = MlflowClient(tracking_uri).get_model_version_by_alias(model_name, _ALIAS)
    except MlflowException:  # there is none; or MLflow does not answer, and registering will say so
        return None
    theirs = version.tags.get(tag_of("evaluate"), "")
    if (version.tags.get(tag_of("export")), theirs) == (export, evaluate):
        return None
    return Champion(version=str(version.version), evaluate=theirs)
