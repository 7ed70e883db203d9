"""Every variation of the model computes in ONNX Runtime what it computes in PyTorch."""

from pathlib import Path

import numpy as np
import pytest

from nmt_core.bundle.folder import read_bundle
from nmt_core.config import CorpusConfig, ExportConfig, ModelConfig, PipelineConfig, SearchConfig, ToyCorpusConfig
from nmt_core.errors import ConfigError
from nmt_core.export.calibration import calibrate
from nmt_core.export.dev import Dev
from nmt_core.export.gates import Gates
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx_kernels import Int8Kernels
from nmt_core.export.parity import check_parity, compare
from nmt_core.models.transformer import Transformer
from nmt_core.search.onnx_step import OnnxStepper
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.translator import Translator

SOURCES = [np.random.default_rng(seed).integers(4, 100, 3 + seed % 9).tolist() for seed in range(20)]
SEARCH = SearchConfig(beam_size=3, max_source_tokens=20, max_length_offset=8)
LONG = " ".join(["the cat sees a dog"] * 30)


def test_graphs_in_fp32_pass_the_gate_and_know_their_positions(variation: Transformer, bundle_of) -> None:
    folder = bundle_of(variation)
    config = ExportConfig(parity_beam_size=3)
    reference = TorchStepper(variation)
    parity = check_parity(reference, OnnxStepper(folder / "fp32", 100), SOURCES, config, reference.in_float64)
    assert parity.identical == len(SOURCES)
    assert 0 < parity.max_difference < 1e-4
    positions = 80 if variation.config.positions == "learned" else 2_048
    assert read_bundle(folder).max_positions == positions
    (translation,) = Translator.load(folder, SEARCH).translate([LONG])
    assert translation.status in ("split", "unfinished")
    assert translation.text
    with pytest.raises(ConfigError, match=f"need {positions + 1:,} positions, but the model in .* has {positions:,}"):
        Translator.load(folder, SearchConfig(max_source_tokens=positions - 50))


def test_graphs_in_int8_are_near(variation: Transformer, tmp_path: Path) -> None:
    export_graphs(Int8Kernels(variation, calibrate(variation, SOURCES, SEARCH)), tmp_path / "int8")
    found = compare(TorchStepper(variation), OnnxStepper(tmp_path / "int8", 100), SOURCES, SEARCH)
    assert 1e-4 < found.max_difference < 1.0


def test_the_gates_cut_dev_sentences_to_the_positions_that_were_learnt(tiny_tokenizer_file: Path) -> None:
    tokenizers = Tokenizers.load(tiny_tokenizer_file.parent)
    sizes = {"d_model": 16, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    model = Transformer(ModelConfig(**sizes, positions="learned", max_positions=80), 100).eval()
    assert len(tokenizers.source.encode([LONG])[0]) > 80
    config = PipelineConfig(name="tiny", corpus=CorpusConfig(toy=ToyCorpusConfig()))
    gates = Gates(model, tokenizers, Dev([LONG, "a house"], ["x", "y"]), config, threads=1)
    assert gates.search.max_source_tokens == 80 - 50 - 1
    assert gates.kernels("int8").model is model, "it has translated the dev sentences"
