"""An ensemble gives the logarithm of the mean of its members' probabilities, in PyTorch and in ONNX Runtime."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nmt_core.config import ModelConfig, SearchConfig
from nmt_core.export.calibration import calibrate
from nmt_core.export.gates import onnx_kernels
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx_kernels import Int8Kernels
from nmt_core.models.build import build_model
from nmt_core.models.ensemble import Ensemble, EnsembleKernels, log_mean, members_of
from nmt_core.models.model import TranslationModel
from nmt_core.search.alignment import Aligner
from nmt_core.search.attention import AttentionGraph
from nmt_core.search.methods import search_batch
from nmt_core.search.onnx_step import SHORTLIST_STEP_FILE, STEP_FILE, UNSCORED_STEP_FILE, WHOLE_STEP_FILE, OnnxStepper
from nmt_core.search.shortlist import Shortlist, ShortlistStepper
from nmt_core.search.step import Floats, Ints, Stepper, pad_sources
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID

PIECES = 40
TOLERANCE = 1e-5
_SIZES = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "d_model": 16,
    "d_ff": 16,
    "num_heads": 2,
    "tied_embeddings": "none",
}
_RNN = {"architecture": "rnn", "rnn": {"hidden_size": 12, "alignment_size": 10, "maxout_size": 8}}
KINDS: dict[str, dict[str, Any]] = {
    "transformer": {},
    "transformer, wide heads": {"key_width": 4, "value_width": 16},
    "recurrent decoder": {"decoder_autoregression": "ssru"},
    "recurrent": _RNN,
}
"""Decoders that keep keys and values in place, or in a copy, or states."""


def members(kind: str, count: int = 3) -> list[TranslationModel]:
    """Return models with large random weights that differ in their seeds."""
    made = []
    for seed in range(count):
        torch.manual_seed(seed)
        model = build_model(ModelConfig.model_validate(_SIZES | KINDS[kind]), PIECES, 2_048)
        model = model.eval().requires_grad_(False)
        for weight in model.parameters():
            weight.mul_(2) if "rnn" not in KINDS[kind] else weight.normal_(std=0.6)
        model.output.weight[EOS_ID] *= 2
        made.append(model)
    return made


def some_sources(count: int, seed: int = 1) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(4, PIECES, size).tolist() for size in generator.integers(1, 9, count)]


@pytest.fixture(scope="module", params=KINDS)
def ensemble(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ensemble, Path]:
    model, folder = Ensemble(members(request.param)), tmp_path_factory.mktemp("graphs") / "fp32"
    export_graphs(onnx_kernels(model), folder, with_attention=True, with_shortlist=True)
    for number, member in enumerate(members_of(model)):
        export_graphs(onnx_kernels(member), folder.parent / f"{number}")
    return model, folder


def by_id(stepper: Stepper, sources: Sequence[Sequence[int]], targets: Ints) -> Floats:
    """Return the log-probability of each piece at each position of forced targets [B, T], by its id, [B, T, V]."""
    decoding = stepper.start(pad_sources(sources), stepper.vocab_size)
    steps = []
    for read_B in targets.T:
        log_probs_BC, ids_BC = decoding.step(np.ascontiguousarray(read_B), np.arange(len(sources)))
        found_BV = np.full(log_probs_BC.shape, np.nan, dtype=np.float32)
        np.put_along_axis(found_BV, ids_BC, log_probs_BC, axis=1)
        steps.append(found_BV)
    return np.stack(steps, axis=1)


def mean_of(log_probs: Sequence[Floats]) -> Floats:
    """Return the log-mean by the definition, in double precision."""
    with np.errstate(divide="ignore"):
        return np.log(np.mean(np.exp(np.array(log_probs, dtype=np.float64)), axis=0))


@pytest.mark.parametrize("step", [STEP_FILE, WHOLE_STEP_FILE])
def test_each_backend_gives_the_log_mean_of_the_members(ensemble: tuple[Ensemble, Path], step: str) -> None:
    model, folder = ensemble
    sources, generator = some_sources(6), np.random.default_rng(2)
    targets = np.concatenate([np.full((6, 1), BOS_ID), generator.integers(4, PIECES, (6, 20))], axis=1)
    backends: list[Callable[[int | None], Stepper]] = [
        lambda number: TorchStepper(model if number is None else members_of(model)[number]),
        lambda number: OnnxStepper(folder if number is None else folder.parent / f"{number}", PIECES, step=step),
    ]
    for backend in backends:
        alone = [by_id(backend(number), sources, targets) for number in range(3)]
        expected, found = mean_of(alone), by_id(backend(None), sources, targets)
        assert np.abs(alone[0][..., 4:] - expected[..., 4:]).max() > 0.1, "the members differ"
        np.testing.assert_array_equal(np.isneginf(found), np.isneginf(expected))
        is_allowed = np.isfinite(expected)
        assert np.abs(found[is_allowed] - expected[is_allowed]).max() < TOLERANCE


def test_searches_find_the_same_as_full_decoding_of_every_prefix(
    ensemble: tuple[Ensemble, Path], reference: Callable[[Any], Any]
) -> None:
    model, folder = ensemble
    sources = some_sources(8)
    full = [reference(member) for member in members_of(model)]
    expecting = full[0]
    one_by_one = [stepper.log_probs for stepper in full]
    expecting.log_probs = lambda source, target: mean_of([log_probs(source, target) for log_probs in one_by_one])
    for config in (
        SearchConfig(beam_size=4, n_best=2, max_length_offset=6),
        SearchConfig(beam_size=1, max_length_offset=6),
        SearchConfig(method="sample", n_best=2, max_length_offset=6),
    ):
        expected = search_batch(expecting, sources, config)
        for stepper in (TorchStepper(model), OnnxStepper(folder, PIECES)):
            found = search_batch(stepper, sources, config)
            assert [[one.ids for one in group] for group in found] == [[one.ids for one in group] for group in expected]
            scores = [one.score for group in expected for one in group]
            assert [one.score for group in found for one in group] == pytest.approx(scores, abs=1e-4)


def test_greedy_search_without_scores_finds_the_same(ensemble: tuple[Ensemble, Path]) -> None:
    _, folder = ensemble
    config, sources = SearchConfig(beam_size=1, max_length_offset=6), some_sources(12)
    scored, unscored = (
        search_batch(OnnxStepper(folder, PIECES, step=step), sources, config)
        for step in (STEP_FILE, UNSCORED_STEP_FILE)
    )
    assert [one.ids for (one,) in unscored] == [one.ids for (one,) in scored]


def test_a_shortlist_restricts_each_member(ensemble: tuple[Ensemble, Path]) -> None:
    """Each member's probabilities are those among the pieces of the list, as for a model alone."""
    model, folder = ensemble
    translations_VK = np.random.default_rng(3).integers(4, PIECES, (PIECES, 4)).astype(np.uint8)
    shortlist = Shortlist(np.arange(4, 9, dtype=np.uint8), translations_VK, PIECES)
    config, sources = SearchConfig(beam_size=3, n_best=3, max_length_offset=6), some_sources(8)
    in_torch = ShortlistStepper(TorchStepper(model), shortlist)
    in_onnx = ShortlistStepper(OnnxStepper(folder, PIECES, step=SHORTLIST_STEP_FILE), shortlist)
    found, expected = (search_batch(stepper, sources, config) for stepper in (in_onnx, in_torch))
    assert [[one.ids for one in group] for group in found] == [[one.ids for one in group] for group in expected]
    together, alone = (
        ShortlistStepper(TorchStepper(one), shortlist).start(pad_sources([[5, 6]]), 5)
        for one in (model, members_of(model)[0])
    )
    start, zero = np.array([BOS_ID]), np.array([0])
    allowed = {0, 1, 2, 3, *range(4, 9), *translations_VK[[5, 6, EOS_ID]].ravel().tolist()}
    for decoding in (together, alone):
        log_probs_1C, ids_1C = decoding.step(start, zero)
        assert set(ids_1C.ravel().tolist()) <= allowed
        assert np.isfinite(log_probs_1C).all()


