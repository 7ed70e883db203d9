"""`nmt clean-history`: remove old runs from MLflow and Prefect."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

import typer

from flows.cli.arguments import Debug
from nmt_core.errors import counted

_UNITS = {"d": 1, "w": 7}


def _age(text: str) -> timedelta:
    if not (match := re.fullmatch(r"([1-9]\d{0,3})([dw])", text)):
        raise typer.BadParameter(f"{text!r} is not an age: write days or weeks, such as 90d or 12w")
    return timedelta(days=int(match[1]) * _UNITS[match[2]])


def clean_history(
    older_than: Annotated[
        timedelta,
        typer.Option(parser=_age, metavar="AGE", help="Remove runs that ended longer ago, such as 90d or 12w."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    debug: Debug = False,
) -> None:
    """Remove old runs from MLflow and Prefect that no registered model needs. Artifacts and models are kept."""
    from flows.display.progress import terminal
    from flows.servers.servers import PrefectApi
    from flows.settings import Settings

    settings = Settings.load()
    settings.prepare(debug=debug)
    note = partial(terminal(to_stderr=False).print, soft_wrap=True)
    with PrefectApi(settings).connected() as api:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
        from prefect.client.orchestration import get_client

        from flows.retention.history import old_runs
        from nmt_core.errors import ModelError, words_of

        api.wait()
        try:
            with get_client(sync_client=True) as prefect:
                runs = old_runs(MlflowClient(settings.mlflow_tracking_uri), prefect, datetime.now(UTC) - older_than)
                for run in runs:
                    several = f", with {run.runs - 1} of its stages" if run.runs > 1 else ""
                    note(f"{run.ended.astimezone():%Y-%m-%d %H:%M}  {run.server:<7}  {run.name}{several}")
                    if not dry_run:
                        run.remove()
        except MlflowException as error:
            raise ModelError(
                f"MLflow at {settings.mlflow_shown} does not answer ({words_of(error)}), so what its models need is "
                "unknown: check that it answers, then run the same command again"
            ) from None
    counts = {server: sum(run.runs for run in runs if run.server == server) for server in ("MLflow", "Prefect")}
    done = "would be removed; nothing was changed" if dry_run else "removed"
    note(f"{counted(counts['MLflow'], 'run')} of MLflow and {counts['Prefect']:,} of Prefect {done}")
    if counts["MLflow"] and not dry_run:
        note(
            "MLflow keeps deleted runs, and their files, until `mlflow gc` frees them "
            "(docs/how-to/operate.md shows how)"
        )
