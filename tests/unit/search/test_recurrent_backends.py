"""Recurrent models in the same search, with PyTorch, ONNX Runtime, and full decoding of every prefix."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nmt_core.config import ModelConfig, SearchConfig
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx_rnn import OnnxRnnKernels
from nmt_core.models.build import build_model
from nmt_core.models.model import TranslationModel
from nmt_core.models.recurrent.model import RecurrentModel
from nmt_core.search.greedy import greedy_search
from nmt_core.search.methods import search_batch
from nmt_core.search.onnx_step import SET_FILES, STEP_FILE, UNSCORED_STEP_FILE, WHOLE_STEP_FILE, OnnxStepper
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import EOS_ID

PIECES = 40
TOLERANCE = 1e-4
KINDS: dict[str, dict[str, Any]] = {
    "encoder-decoder": {"rnn": {"attention": "none", "bidirectional": False}},
    "first state alone": {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "rnn": {
            "attention": "none",
            "context": "first_state",
            "cell": "lstm",
            "bidirectional": False,
            "reverse_source": True,
        },
    },
    "search": {},
    "search, plain units": {"rnn": {"cell": "rnn"}},
    "dot": {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "rnn": {"attention": "dot", "cell": "lstm", "bidirectional": False},
    },
    "general, input feeding": {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "rnn": {"attention": "general", "cell": "lstm", "bidirectional": False, "input_feeding": True},
    },
    "concat": {"rnn": {"attention": "concat", "bidirectional": False}},
    "local-m": {
        "rnn": {"attention": "dot", "bidirectional": False, "window": "monotonic", "window_size": 2}
        | {"input_feeding": True},
    },
    "local-p": {"rnn": {"attention": "general", "bidirectional": False, "window": "predictive", "window_size": 2}},
}


SEEDS = {
    "encoder-decoder": 3,
    "first state alone": 2,
    "search": 3,
    "search, plain units": 2,
    "dot": 6,
    "general, input feeding": 6,
    "concat": 3,
    "local-m": 3,
    "local-p": 1,
}
"""With which some translations end, and others do not."""


def trained(kind: str) -> RecurrentModel:
    """Return a model with large random weights."""
    sizes = {"hidden_size": 12, "alignment_size": 10, "maxout_size": 8}
    values = {"architecture": "rnn", "d_model": 9, "encoder_layers": 1, "decoder_layers": 1, "tied_embeddings": "none"}
    values |= KINDS[kind]
    config = ModelConfig.model_validate(values | {"rnn": sizes | values.get("rnn", {})})
    torch.manual_seed(SEEDS[kind])
    model = build_model(config, PIECES, 2_048).eval().requires_grad_(False)
    assert isinstance(model, RecurrentModel)
    for weight in model.parameters():
        weight.normal_(std=0.6)
    model.output.weight[EOS_ID] *= 2
    return model


IN_SHORT = {"encoder-decoder", "search", "dot", "local-p"}
"""Kinds that `make test` tries. `make slow` tries the others."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=[] if kind in IN_SHORT else [pytest.mark.slow]) for kind in KINDS],
)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[TranslationModel, Path]:
    model, folder = trained(request.param), tmp_path_factory.mktemp("graphs") / "fp32"
    export_graphs(OnnxRnnKernels(model), folder)
    assert {file.name for file in folder.iterdir()} == set(SET_FILES)
    return model, folder


def some_sources(count: int, seed: int = 1) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(4, PIECES, size).tolist() for size in generator.integers(1, 13, count)]


BEAM = SearchConfig(beam_size=4, n_best=3, max_length_offset=6)
SEARCHES = {
    "greedy": (SearchConfig(beam_size=1, max_length_offset=6), True),
    "beam": (BEAM, False),
    "samples": (SearchConfig(method="sample", n_best=2, max_length_offset=6), True),
}
"""Search of each method, and True if targets must begin with given words."""


@pytest.mark.parametrize("method", SEARCHES)
def test_torch_onnx_and_reference_give_the_same(
    exported: tuple[RecurrentModel, Path], reference: Any, method: str
) -> None:
    model, folder = exported
    config, forced = SEARCHES[method]
    sources = some_sources(12)
    prefixes = [ids[: len(ids) % 4] for ids in some_sources(12, seed=5)] if forced else []
    expected = search_batch(reference(model), sources, config, prefixes)
    if method == "beam":
        assert {best.cut for best, *_ in expected} == {True, False}  # sentences leave the batch at different times
    for stepper in (TorchStepper(model), OnnxStepper(folder, PIECES)):
        found = search_batch(stepper, sources, config, prefixes)
        for of_one, expected_of_one in zip(found, expected, strict=True):
            assert [(one.ids, one.cut) for one in of_one] == [(one.ids, one.cut) for one in expected_of_one]
            scores = [one.score for one in expected_of_one]
            assert [one.score for one in of_one] == pytest.approx(scores, abs=TOLERANCE)


def test_company_does_not_matter(exported: tuple[RecurrentModel, Path]) -> None:
    model, folder = exported
    sources, config = some_sources(10, seed=2), BEAM
    for stepper in (TorchStepper(model), OnnxStepper(folder, PIECES)):
        together = search_batch(stepper, sources, config)
        for source, expected in zip(sources, together, strict=True):
            [alone] = search_batch(stepper, [source], config)
            assert [one.ids for one in alone] == [one.ids for one in expected]


def test_drawing_from_the_whole_vocabulary_finds_the_same_without_ranking_it(
    exported: tuple[TranslationModel, Path],
) -> None:
    model, folder = exported
    sources, config = some_sources(12), SearchConfig(method="sample", n_best=2, max_length_offset=6)
    expected = search_batch(TorchStepper(model), sources, config)
    found = search_batch(OnnxStepper(folder, PIECES, step=WHOLE_STEP_FILE), sources, config)
    assert [[one.ids for one in group] for group in found] == [[one.ids for one in group] for group in expected]


def test_greedy_search_without_scores_finds_the_same(exported: tuple[TranslationModel, Path]) -> None:
    _, folder = exported
    scored, unscored = (
        greedy_search(OnnxStepper(folder, PIECES, step=step), some_sources(20), SearchConfig(beam_size=1))
        for step in (STEP_FILE, UNSCORED_STEP_FILE)
    )
    assert [(one.ids, one.cut) for one in unscored] == [(one.ids, one.cut) for one in scored]
    assert np.isnan([one.score for one in unscored]).all()
