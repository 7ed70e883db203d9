"""Messages about wrong values use this project's words, for every option and every kind of wrong value."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from nmt_core.config import PipelineConfig
from nmt_core.config.faults import explain_fault
from nmt_core.recipes.recipe import load_recipe

_OF_PYDANTIC = re.compile(r"should (be|have|match)|Value error|valid (integer|number|tuple|dictionary)|pydantic", re.I)
_WRONG: tuple[Any, ...] = ("a word", "", 2.5, -(10**9), 10**30, float("nan"), [], {}, {"a": 1}, [3], None, True)


def options() -> Iterator[tuple[str, str]]:
    """Section and name of every option, and the sections themselves."""
    for section, values in load_recipe("quickstart").model_dump(mode="json").items():
        yield section, ""
        if isinstance(values, dict):
            fields = PipelineConfig.model_fields[section].annotation
            yield from ((section, name) for name in fields.model_fields)  # type: ignore[union-attr]


def faults() -> Iterator[str]:
    """Messages about each wrong value of each option."""
    recipe = load_recipe("quickstart").model_dump(mode="json")
    for section, name in options():
        for value in _WRONG:
            values = recipe | {section: recipe[section] | {name: value} if name else value}
            try:
                PipelineConfig.model_validate(values)
            except ValidationError as error:
                yield from map(explain_fault, error.errors())


def test_no_message_is_of_another_voice() -> None:
    said = set(faults())
    assert len(said) > 500
    assert not [message for message in said if _OF_PYDANTIC.search(message) or "^" in message]


@pytest.mark.parametrize(
    ("section", "option", "value", "message"),
    [
        ("train", "max_updates", "many", "train.max_updates='many': must be a whole number"),
        ("train", "max_updates", 0, "train.max_updates=0: must be at least 1"),
        ("train", "seed", 2**63, "train.seed=9223372036854775808: must be less than 9,223,372,036,854,775,808"),
        ("model", "dropout", 1, "model.dropout=1: must be less than 1"),
        ("train", "precision", "fp99", "train.precision='fp99': must be 'auto', 'fp32' or 'bf16'"),
        ("languages", "source", "English", "languages.source='English': must be a language code, such as en"),
        (
            "registry",
            "model_name",
            None,
            "registry.model_name has no value: must be text: write one, or remove the key",
        ),
        ("tokenizer", "user_symbols", ["a b"], "tokenizer.user_symbols.0='a b': must be text without spaces"),
    ],
)
def test_a_message_holds_place_value_and_remedy(section: str, option: str, value: Any, message: str) -> None:
    recipe = load_recipe("quickstart").model_dump(mode="json")
    with pytest.raises(ValidationError) as caught:
        PipelineConfig.model_validate(recipe | {section: recipe[section] | {option: value}})
    assert explain_fault(caught.value.errors()[0]).startswith(message)
