"""The form of each stage: what the Prefect UI shows, in which order, with which bounds and choices."""

from typing import Any

import pytest

from flows.deployment.deployments import Pools, table
from flows.runs.origin import producer_of
from flows.runs.selection import STEPS, StepName
from flows.stages import STAGE_FLOWS, sections_of
from nmt_core.config import PipelineConfig

NOT_OF_A_STAGE = {"name", "description", "schedule", "budget"}


@pytest.fixture(scope="module")
def schemas() -> dict[str, dict[str, Any]]:
    """What the server is told of the parameters of each stage's deployment."""
    found = [entry for entry in table() if entry.flow in STAGE_FLOWS.values()]
    return {
        entry.flow.name: entry.deployment(Pools())._parameter_openapi_schema.model_dump(exclude_unset=True)
        for entry in found
    }


def test_every_knob_is_in_the_form_of_one_stage() -> None:
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
def test_a_form_begins_with_the_sections_of_the_stage(schemas: dict[str, dict[str, Any]], step: StepName) -> None:
    fields = schemas[step]["properties"]
    by_position = sorted(fields, key=lambda name: fields[name]["position"])
    own = list(sections_of(step))
    rest = [name for name in ("input", "recipe", "force") if name in fields]
    assert by_position == own + rest
    assert ("input" in fields) == (step != "download")
    assert all(fields[name]["description"] for name in rest)
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
    fields = schemas["clean"]["definitions"]["CleanConfig"]["properties"]
    assert fields["unicode_form"]["enum"] == ["NFC", "NFKC"]
    assert (fields["min_letter_share"]["minimum"], fields["min_letter_share"]["maximum"]) == (0, 1)
    assert fields["max_words"]["minimum"] == 1
    # Prefect checks bounds, and does not show them
    assert fields["max_words"]["description"] == "Maximum number of words on each side. Allowed: 1 or more."
    assert fields["min_letter_share"]["description"].endswith(" Allowed: 0 or more, 1 or less.")
    assert fields["max_length_ratio"]["description"].endswith(" Allowed: more than 1.")


def test_a_form_is_filled_in_with_the_recipe() -> None:
    (entry,) = [entry for entry in table() if entry.full_name == "clean/quickstart"]
    assert entry.parameters["clean"]["expected_length_ratio"] == 2.0
    assert entry.parameters["recipe"] == "quickstart"
    entry.flow.validate_parameters(dict(entry.parameters))
