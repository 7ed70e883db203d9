"""Explanations of wrong values, for people: where, which value, what is wrong, and what to write instead."""

import difflib
from collections.abc import Mapping
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from nmt_core.config.pipeline import PipelineConfig
from nmt_core.config.search import SearchConfig
from nmt_core.errors import ConfigError


def explain_fault(detail: ErrorDetails) -> str:
    """Return one error of pydantic as: dotted path in the recipe, value, problem, remedy."""
    path = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        known = _keys_at(detail["loc"][:-1])
        close = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"the keys here are {', '.join(known)}"
        return f"{path} is not a key: {hint}"
    if detail["type"] == "missing":
        return f"{path} is missing: set it"
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "value_error" and isinstance(detail["input"], (Mapping, BaseModel)):
        return f"{path} {message}".strip()
    return f"{path}={detail['input']!r}: {message[:1].lower()}{message[1:]}"


def search_with(search: SearchConfig, changes: Mapping[str, Any]) -> SearchConfig:
    """Return a search with other values for some of its options.

    Raises:
        ConfigError: there is no such option, or a value is wrong.
    """
    try:
        return SearchConfig.model_validate(search.model_dump() | dict(changes))
    except ValidationError as error:
        details = ({**detail, "loc": ("search", *detail["loc"])} for detail in error.errors())
        raise ConfigError("; ".join(explain_fault(cast(ErrorDetails, detail)) for detail in details)) from None


def _keys_at(location: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the section at `location`."""
    section: type[BaseModel] = PipelineConfig
    for part in location:
        if isinstance(part, int):
            continue
        annotation = section.model_fields[part].annotation
        candidates = [annotation, *get_args(annotation)]
        section = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), section)
    return list(section.model_fields)