def test_int8_is_near_the_mean_of_the_members_in_int8(tmp_path: Path) -> None:
    model = Ensemble(members("transformer", 2))
    sources, search = some_sources(12), SearchConfig(beam_size=2, max_length_offset=6)
    each = [Int8Kernels(member, calibrate(member, sources, search)) for member in members_of(model)]
    export_graphs(EnsembleKernels(each), tmp_path / "int8")
    for number, kernels in enumerate(each):
        export_graphs(kernels, tmp_path / f"{number}")
    targets = np.concatenate([np.full((12, 1), BOS_ID), np.random.default_rng(4).integers(4, PIECES, (12, 9))], axis=1)
    alone = [by_id(OnnxStepper(tmp_path / f"{number}", PIECES), sources, targets) for number in range(2)]
    found = by_id(OnnxStepper(tmp_path / "int8", PIECES), sources, targets)
    expected, is_allowed = mean_of(alone), np.isfinite(found)
    assert np.abs(found[is_allowed] - expected[is_allowed]).max() < TOLERANCE


def test_alignments_are_the_mean_of_all_members(tmp_path: Path) -> None:
    for kind in ("transformer", "recurrent"):
        models = members(kind, 2)
        sources, targets = pad_sources(some_sources(4)), np.full((4, 5), BOS_ID)
        export_graphs(onnx_kernels(Ensemble(models)), tmp_path / kind, with_attention=True)
        found = Aligner(tmp_path / kind, 64).attention(sources, targets)
        expected = []
        for number, model in enumerate(models):
            export_graphs(onnx_kernels(model), tmp_path / f"{kind}{number}", with_attention=True)
            expected.append(Aligner(tmp_path / f"{kind}{number}", 64).attention(sources, targets))
        is_token = sources != PAD_ID
        for row, mask in enumerate(is_token):
            np.testing.assert_allclose(found[row][:, mask], np.mean(expected, axis=0)[row][:, mask], atol=1e-6)
        first = AttentionGraph(tmp_path / f"{kind}0").run(sources, targets).source_embedding
        shown = AttentionGraph(tmp_path / kind).run(sources, targets).source_embedding
        np.testing.assert_array_equal(shown, first, err_msg="the first member is shown")


def test_a_mean_of_tiny_and_of_impossible_probabilities_is_exact() -> None:
    log_probs = torch.tensor([[-200.0, -1.0, float("-inf"), float("-inf")], [-190.0, -3.0, -2.0, float("-inf")]])
    expected = [
        -190 + np.log1p(np.exp(-10)) - np.log(2),
        np.log((np.exp(-1) + np.exp(-3)) / 2),
        -2 - np.log(2),
        -np.inf,
    ]
    np.testing.assert_allclose(log_mean(list(log_probs)).numpy(), expected, rtol=1e-6)
