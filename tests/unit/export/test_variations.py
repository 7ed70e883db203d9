"""Every variation of the model computes in ONNX Runtime what it computes in PyTorch."""

from pathlib import Path

import numpy as np
import pytest

from nmt_core.bundle import read_bundle
from nmt_core.config import CorpusConfig, ExportConfig, PipelineConfig, SearchConfig, ToyCorpusConfig
from nmt_core.errors import ConfigError
from nmt_core.export.calibration import calibrate
from nmt_core.export.dev import Dev
from nmt_core.export.gates import Gates
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx_kernels import Int8Kernels, OnnxKernels
from nmt_core.export.parity import check_parity, compare
from nmt_core.models.transformer import Transformer
from nmt_core.search.onnx_step import OnnxStepper
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import Tokenizer, Tokenizers
from nmt_core.translator import Translator

SOURCES = [np.random.default_rng(seed).integers(4, 100, 3 + seed % 9).tolist() for seed in range(20)]
SEARCH = SearchConfig(beam_size=3, max_source_tokens=20)


def difference(folder: Path, model: Transformer) -> float:
    """Largest difference of log-probabilities between a set of graphs and PyTorch, in nats."""
    search = SEARCH.model_copy(update={"max_length_offset": 8})
    return compare(TorchStepper(model), OnnxStepper(folder, 100), SOURCES, search).max_difference


def test_graphs_in_fp32_pass_the_gate(variation: Transformer, tmp_path: Path) -> None:
    export_graphs(OnnxKernels(variation), tmp_path / "fp32")
    parity = check_parity(
        TorchStepper(variation), OnnxStepper(tmp_path / "fp32", 100), SOURCES, ExportConfig(parity_beam_size=3)
    )
    assert parity.identical == len(SOURCES)
    assert 0 < parity.max_difference < 1e-4


def test_graphs_in_int8_are_near(variation: Transformer, tmp_path: Path) -> None:
    export_graphs(Int8Kernels(variation, calibrate(variation, SOURCES, SEARCH)), tmp_path / "int8")
    assert 1e-4 < difference(tmp_path / "int8", variation) < 1.0


def test_the_positions_that_a_model_has_learnt_bound_what_it_translates(
    variation: Transformer, bundle_of, tiny_tokenizer: Tokenizer
) -> None:
    folder = bundle_of(variation)
    positions = len(variation.positions_LM)
    assert read_bundle(folder).max_positions == positions == (80 if variation.config.positions == "learned" else 2_048)
    fits = SearchConfig(max_source_tokens=20, max_length_offset=8)
    long = " ".join(["the cat sees a dog"] * 20)
    assert [one.status for one in Translator.load(folder, fits).translate([long])] == ["split"]
    longer = SearchConfig(max_source_tokens=positions - 50)
    with pytest.raises(ConfigError, match=f"need {positions + 1:,} positions, but the model in .* has {positions:,}"):
        Translator.load(folder, longer)


def test_the_gates_cut_dev_sentences_to_the_positions(
    variation: Transformer, tiny_tokenizer_file: Path, tmp_path: Path
) -> None:
    tokenizers = Tokenizers.load(tiny_tokenizer_file.parent)
    dev = Dev([" ".join(["the cat sees a dog"] * 30), "a house"], ["x", "y"])
    config = PipelineConfig(name="tiny", corpus=CorpusConfig(toy=ToyCorpusConfig()))
    gates = Gates(variation, tokenizers, dev, config, threads=1)
    export_graphs(gates.kernels("int8"), tmp_path / "int8")
    export_graphs(gates.kernels("fp32"), tmp_path / "fp32")
    assert gates.check_parity(tmp_path / "fp32").sentences == 2
    gates.measure(tmp_path, "int8")
    assert set(gates.bleu) == {"int8"}
