"""The reference of the options equals `config/`."""

from pathlib import Path

import nmt_core
from nmt_core.config import PipelineConfig
from nmt_core.recipes.reference import option_reference

FILE = Path(nmt_core.__file__).parent / "recipes" / "OPTIONS.md"


def test_the_file_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == option_reference(), (
        "run: nmt recipes --options > nmt_core/recipes/OPTIONS.md"
    )


def test_every_option_of_every_section_is_listed() -> None:
    text = option_reference()
    for section, field in PipelineConfig.model_fields.items():
        for option in getattr(field.annotation, "model_fields", {}):
            assert f"| `{section}.{option}` |" in text or f"| `{section}.{option}." in text, f"{section}.{option}"


def test_every_option_says_what_it_means() -> None:
    rows = option_reference().splitlines()[2:]
    assert all(row.split(" | ")[-1].rstrip(" |") for row in rows)


def test_text_that_may_be_empty_says_once_what_empty_means() -> None:
    rows = [row.split(" | ") for row in option_reference().splitlines()[2:]]
    empty = {row[0]: row[-1] for row in rows if row[1] == "empty" and row[2] == "text"}
    assert len(empty) > 40
    assert [option for option, meaning in empty.items() if meaning.count("Empty means") != 1] == []
