from itertools import product
from pathlib import Path
from typing import Any

import pytest

from flows.estimate import estimate, parameters
from nmt_core.artifacts import Store
from nmt_core.config import ModelConfig, PipelineConfig
from nmt_core.models.transformer import Transformer


@pytest.mark.parametrize(("tied", "norm"), list(product(("three-way", "two-way", "none"), ("post", "pre"))))
def test_weights_are_counted_without_building_the_model(tied: Any, norm: Any) -> None:
    config = ModelConfig(
        d_model=16, d_ff=24, num_heads=2, encoder_layers=3, decoder_layers=2, tied_embeddings=tied, norm=norm
    )
    built = sum(weight.numel() for weight in Transformer(config, 100).parameters())
    assert parameters(config, 100) == built


def test_a_rule_of_thumb_is_named(tmp_path: Path) -> None:
    config = PipelineConfig.model_validate({"name": "small", "corpus": {"toy": {}}})
    train = estimate("train", config, Store(tmp_path))
    assert train.bytes == parameters(config.model, 8_000) * (16 + 4 * 5)
    assert "16 bytes to resume + 4 bytes x 5 checkpoints" in train.basis


def test_text_that_is_not_here_has_no_size(tmp_path: Path) -> None:
    files = {"name": "web", "source": "https://example.org/a.en", "target": "https://example.org/a.de"}
    config = PipelineConfig.model_validate({"name": "small", "corpus": {"train": [files]}})
    assert estimate("clean", config, Store(tmp_path)).bytes is None
    for side in ("source", "target"):
        (tmp_path / side).write_text("x" * 500)
        files[side] = str(tmp_path / side)
    config = PipelineConfig.model_validate({"name": "small", "corpus": {"train": [files]}})
    assert estimate("clean", config, Store(tmp_path)).bytes == 1_000
