"""Base class of all sections: a frozen group of options that becomes a form in the Prefect UI."""

import re
import shlex
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from nmt_core.config.renamed import with_present_names

Seed = Annotated[int, Field(ge=0, lt=2**63)]
"""Seed of a random generator. PyTorch's takes no larger one."""


def _is_command(text: str) -> str:
    if text and not shlex.split(text):
        raise ValueError("names no program: write the command, or leave it empty")
    return text


Command = Annotated[str, AfterValidator(_is_command)]
"""Program with its arguments, in the syntax of a POSIX shell, which runs without a shell. Empty means none."""
LARGE = 2**53
"""Bounds from here on come from the width of an integer, and tell a reader nothing."""
_SCALARS = {"integer", "number", "string", "boolean"}


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs for a second time, or None if all differ."""
    seen = set[str]()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _shape_forms(schema: dict[str, Any]) -> None:
    """Number the fields of a form, add their bounds to their descriptions, and escape these.

    With PostgreSQL, Prefect orders nested fields by `position` only. With any database, it checks bounds without
    showing them, and shows a description as Markdown, in which <unk> is an HTML tag.
    """
    for position, field in enumerate(schema.get("properties", {}).values()):
        field["position"] = position
        _without_none(field)
        if "description" in field:
            field["description"] = _escaped(field["description"])
        if bounds := _bounds(field):
            field["description"] = f"{field['description']} Allowed: {bounds}."
    if "description" in schema:
        schema["description"] = _escaped(schema["description"])


def _escaped(text: str) -> str:
    """Escape the tags in Markdown, except in code."""
    return re.sub(r"`[^`]*`|<", lambda match: "\\<" if match[0] == "<" else match[0], text)


def _without_none(field: dict[str, Any]) -> None:
    """Make a number or text that may be None an optional one: Prefect shows a choice between two types otherwise.

    Its server takes an empty field for None if the field has no default.
    """
    kinds = [kind for kind in field.get("anyOf", ()) if kind.get("type") != "null"]
    is_optional = len(kinds) == 1 and field.get("default", "") is None
    if is_optional and kinds[0].get("type") in _SCALARS and "enum" not in kinds[0]:
        del field["anyOf"], field["default"]
        field.update(kinds[0])


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

    @property
    def changed(self) -> set[str]:
        """Names of the options whose values are not their defaults.

        Unlike `model_fields_set`, it is the same for a recipe as it was written and as it is stored.
        """
        return {name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default}

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_names(cls, values: Any) -> Any:
        return with_present_names(values)
