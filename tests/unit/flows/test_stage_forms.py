"""The form of each stage: its fields in the Prefect UI, with their order, bounds and choices."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.utilities.schema_tools.validation import validate

from flows.deployment.deployments import Entry, Pools, table
from flows.deployment.forms import ALL_OPTIONS, OF_THE_RECIPE
from flows.runs.origin import producer_of
from flows.runs.selection import STEPS, StepName
from flows.stages import STAGE_FLOWS, sections_of
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.recipes.recipe import load_recipe, with_changes

NOT_OF_A_STAGE = {"rounds", "name", "description", "schedule", "budget"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NMT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def with_all_stages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Recipe that requires the optional stages too."""
    file = tmp_path_factory.mktemp("recipe") / "distilled.yaml"
    part = {"name": "distilled", "text": "parallel_source", "teachers": "models:/large@champion"}
    rough = {"parts": [{"name": "capitals", "changes": "upper_case"}]}
    config = load_recipe("quickstart").model_dump(mode="json", exclude_none=True)
    file.write_text(
        yaml.safe_dump(config | {"name": "distilled", "synthesis": {"parts": [part]}, "augmentation": rough})
    )
    return str(file)


def stages_in(entries: list[Entry]) -> list[str]:
    return [entry.flow.name for entry in entries if entry.flow in STAGE_FLOWS.values()]


def test_only_stages_that_a_recipe_has_are_deployed(with_all_stages: str) -> None:
    assert stages_in(table([with_all_stages])) == list(STEPS)
    assert stages_in(table()) == [step for step in STEPS if step not in ("synthesise", "augment")]


@pytest.fixture(scope="module")
def schemas(with_all_stages: str) -> dict[str, dict[str, Any]]:
    """Schemas of the parameters of each stage's deployment, as the server gets them."""
    found = [entry for entry in table([with_all_stages]) if entry.flow in STAGE_FLOWS.values()]
    return {
        entry.flow.name: entry.deployment(Pools())._parameter_openapi_schema.model_dump(exclude_unset=True)
        for entry in found
    }


def test_every_option_is_in_the_form_of_one_stage() -> None:
    sections = [section for step in STEPS for section in sections_of(step)]
    assert len(sections) == len(set(sections))
    assert {*sections} | NOT_OF_A_STAGE == set(PipelineConfig.model_fields)


@pytest.mark.parametrize(
    ("step", "producer"),
    [("download", None), ("clean", "download"), ("split", "clean"), ("train", "encode"), ("register", "evaluate")],
)
def test_a_stage_begins_with_what_the_last_one_before_it_made(step: StepName, producer: str | None) -> None:
    assert producer_of(step) == producer


@pytest.mark.parametrize("step", STEPS)
def test_a_form_begins_with_the_input_and_changes_and_then_has_the_sections(
    schemas: dict[str, dict[str, Any]], step: StepName
) -> None:
    fields = schemas[step]["properties"]
    by_position = sorted(fields, key=lambda name: fields[name]["position"])
    own = list(sections_of(step))
    first = [name for name in ("input", "force", "changes") if name in fields]
    assert by_position == [*first, *own, "recipe"]
    assert ("input" in fields) == (step != "download")
    assert ("force" in fields) == (step != "register")
    assert all(fields[name]["description"] for name in (*first, "recipe"))
    assert schemas[step]["required"] == own


@pytest.mark.parametrize("step", STEPS)
def test_fields_have_titles_descriptions_and_the_order_of_the_configuration(
    schemas: dict[str, dict[str, Any]], step: StepName
) -> None:
    for section in sections_of(step):
        model: Any = PipelineConfig.model_fields[section].annotation
        fields = schemas[step]["definitions"][model.__name__]["properties"]
        assert sorted(fields, key=lambda name: fields[name]["position"]) == list(model.model_fields)
        assert all(field["description"] for field in fields.values())
        # a field that is a section of its own has its title there
        assert all("title" in field or "$ref" in field or "anyOf" in field for field in fields.values())


def test_bounds_and_choices_are_in_the_form(schemas: dict[str, dict[str, Any]]) -> None:
    drawn, checked = schemas["clean"]["properties"]["clean"]["allOf"]
    assert drawn == {"$ref": "#/definitions/CleanConfig"}
    fields = checked["then"]["properties"]
    assert fields["unicode_form"]["enum"] == ["NFC", "NFKC"]
    assert (fields["min_letter_share"]["minimum"], fields["min_letter_share"]["maximum"]) == (0, 1)
    assert fields["max_words"]["minimum"] == 1
    # Prefect checks bounds, and does not show them
    fields = schemas["clean"]["definitions"]["CleanConfig"]["properties"]
    assert "minimum" not in fields["max_words"], "else the form reports that no member of a union matches"
    assert fields["max_words"]["description"] == "Maximum number of words on each side. Allowed: 1 or more."
    assert fields["min_letter_share"]["description"].endswith(" Allowed: 0 or more, 1 or less.")
    assert fields["max_length_ratio"]["description"].endswith(" Allowed: more than 1.")


def test_the_example_of_a_change_is_one_that_the_stage_takes(schemas: dict[str, dict[str, Any]]) -> None:
    recipe = load_recipe("quickstart")
    for step in STEPS:
        (example,) = re.findall(r"`(.*?)`", schemas[step]["properties"]["changes"]["description"])
        assert example.split(".")[0] in sections_of(step)
        assert with_changes(recipe, example) != recipe, "a change"


