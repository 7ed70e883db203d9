"""The gate accepts equal models, and no others."""

import copy
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from nmt_core.config import ExportConfig, SearchConfig
from nmt_core.errors import StageError
from nmt_core.export.parity import Parity, check_parity, compare, largest_difference
from nmt_core.models.transformer import Transformer
from nmt_core.search.beam import n_best
from nmt_core.search.onnx_step import OnnxStepper
from nmt_core.search.step import Stepper
from nmt_core.search.torch_step import TorchStepper

SOURCES = [np.random.default_rng(seed).integers(4, 100, 3 + seed % 9).tolist() for seed in range(40)]
CONFIG = ExportConfig(parity_beam_size=3)


def stepper(folder: Path) -> Stepper:
    return OnnxStepper(folder / "fp32", 100)


def check(
    model: Transformer, exported: Stepper, sources: list[list[int]] = SOURCES, config: ExportConfig = CONFIG
) -> Parity:
    reference = TorchStepper(model)
    return check_parity(reference, exported, sources, config, reference.in_float64)


def perturb(folder: Path, name: str, change: float) -> None:
    """Add noise to the largest weight matrix of a graph."""
    model = onnx.load(folder / name)
    weight = max((one for one in model.graph.initializer if one.data_type == 1), key=lambda one: np.prod(one.dims))
    noise = np.random.default_rng(1).standard_normal(tuple(weight.dims)).astype(np.float32)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) + change * noise, weight.name))
    onnx.save(model, folder / name)


def test_the_exported_model_passes(tiny_model: Transformer, tiny_bundle: Path) -> None:
    parity = check(tiny_model, stepper(tiny_bundle))
    assert parity.sentences == parity.identical == len(SOURCES)
    assert 0 < parity.max_difference < 1e-4


@pytest.mark.parametrize("graph", ["encoder.onnx", "step.onnx"])
@pytest.mark.parametrize("change", [3e-3, 0.5, float("nan")])
def test_a_perturbed_graph_is_refused(
    graph: str, change: float, tiny_model: Transformer, tiny_bundle: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_bundle, tmp_path / "bundle"))
    perturb(folder / "fp32", graph, change)
    with pytest.raises(
        StageError, match=r"differ by up to .* more than export\.parity_tolerance=1e-04.* graph is wrong"
    ):
        check(tiny_model, stepper(folder))


def test_rounding_is_told_from_a_fault(tiny_model: Transformer, tiny_bundle: Path) -> None:
    small = ExportConfig(parity_beam_size=3, parity_tolerance=1e-9)
    with pytest.raises(StageError, match=r"both round, .* set export\.parity_tolerance to \de-0[67]$"):
        check(tiny_model, stepper(tiny_bundle), config=small)


def test_a_model_without_numbers_is_told_from_a_fault_of_its_graph(tiny_model: Transformer, tiny_bundle: Path) -> None:
    broken = copy.deepcopy(tiny_model)
    broken.output.weight.data.fill_(float("nan"))
    with pytest.raises(StageError, match=r"the model itself computes no numbers, .*: look at its loss"):
        check(broken, stepper(tiny_bundle))


def test_another_translation_is_refused_however_near(tiny_model: Transformer, tiny_bundle: Path) -> None:
    """With an unlimited tolerance, the translations decide."""
    other = copy.deepcopy(tiny_model)
    other.output.weight.data.neg_()
    with pytest.raises(StageError, match=r"of 40 held-out sentences get another translation"):
        check(other, stepper(tiny_bundle), config=ExportConfig(parity_tolerance=1e9))


def tied(model: Transformer) -> list[Transformer]:
    """Make two models to which tokens 5 and 6 are likely, with a difference of a millionth.

    One takes 5, the other 6.
    """
    models = [copy.deepcopy(model), copy.deepcopy(model)]
    for model, favoured, other in zip(models, (5, 6), (6, 5), strict=True):
        weight = model.output.weight.data
        weight[[favoured, other]] = 3 * weight[5]
        weight[favoured] *= 1 + 1e-6
    return models


def test_a_tie_passes_the_gate(tiny_model: Transformer) -> None:
    models = tied(tiny_model)
    parity = compare(*map(TorchStepper, models), SOURCES, SearchConfig(beam_size=3, n_best=3))
    assert parity.identical < len(SOURCES), "without a word on ties, beams are other ones"
    assert 0 < parity.max_difference < 1e-4
    assert check(models[0], TorchStepper(models[1])).identical == len(SOURCES)


def test_the_whole_beam_has_to_be_the_same(tiny_model: Transformer) -> None:
    """The best hypotheses may be equal where the others differ."""
    other = copy.deepcopy(tiny_model)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        other.output.weight.data += 0.004 * torch.randn(other.output.weight.shape)
    steppers = [TorchStepper(tiny_model), TorchStepper(other)]
    found = [n_best(stepper, SOURCES, SearchConfig(beam_size=3, n_best=3)) for stepper in steppers]
    same = [source for source, one, two in zip(SOURCES, *found, strict=True) if one[0].ids == two[0].ids]
    assert len(same) > 5
    with pytest.raises(StageError, match=rf"of {len(same)} held-out sentences get another translation"):
        check(tiny_model, steppers[1], same, ExportConfig(parity_beam_size=3, parity_tolerance=1e9))


def test_a_fault_counts_that_only_the_exported_model_comes_across(tiny_model: Transformer) -> None:
    """The fault begins after a token that the reference never takes."""
    reference, exported = tied(tiny_model)
    rows = exported.target_embedding.weight.detach().clone()
    rows[6] *= 2
    exported.target_embedding = nn.Embedding.from_pretrained(rows)
    parity = compare(TorchStepper(reference), TorchStepper(exported), SOURCES, SearchConfig(beam_size=1))
    assert parity.identical < len(SOURCES)
    assert parity.max_difference > 1e-2


def candidates(*pairs: tuple[int, float]) -> tuple[np.ndarray, np.ndarray]:
    ids, log_probs = zip(*pairs, strict=True)
    return np.array([log_probs], dtype=np.float32), np.array([ids])


def test_differences_are_between_equal_tokens() -> None:
    one = candidates((4, -1.0), (5, -2.0), (6, -3.0))
    assert largest_difference(one, one) == 0
    assert largest_difference(one, candidates((5, -1.0), (4, -2.0), (6, -3.0))) == 1
    assert largest_difference(one, candidates((4, -1.0), (5, -2.0), (7, -2.5))) == pytest.approx(0.5)
    assert largest_difference(one, candidates((4, -1.0), (5, -2.0), (7, -3.0))) == 0
    assert np.isnan(largest_difference(one, candidates((4, -1.0), (5, float("nan")), (6, -3.0))))


def test_forbidden_tokens_are_equal() -> None:
    infinite = candidates((4, -1.0), (0, -np.inf), (2, -np.inf))
    assert largest_difference(infinite, infinite) == 0
