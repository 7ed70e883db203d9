"""`nmt plan` and `nmt why` report from where a training would resume, and the training resumes there."""

from typing import Any

import pytest

from nmt_core.train.continuing import CONTINUED


def longer(recipe: list[str], updates: int) -> list[str]:
    """Return the recipe with this many updates."""
    return [*recipe, "--set", f"train.max_updates={updates}"]


@pytest.mark.slow
@pytest.mark.cpu(60)
def test_a_plan_names_the_training_from_which_a_longer_one_would_resume(
    finished: tuple[Any, dict[str, Any]], recipe: list[str]
) -> None:
    nmt, summary = finished
    shorter = next(stage["artifact"] for stage in summary["stages"] if stage["name"] == "train")
    name = f"train/{shorter.rpartition('/')[2][:12]}"
    said = nmt("why", "train", *longer(recipe, 60)).stdout
    assert f"train would run: train.max_updates: 40 -> 60; resumes from update 40 of {name}" in said
    assert "40 -> 60; resumes from update 40 of " in nmt("plan", *longer(recipe, 60)).stdout
    assert "resumes" not in nmt("why", "train", *longer(recipe, 39)).stdout, "it would be over before that update"
    assert "resumes" not in nmt("why", "train", *longer(recipe, 60), "--set", "train.seed=7").stdout
    assert "resumes" not in nmt("plan", *longer(recipe, 60), "--force", "train").stdout


@pytest.mark.slow
@pytest.mark.cpu(25)
def test_it_does_what_the_plan_says_and_then_resumes_from_itself(
    continued_alone: tuple[Any, dict[str, Any]], recipe: list[str]
) -> None:
    nmt, _ = continued_alone
    store = nmt.home / "artifacts" / "train"
    before = set(store.iterdir())
    nmt.run("--until", "train", "--set", "train.max_updates=60")
    (made,) = (path for path in set(store.iterdir()) - before if path.is_dir())
    assert (made / CONTINUED).exists() and '"update": 40' in (made / CONTINUED).read_text()
    made.rename(made.with_name(f"{made.name}.partial"))  # as an interrupted one is left
    assert "; resumes from update 60" in nmt("why", "train", *longer(recipe, 60)).stdout
