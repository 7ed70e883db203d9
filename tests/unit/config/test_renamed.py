"""Data of earlier versions stays readable and keeps its fingerprint. A recipe gets a message with the present names."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.bundle.folder import BundleConfig
from nmt_core.config import (
    CleanConfig,
    FilterConfig,
    ModelConfig,
    PipelineConfig,
    RegistryConfig,
    RnnConfig,
    TrainConfig,
)
from nmt_core.config.renamed import KEYS, VALUES, earlier_names, with_first_names, with_present_names
from nmt_core.errors import ConfigError
from nmt_core.recipes.recipe import load_recipe, upgrade_recipe
from nmt_core.stages.table import STAGES, plan
from nmt_core.store.artifacts import Store

EARLIER = """# slice_tokens: a comment stays
name: mine
base: quickstart
clean: {characters_per_character: 2.0, punctuation: 'as is', overrides: [{pair: en-ko, characters_per_character: 1.5}]}
train:
  slice_tokens: 2048  # slice_tokens: so does this one
model: {tied_embeddings: "two-way", rnn: {context: every step}}
registry: {built_in_sentences: no worse}
"""

ONE_VECTOR = {"attention": "none", "context": "first state", "bidirectional": False}

# Computed by the last version before any name changed, with the versions that its stages had.
VERSIONS = {"clean": 3, "split": 3, "tokenizer": 4, "encode": 4, "train": 5, "average": 3, "export": 12, "evaluate": 3}
FINGERPRINTS = {
    "quickstart": {"clean": "00ae043a1a5a", "train": "65798df56673", "evaluate": "e4412302aebe"},
    "seq2seq-fixed": {"train": "67e1838e76a0"},
    "wmt14-en-de-base": {"train": "b1bb223863c4"},
}


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_no_artifact_is_made_anew_for_a_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for stage, version in VERSIONS.items():
        monkeypatch.setitem(STAGES, stage, replace(STAGES[stage], version=version))
    found = {planned.stage.name: planned.fingerprint[:12] for planned in plan(load_recipe(name), Store(tmp_path))}
    assert FINGERPRINTS[name].items() <= found.items()


def test_what_was_stored_is_read() -> None:
    assert TrainConfig.model_validate({"slice_tokens": 128}).micro_batch_tokens == 128
    assert FilterConfig.model_validate({"characters_per_character": 2}).expected_length_ratio == 2
    assert CleanConfig.model_validate({"punctuation": "Moses"}).punctuation == "moses"
    assert ModelConfig.model_validate({"tied_embeddings": "two-way"}).tied_embeddings == "two_way"
    assert RnnConfig.model_validate(ONE_VECTOR).context == "first_state"
    assert RegistryConfig.model_validate({"built_in_sentences": "no worse"}).built_in_sentences == "no_worse"
    before = with_first_names(load_recipe("quickstart").model_dump(mode="json"))
    assert PipelineConfig.model_validate(before) == load_recipe("quickstart")


def test_bundles_of_earlier_versions_are_read() -> None:
    values = {
        "languages": {"source": "en", "target": "de"},
        "unicode_form": "NFC",
        "punctuation": "Moses",
        "vocab_size": 8,
        "special_ids": {"pad": 0, "unk": 1, "bos": 2, "eos": 3},
        "rnn": ONE_VECTOR,
        "d_model": 8,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "max_positions": 16,
        "precisions": ["fp32"],
        "sha256": {},
    }
    bundle = BundleConfig.model_validate(values)
    assert bundle.rnn
    assert (bundle.punctuation, bundle.rnn.context) == ("moses", "first_state")


def test_a_recipe_is_told_the_new_names(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(EARLIER)
    with pytest.raises(ConfigError) as raised:
        load_recipe(str(recipe))
    for fact in (
        "train.slice_tokens is now train.micro_batch_tokens",
        "clean.overrides.0.characters_per_character is now clean.overrides.0.expected_length_ratio",
        "model.rnn.context=every step is now model.rnn.context=every_step",
        "nmt recipes --upgrade",
    ):
        assert fact in str(raised.value)
    with pytest.raises(
        ConfigError, match=r"--set train\.slice_tokens=64: .* is now train\.micro_batch_tokens: use the"
    ):
        load_recipe("quickstart", ["train.slice_tokens=64"])


def test_an_upgraded_recipe_is_valid_and_keeps_its_comments(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(EARLIER)
    assert len(upgrade_recipe(recipe)) == 7
    text = recipe.read_text()
    assert "# slice_tokens: a comment stays\n" in text
    assert "  micro_batch_tokens: 2048  # slice_tokens: so does this one\n" in text
    config = load_recipe(str(recipe))
    assert config.clean.overrides[0].expected_length_ratio == 1.5
    assert config.train.micro_batch_tokens == 2_048
    assert upgrade_recipe(recipe) == []
    assert recipe.read_text() == text


def test_what_only_a_person_can_change_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    text = "name: mine\ntrain:\n  ? slice_tokens\n  : 64\nclean:\n  punctuation: >-\n    as is\n"
    recipe.write_text(text)
    with pytest.raises(ConfigError, match="change this by hand"):
        upgrade_recipe(recipe)
    assert recipe.read_text() == text


OPTIONS = [*KEYS, *KEYS.values(), *VALUES, "other"]
TEXTS = [text for values in VALUES.values() for pair in values.items() for text in pair]


@given(
    st.recursive(
        st.one_of(st.integers(), st.sampled_from([*TEXTS, "other"])),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(OPTIONS), inner, max_size=4)
        ),
    )
)
def test_names_of_today_are_stable(values: Any) -> None:
    present = with_present_names(values)
    assert with_present_names(present) == present
    assert list(earlier_names(present)) == []
    assert with_present_names(with_first_names(present)) == present


def test_the_recipes_of_the_package_use_them() -> None:
    from nmt_core.recipes.recipe import _packaged

    found = {name: list(earlier_names(yaml.safe_load(file.read_text()))) for name, file in _packaged().items()}
    assert {name: names for name, names in found.items() if names} == {}
