"""Deployments: what the Prefect UI offers to run. `nmt up` serves them; `python -m flows.deploy` does so alone."""

from prefect import serve
from prefect.deployments.runner import RunnerDeployment
from prefect.types.entrypoint import EntrypointType

from flows.retrain import retrain
from flows.selection import STEPS
from flows.stages import run_stage
from flows.translate import translate
from nmt_core.recipe import load_recipe, recipe_names

_FIRST_RECIPE = "quickstart"
_BY_MODULE = EntrypointType.MODULE_PATH


def deployments() -> list[RunnerDeployment]:
    """A deployment of `retrain` for each recipe, one for each stage, and `translate`."""
    recipes = {name: load_recipe(name).model_dump(mode="json") for name in recipe_names()}
    found = [
        retrain.to_deployment(name, parameters={"config": config}, entrypoint_type=_BY_MODULE)
        for name, config in recipes.items()
    ]
    found += [
        run_stage.to_deployment(
            name, parameters={"stage": name, "config": recipes[_FIRST_RECIPE]}, entrypoint_type=_BY_MODULE
        )
        for name in STEPS
    ]
    found.append(translate.to_deployment("translate", entrypoint_type=_BY_MODULE))
    return found  # type: ignore[return-value]  # to_deployment is typed as maybe asynchronous


if __name__ == "__main__":
    serve(*deployments())
