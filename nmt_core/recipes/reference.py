"""Reference of all options, generated from `config/` so that the two always agree."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from nmt_core.config import FilterConfig, FilterOverride, PipelineConfig
from nmt_core.config.section import LARGE


def option_reference() -> str:
    """Return every option with its default, its bounds and its description, as Markdown."""
    lines = ["| option | default | allowed | meaning |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(row)} |" for row in _rows(PipelineConfig, "", {})]
    return "\n".join(lines) + "\n"


def dotted_options() -> list[str]:
    """Return the options that `--set` can change, as `section.key`, in the order of the reference."""
    paths = (path.strip("`") for path, *_ in _rows(PipelineConfig, "", {}))
    return [path for path in paths if "[]" not in path]


def _rows(
    section: type[BaseModel], prefix: str, listed: dict[type[BaseModel], str]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each option of a section: path, default, allowed values and description.

    Args:
        section: class of the section.
        prefix: dotted path of the section, with the last dot.
        listed: path of the first list of each class of sections, extended on the way.
    """
    properties = section.model_json_schema()["properties"]
    for name, field in section.model_fields.items():
        if section is FilterOverride and name in FilterConfig.model_fields:
            continue  # listed under `clean`, with their bounds and descriptions
        inner = _section_in(field.annotation)
        path = f"{prefix}{name}"
        if inner is None:
            yield f"`{path}`", _default(field), _allowed(properties[name]), _cell(field.description or "")
            continue
        is_list = "tuple" in str(field.annotation)
        if is_list or field.default is None:
            yield f"`{path}`", _default(field), "a list" if is_list else "a section", _cell(field.description or "")
        if prefix and (own := _own_section(inner)):
            yield f"`{path}...`", "as there", "as there", f"{_cell(field.description or '')} The options of `{own}`."
            continue
        first = listed.setdefault(inner, path) if is_list else path
        if first == path:
            yield from _rows(inner, f"{path}[]." if is_list else f"{path}.", listed)
        else:
            yield f"`{path}[]...`", "as there", "as there", f"The options of `{first}[]`."
    if section is FilterOverride:
        first, *_, last = FilterConfig.model_fields
        yield f"`{prefix}...`", "none", "as above", f"Any of the options of `clean` from `{first}` to `{last}`."


def _own_section(section: type[BaseModel]) -> str:
    """Return the name of a section of the recipe that has this class, or "" if none has."""
    fields = PipelineConfig.model_fields
    return next((name for name, field in fields.items() if _section_in(field.annotation) is section), "")


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """Return the section class in an annotation such as `X`, `X | None` or `tuple[X, ...]`, or None."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if field.default is None:
        return "none"
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value != "" else "empty"


def _allowed(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return _allowed(schema["anyOf"][0])
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[key]:,}" for key, sign in signs.items() if schema.get(key, LARGE) < LARGE]
    kind = {"boolean": "true, false", "string": "text", "array": "a list", "object": "a mapping"}.get(
        schema.get("type", ""), "number"
    )
    return ", ".join(bounds) or kind


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
