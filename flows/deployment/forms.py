"""Forms of the deployments in Prefect's UI, made from the schema of a flow's parameters.

Prefect's form folds nothing and knows no bounds by itself. Two properties of the pinned version are used to do both.
The test of the UI notices when they change.

- A union is a row of buttons. The form opens the member that has the most keys of the value, and the first of equals.
  In the form of a whole recipe, a section is the union of the options that the recipe sets and of all options. Its
  value has only the keys of the first member, and the other button unfolds it.
- The form takes bounds away from a schema before the server validates the values, except inside `allOf`. What the form
  draws is therefore a copy without bounds, and the section itself is validated beside it. Messages then appear at the
  option that is wrong, and never speak of a union.
"""

from collections.abc import Mapping
from typing import Any

from prefect.utilities.callables import ParameterSchema
from pydantic import BaseModel

from nmt_core.config import PipelineConfig

_RECIPE = PipelineConfig.__name__
_READ_BY_WATCH = {"name", "languages", "corpus"}
_DEFINITIONS = "#/definitions/"
_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "pattern", "minLength", "minItems"}

OF_THE_RECIPE, ALL_OPTIONS = "set by the recipe", "all options"
"""Names of the buttons of a section."""


def leave_out_what_does_nothing(flow_name: str, schema: ParameterSchema) -> None:
    """Remove the options of a recipe from a form that the flow does not read. The server still accepts their values."""
    if form := schema.definitions.get(_RECIPE):
        unread = form["properties"].keys() - _READ_BY_WATCH if flow_name == "watch" else {"schedule"}
        form["properties"] = {name: field for name, field in form["properties"].items() if name not in unread}
        form["additionalProperties"] = True
    if "from_" in schema.properties:
        schema.properties["from_"]["title"] = "from"


def check_at_the_option(schema: ParameterSchema) -> None:
    """Let the form mark the option that is out of bounds, in all sections and recipes among the parameters."""
    definitions = dict(schema.definitions)
    for name, field in schema.properties.items():
        if reference := field.get("$ref"):
            drawn = {key: value for key, value in field.items() if key != "$ref"}
            unseen = {"if": {}, "then": _spelt_out({"$ref": reference}, definitions)}
            schema.properties[name] = drawn | {"allOf": [{"$ref": reference}, unseen]}
    schema.definitions = {name: _without_bounds(definition) for name, definition in definitions.items()}


def values_that_differ(config: PipelineConfig) -> dict[str, Any]:
    """Return the values of a recipe for a folded form: all, except the defaults of the options in sections."""
    values = config.model_dump(mode="json", exclude_none=True)  # Prefect refuses a null
    for name, section in _folding(config).items():
        values[name] = {option: value for option, value in values[name].items() if option in _set_in(section)}
    return values


def folded(schema: ParameterSchema, config: PipelineConfig) -> ParameterSchema:
    """Return the schema of a form in which each section shows the options that a recipe sets, and unfolds into all.

    Args:
        schema: Schema of a flow that takes a whole recipe, after `check_at_the_option`. It stays as it is.
        config: Recipe. Its values are the defaults of the unfolded sections.
    """
    recipe, sections = schema.definitions[_RECIPE], _folding(config)
    fields = {
        name: _section(field, sections[name], schema.definitions) if name in sections else field
        for name, field in recipe["properties"].items()
    }
    definitions = dict(schema.definitions) | {_RECIPE: recipe | {"properties": fields}}
    return schema.model_copy(update={"definitions": definitions})


def _folding(config: PipelineConfig) -> dict[str, BaseModel]:
    """Return the sections that are folded. The languages are few fields that belong together."""
    names = [name for name in PipelineConfig.model_fields if name != "languages"]
    return {name: value for name in names if isinstance(value := getattr(config, name), BaseModel)}


def _set_in(section: BaseModel) -> set[str]:
    return set(section.model_dump(exclude_defaults=True))


def _section(field: Mapping[str, Any], section: BaseModel, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field of a section: a union of the options that the recipe sets and of all of its options."""
    definition = definitions[field["$ref"].removeprefix(_DEFINITIONS)]
    values = section.model_dump(mode="json", exclude_none=True)
    options = {
        name: dict(option) | ({"default": values[name]} if name in values else {})
        for name, option in definition["properties"].items()
    }
    first = [name for name in options if name in _set_in(section)] or list(options)[:1]  # without one, it takes JSON
    members = {OF_THE_RECIPE: first, ALL_OPTIONS: list(options)}
    if len(first) == len(options):
        del members[OF_THE_RECIPE]
    return {
        "description": definition.get("description", ""),
        "position": field["position"],
        "anyOf": [
            {"title": title, "type": "object", "properties": {name: options[name] for name in names}}
            for title, names in members.items()
        ],
    }


def _spelt_out(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a schema with its definitions in place of the references to them."""
    if isinstance(schema, list):
        return [_spelt_out(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    own = {key: _spelt_out(value, definitions) for key, value in schema.items() if not _is_unchecked(key, value)}
    reference = schema.get("$ref")
    return _spelt_out(definitions[reference.removeprefix(_DEFINITIONS)], definitions) | own if reference else own


def _is_unchecked(key: str, value: Any) -> bool:
    return key == "$ref" or (key == "description" and isinstance(value, str))


def _without_bounds(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_bounds(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    bounds = {key for key, value in schema.items() if key in _BOUNDS and not isinstance(value, dict)}
    return {key: _without_bounds(value) for key, value in schema.items() if key not in bounds}