def test_a_change_that_another_stage_reads_is_refused_in_one_line(prefect_api: str, home: Path) -> None:
    values = {name: getattr(load_recipe("quickstart"), name) for name in sections_of("download")}
    with pytest.raises(ConfigError, match=r"changes: clean\.max_words=3: download does not decide this") as caught:
        STAGE_FLOWS["download"](**values, changes="clean.max_words=3", recipe="quickstart")
    assert "\n" not in str(caught.value)


def test_help_shows_tags_as_they_are(schemas: dict[str, dict[str, Any]]) -> None:
    fields = schemas["evaluate"]["definitions"]["SearchConfig"]["properties"]
    assert "may contain \\<unk>" in fields["allow_unknown"]["description"]
    descriptions = [
        field["description"]
        for schema in schemas.values()
        for definition in schema["definitions"].values()
        for field in definition.get("properties", {}).values()
        if "description" in field
    ]
    tags = [text for text in descriptions if re.search(r"(?<!\\)<", re.sub("`[^`]*`", "", text))]
    assert tags == []


def test_an_optional_number_is_a_number_that_may_be_left_empty(schemas: dict[str, dict[str, Any]]) -> None:
    field = schemas["register"]["properties"]["registry"]["allOf"][1]["then"]["properties"]["min_score"]
    assert (field["type"], field["minimum"], field["maximum"]) == ("number", 0, 100)
    assert "anyOf" not in field and "default" not in field
    drawn = schemas["register"]["definitions"]["RegistryConfig"]["properties"]["min_score"]
    assert (drawn["type"], "anyOf" in drawn) == ("number", False)
    assert drawn["description"].endswith(" Allowed: 0 or more, 100 or less.")


def test_a_retraining_asks_first_what_is_asked_most_and_shows_nothing_that_does_nothing() -> None:
    forms = {entry.full_name: entry.deployment(Pools())._parameter_openapi_schema for entry in table(["quickstart"])}
    fields = forms["retrain/quickstart"].properties
    order = sorted(fields, key=lambda name: fields[name]["position"])
    assert order == ["from_", "until", "force", "changes", "config", "run_id"]
    assert fields["from_"]["title"] == "from"
    assert "register" not in fields["force"]["items"]["enum"], "it is always refused"
    assert "schedule" not in forms["retrain/quickstart"].definitions["PipelineConfig"]["properties"]
    nothing = [
        f"{name}: {field}"
        for name, form in forms.items()
        for field, schema in form.properties.items()
        if any(kind.get("type") == "null" for kind in schema.get("anyOf", ()))
    ]
    assert nothing == []


def test_a_form_is_filled_in_with_the_recipe() -> None:
    (entry,) = [entry for entry in table() if entry.full_name == "clean/quickstart"]
    assert entry.parameters["clean"]["expected_length_ratio"] == 2.0
    assert entry.parameters["recipe"] == "quickstart"
    entry.flow.validate_parameters(dict(entry.parameters))


def test_a_section_shows_what_the_recipe_sets_and_unfolds_into_all_options_with_its_values() -> None:
    """Prefect's form opens the member of a union that has the most keys of the value, and the first of equals."""
    (entry,) = [entry for entry in table() if entry.full_name == "retrain/quickstart"]
    recipe, form = load_recipe("quickstart"), entry.deployment(Pools())._parameter_openapi_schema
    sections = form.definitions["PipelineConfig"]["properties"]
    folded = {name: section["anyOf"] for name, section in sections.items() if "anyOf" in section}
    assert {"corpus", "clean", "model", "train", "registry"} <= folded.keys() and "languages" not in folded
    unfolded = dict(entry.parameters["config"])
    for name, members in folded.items():
        values = unfolded[name]
        assert [member["title"] for member in members] == [OF_THE_RECIPE, ALL_OPTIONS]
        first, every = (member["properties"] for member in members)
        assert values.keys() <= first.keys() < every.keys()
        defaults = {option: field["default"] for option, field in every.items() if "default" in field}
        assert len(defaults) > len(first), "an unfolded section stays unfolded"
        unfolded[name] = defaults
    assert with_changes(unfolded, "") == recipe, "unfolding changes no value"
    shown = sum(len(members[0]["properties"]) for members in folded.values())
    assert shown < 50 < 140 < sum(len(members[1]["properties"]) for members in folded.values())


def test_a_folded_form_still_is_the_whole_recipe_and_names_the_option_that_is_wrong() -> None:
    (entry,) = [entry for entry in table() if entry.full_name == "retrain/quickstart"]
    form = entry.deployment(Pools())._parameter_openapi_schema.model_dump(exclude_unset=True)
    config = entry.parameters["config"]
    assert with_changes(config, "") == load_recipe("quickstart")
    assert validate({"config": config}, form) == []
    wrong = config | {"train": config["train"] | {"max_updates": 0, "max_update": 1}}
    (at, message), (_, unknown) = sorted(
        ((list(error.absolute_path), error.message) for error in validate({"config": wrong}, form)), reverse=True
    )
    assert (at, message) == (["config", "train", "max_updates"], "0 is less than the minimum of 1")
    assert "'max_update' was unexpected" in unknown


def test_forms_of_two_recipes_do_not_share_their_values(with_all_stages: str) -> None:
    forms = {
        entry.recipe: entry.deployment(Pools())._parameter_openapi_schema.definitions["PipelineConfig"]
        for entry in table(["quickstart", with_all_stages])
        if entry.kind == "retrain"
    }
    parts = {name: form["properties"]["synthesis"]["anyOf"][0]["properties"] for name, form in forms.items()}
    assert parts["distilled"]["parts"]["default"] != parts["quickstart"]["parts"].get("default")
