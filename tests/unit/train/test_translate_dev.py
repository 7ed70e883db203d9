"""Validations translate like a registered model, and are scored like a registered model."""

import json
from pathlib import Path
from typing import Any

import polars
import pytest
import torch

from nmt_core.config import SearchConfig
from nmt_core.errors import DataError
from nmt_core.models.transformer import Transformer
from nmt_core.scoring import score
from nmt_core.search.torch_step import TorchStepper
from nmt_core.spelling import AS_IT_IS, Spelling
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.train.distributed import World
from nmt_core.train.translate_dev import DevText, DevTranslator
from nmt_core.translator import Translator


@pytest.fixture(scope="module")
def tokenizers(tiny: dict[str, Artifact]) -> Tokenizers:
    return Tokenizers.load(tiny["tokenizer"].path)


@pytest.fixture
def model(tokenizers: Tokenizers, make_config: Any) -> Transformer:
    """Model with random weights.

    They are three times as large as usual, so that each sentence is translated differently.
    """
    torch.manual_seed(1)
    model = Transformer(make_config().model, tokenizers.target.vocab_size)
    with torch.no_grad():
        model.output.weight *= 3
    return model.train()


def text_of(folder: Path) -> polars.DataFrame:
    return polars.read_parquet(folder / "dev.parquet")


def samples(said: list[str]) -> list[tuple[str, ...]]:
    """Line of the dev set, source, reference and translation of each sample."""
    assert [line.split()[0] for line in said] == ["line", "source", "reference", "translation"] * (len(said) // 4)
    values = [line.split(maxsplit=1)[1] if len(line.split()) > 1 else "" for line in said]
    return [tuple(values[first : first + 4]) for first in range(0, len(values), 4)]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_translations_and_scores_match_a_registered_model(
    tiny: dict[str, Artifact],
    tokenizers: Tokenizers,
    model: Transformer,
    make_config: Any,
    world: World,
    beam_size: int,
) -> None:
    """Half of the references are the model's own translations, so that the score is not zero."""
    text = text_of(tiny["split"].path)
    registered = Translator(TorchStepper(model), tokenizers, SearchConfig(beam_size=beam_size))
    lines = [one.text for one in registered.translate(text["source"].to_list())]
    assert len(set(lines)) > text.height // 2, "a model that translates everything alike would prove nothing"
    references = [*lines[::2], *text["target"][1::2]]
    pairs = DevText(text["source"].to_list(), references, range(1, text.height + 1))
    config = make_config(train={"dev_sentences": 100, "dev_beam_size": beam_size, "dev_samples": 100}).train
    said: list[str] = []
    found = DevTranslator(pairs, tokenizers, AS_IT_IS, "ko", config, world).scores(model.train(), said.append)
    bleu, chrf = score("dev", lines, references, "ko")
    assert found == {"dev_bleu": bleu.score, "dev_chrf": chrf.score}
    assert bleu.score > 1
    shown = [[" ".join(line.split()) for line in side] for side in (pairs.sources, references, lines)]
    assert [sample[1:] for sample in samples(said)] == list(zip(*shown, strict=True))


def test_training_continues_with_dropout(
    tiny: dict[str, Artifact], tokenizers: Tokenizers, model: Transformer, make_config: Any, world: World
) -> None:
    config = make_config(train={"dev_sentences": 2}).train
    text = DevText.read(tiny["split"].path, 2)
    DevTranslator(text, tokenizers, AS_IT_IS, "ko", config, world).scores(model, print)
    assert all(module.training for module in model.modules())


def test_the_source_is_spelt_as_the_training_text_is(
    tiny: dict[str, Artifact], tokenizers: Tokenizers, model: Transformer, make_config: Any, world: World
) -> None:
    text = text_of(tiny["split"].path).head(5)
    config = make_config(train={"dev_sentences": 5, "dev_samples": 5}).train

    def translations(mark: str, spelling: Spelling) -> list[str]:
        said: list[str] = []
        pairs = DevText([f"{line}{mark}" for line in text["source"]], text["target"].to_list(), range(1, 6))
        DevTranslator(pairs, tokenizers, spelling, "ko", config, world).scores(model, said.append)
        return [sample[3] for sample in samples(said)]

    moses = Spelling("NFC", "moses", "en")
    assert translations(" Minsu\u00ad’s", AS_IT_IS) != translations(" Minsu's", AS_IT_IS)
    assert translations(" Minsu\u00ad’s", moses) == translations(" Minsu's", moses)


def test_sentences_and_samples_stand_at_even_distances(
    tiny: dict[str, Artifact], tokenizers: Tokenizers, model: Transformer, make_config: Any, world: World
) -> None:
    whole = text_of(tiny["split"].path)
    assert whole.height == 20
    text = DevText.read(tiny["split"].path, 5)
    assert list(text.lines) == [1, 5, 9, 13, 17]
    assert list(text.sources) == [whole["source"][line - 1] for line in text.lines]
    assert list(text.references) == [whole["target"][line - 1] for line in text.lines]
    said: list[str] = []
    config = make_config(train={"dev_sentences": 5, "dev_samples": 2}).train
    DevTranslator(text, tokenizers, AS_IT_IS, "ko", config, world).scores(model, said.append)
    assert [sample[0] for sample in samples(said)] == ["1 of the dev set", "9 of the dev set"]


@pytest.mark.parametrize("damage", ["gone", "no Parquet"])
def test_text_that_cannot_be_read_is_named(tmp_path: Path, damage: str) -> None:
    (tmp_path / "splits.json").write_text(json.dumps({"dev": "dev.parquet"}))
    if damage == "no Parquet":
        (tmp_path / "dev.parquet").write_text("text")
    with pytest.raises(DataError, match=r"the dev set cannot be read .*--force split") as caught:
        DevText.read(tmp_path, 5)
    assert str(tmp_path) in str(caught.value)
