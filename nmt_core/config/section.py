"""Base class of all sections: a frozen group of options that becomes a form in the Prefect UI."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nmt_core.config.renamed import with_present_names

Seed = Annotated[int, Field(ge=0, lt=2**63)]
"""Seed of a random generator. PyTorch's takes no larger one."""
LARGE = 2**53
"""Bounds from here on come from the width of an integer, and tell a reader nothing."""


def _shape_forms(schema: dict[str, Any]) -> None:
    """Number the fields of a form, and add their bounds to their descriptions.

    With PostgreSQL, Prefect orders nested fields by `position` only. With any database, it checks bounds without
    showing them.
    """
    for position, field in enumerate(schema.get("properties", {}).values()):
        field["position"] = position
        if bounds := _bounds(field):
            field["description"] = f"{field['description']} Allowed: {bounds}."


def _bounds(field: dict[str, Any]) -> str:
    """Return the bounds of a number in words, such as `0 or more, less than 1`."""
    words = {"minimum": "{} or more", "exclusiveMinimum": "more than {}"}
    words |= {"maximum": "{} or less", "exclusiveMaximum": "less than {}"}
    shown = {key: field[key] for key in words if key in field and field[key] < LARGE}
    return ", ".join(words[key].format(f"{bound:,}") for key, bound in shown.items())


def later(default: Any, **constraints: Any) -> Any:
    """Return the field of an option that an earlier version did not have.

    While it has its default, it is left out of stored recipes and of fingerprints. So recipes that do not use it keep
    their artifacts.
    """
    return Field(default, exclude_if=lambda value: bool(value == default), **constraints)


class Section(BaseModel):
    """Frozen group of options. An unknown key is an error, and no value is adjusted silently."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        json_schema_extra=_shape_forms,
    )

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_names(cls, values: Any) -> Any:
        return with_present_names(values)
