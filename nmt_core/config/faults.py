"""Explanations of wrong values, for people: where, which value, what is wrong, and what to write instead."""

import difflib
from collections.abc import Mapping
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from nmt_core.config.pipeline import PipelineConfig
from nmt_core.config.search import SearchConfig
from nmt_core.errors import ConfigError, shown

_MOST_SHOWN = 200
"""Characters of a wrong value in a message."""

_WHOLE, _NUMBER, _TEXT, _LIST = "must be a whole number", "must be a number", "must be text", "must be a list"
_GROUP = "must be a group of keys"
_PROBLEMS = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("string_type", "string_unicode", "string_sub_type"), _TEXT),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"), _LIST),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"), _GROUP),
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt:,}",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than": "must be less than {lt:,}",
    "less_than_equal": "must be at most {le:,}",
    "literal_error": "must be {expected}",
    "none_required": "must be left out, or null",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} items, not {actual_length}",
    "too_long": "must have at most {max_length} items, not {actual_length}",
    "invalid_key": "keys must be text",
    "json_invalid": "is not JSON ({error})",
    "missing": "is missing",
    "extra_forbidden": "is no known key",
}
"""Problems by the type of pydantic's error, with the names of its facts in braces."""
_NAME = "must be a name of letters, digits and the marks . _ -"
_FORMS = {
    "^[A-Za-z0-9._-]+$": _NAME,
    "^[A-Za-z0-9][A-Za-z0-9._+ -]*$": "must begin with a letter or digit, with only letters, digits, spaces and ._+-",
    "^([A-Za-z_][A-Za-z0-9_]*)?$": "must be the name of an environment variable, or empty",
    "^[A-Za-z0-9._-]*$": f"{_NAME}, or empty",
    "^[A-Za-z]{2,3}([-_@.][A-Za-z0-9]+)*$": "must be a language code, such as en, zh_Hant or pt_BR",
    "^([A-Z][a-z]{3})?(_?([A-Z]{2}|[0-9]{3}))?$": "must be a script, a region or both, such as Hant, BR or Hant_TW",
    "^([a-z]{2,3}-[a-z]{2,3})?$": "must be a pair of language codes, such as en-ko",
    "^([0-9a-f]{64})?$": "must be a SHA-256 of 64 digits from 0 to 9 and a to f",
    r"^(<[A-Za-z0-9_-]+>)?$": "must be a tag in angle brackets, such as <BT>",
    r"^\S+$": "must be text without spaces",
    r"^([\w.-]+(:[\w.]+)?)?$": "must be the name of an entry point, or module:function",
}
"""Descriptions of the patterns that options must match."""


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
    problem = problem_of(detail)
    if detail["type"] == "value_error" and isinstance(detail["input"], (Mapping, BaseModel)):
        return f"{path} {problem}".strip()
    if detail["input"] is None:  # a key of YAML without a value
        return f"{path} has no value: {problem}: write one, or remove the key"
    return f"{path}={shown(detail['input'], _MOST_SHOWN)}: {problem}"


def problem_of(detail: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, from an error of pydantic, such as `must be at least 1`."""
    kind, facts = detail["type"], {name: _whole(fact) for name, fact in detail.get("ctx", {}).items()}
    if kind == "string_pattern_mismatch":
        return _FORMS.get(facts["pattern"], f"must match {facts['pattern']}")
    if facts.get("min_length") == 1:
        return "must not be empty"
    if template := _PROBLEMS.get(kind):
        return template.format(**facts)
    message: str = detail["msg"]
    return message.removeprefix("Value error, ") if kind == "value_error" else f"{message[:1].lower()}{message[1:]}"


def _whole(fact: Any) -> Any:
    """Return a number without decimals as an integer, and anything else as it is."""
    return int(fact) if isinstance(fact, float) and fact.is_integer() else fact


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
