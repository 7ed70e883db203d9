"""Addresses of MLflow's pages, and the columns that its table of runs shows first.

MLflow opens on pages for generative AI, which do not list runs. The parameter `workflowType` selects the others.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.entities import Experiment

KIND_TAG = "kind"
"""Tag with the kind of a run, as the table of runs shows it."""
VERDICT_TAG = "verdict"
"""Tag with the verdict of the gate on the model of a run."""
CHANGES_TAG = "changes"
"""Tag with the options that differ from the recipe."""
RESULT = "result/"
"""Beginning of the names of single numbers of a training, which MLflow's page shows in a section after the curves."""
HEADLINES = ("BLEU", "chrF")
"""Metrics of a run that are the first columns, on the main test set."""

_MACHINE_LEARNING = "workflowType=machine_learning"
_VIEW = "nmt"
VIEW_TAG = f"mlflow.sharedViewState.{_VIEW}"
"""Tag of an experiment in which MLflow's pages find the view of its table."""
_COLUMNS = [f"metrics.`{name}`" for name in HEADLINES]
_COLUMNS += [f"tags.`{tag}`" for tag in (VERDICT_TAG, KIND_TAG, CHANGES_TAG)]
VIEW = json.dumps({"selectedColumns": ["attributes.`Duration`", *_COLUMNS]})
"""View of a table of runs: the columns that say what came out, instead of the user, the source and the version."""


def start_page(server: str, experiments: "Sequence[Experiment]" = ()) -> str:
    """Return the address of the runs of the experiment that was used last, or of the list if there is none.

    The list does not pass the selected pages on: an experiment that is opened from it shows no runs.
    """
    used = [experiment for experiment in experiments if VIEW_TAG in experiment.tags]
    if newest := max(used, key=lambda experiment: experiment.last_update_time or 0, default=None):
        return runs_page(server, newest.experiment_id)
    return f"{server}/#/experiments?{_MACHINE_LEARNING}"


def runs_page(server: str, experiment: str) -> str:
    """Return the address of the table of an experiment's runs."""
    return f"{server}/#/experiments/{experiment}/runs?{_MACHINE_LEARNING}&viewStateShareKey={_VIEW}"


def run_page(server: str, experiment: str, run: str, tab: str = "") -> str:
    """Return the address of the page of a run, or of a part of this page, such as `artifacts/report.html`."""
    return f"{server}/#/experiments/{experiment}/runs/{run}{f'/{tab}' if tab else ''}?{_MACHINE_LEARNING}"


def version_page(server: str, model: str, version: str) -> str:
    """Return the address of the page of a version of a registered model."""
    return f"{server}/#/models/{model}/versions/{version}?{_MACHINE_LEARNING}"
