"""Options that differ from the recipe of a run."""

from pathlib import Path

import pytest

from flows.runs.changes import begun_with, changes_of, differences, in_words
from nmt_core.recipes.recipe import load_recipe


def test_each_option_that_was_changed_is_found_and_no_other() -> None:
    recipe = load_recipe("quickstart")
    changed = load_recipe("quickstart", ["clean.max_words=12", "train.max_updates=60"])
    assert differences(recipe, changed) == {"clean.max_words": 12, "train.max_updates": 60}
    assert in_words(differences(recipe, changed)) == "clean.max_words=12 train.max_updates=60"
    assert differences(recipe, recipe) == {}


def test_what_changes_no_result_is_not_compared() -> None:
    changed = load_recipe("quickstart", ["schedule.cron=0 3 * * *", "description=Another one."])
    assert differences(load_recipe("quickstart"), changed) == {}


def test_an_option_that_is_left_out_while_it_has_its_default_is_found_in_both_directions(tmp_path: Path) -> None:
    recipe = load_recipe("quickstart")
    queued = load_recipe("quickstart", ["search.no_repeat_ngram_size=3"])
    assert differences(recipe, queued) == {"search.no_repeat_ngram_size": 3}
    assert differences(queued, recipe) == {"search.no_repeat_ngram_size": recipe.search.no_repeat_ngram_size}


def test_a_run_is_compared_with_the_recipe_that_it_was_started_with(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("{name: mine, corpus: {toy: {}}, clean: {max_words: 20}}")
    changed = load_recipe(str(file), ["clean.max_words=12"])
    assert changes_of(changed) == {}, "nothing is known of its recipe"
    with begun_with(str(file)):
        assert changes_of(changed) == {"clean.max_words": 12}
        assert changes_of(load_recipe(str(file))) == {}


def test_a_recipe_of_the_package_is_known_by_its_name() -> None:
    assert changes_of(load_recipe("quickstart", ["clean.max_words=12"])) == {"clean.max_words": 12}


@pytest.mark.parametrize("missing", ["nowhere.yaml", "nonsense"])
def test_a_recipe_that_cannot_be_read_is_no_error(missing: str) -> None:
    with begun_with(missing):
        assert changes_of(load_recipe("quickstart")) == {}
