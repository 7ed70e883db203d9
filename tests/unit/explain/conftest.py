"""Bundles of recurrent models, one of each kind, with large random weights."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt_core.config import ModelConfig
from nmt_core.models.build import build_model
from nmt_core.models.model import TranslationModel
from nmt_core.tokenizer.tokenizer import Tokenizer

ONE_WAY = {"bidirectional": False}
KINDS: dict[str, dict[str, Any]] = {
    "RNNsearch": {},
    "dot": ONE_WAY | {"cell": "lstm", "attention": "dot"},
    "general": ONE_WAY | {"attention": "general", "input_feeding": True},
    "concat": ONE_WAY | {"attention": "concat"},
    "encoder-decoder": {"attention": "none"},
    "sequence-to-sequence": ONE_WAY | {"attention": "none", "context": "first_state", "reverse_source": True},
}


@pytest.fixture(scope="session")
def recurrent(
    tiny_tokenizer: Tokenizer, bundle_of: Callable[[TranslationModel], Path]
) -> Callable[[str], tuple[TranslationModel, Path]]:
    """Make a model of a kind, once, with its bundle."""

    @functools.cache
    def make(kind: str) -> tuple[TranslationModel, Path]:
        sizes = {"hidden_size": 12, "alignment_size": 10, "maxout_size": 8} | KINDS[kind]
        values = {"architecture": "rnn", "d_model": 9, "encoder_layers": 1, "decoder_layers": 1, "rnn": sizes}
        config = ModelConfig.model_validate(values | {"tied_embeddings": "none"})
        with torch.random.fork_rng():
            torch.manual_seed(3)
            model = build_model(config, tiny_tokenizer.vocab_size, 2_048).eval().requires_grad_(False)
            for weight in model.parameters():
                weight.normal_(std=0.7)
        return model, bundle_of(model)

    return make
