"""The stage makes a bundle of a recurrent model like any other, except int8."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars
import pytest
import torch
from safetensors.torch import save_model

from nmt_core.bundle.folder import read_bundle
from nmt_core.config import (
    CorpusConfig,
    ExportConfig,
    ModelConfig,
    PipelineConfig,
    RnnConfig,
    SearchConfig,
    ToyCorpusConfig,
)
from nmt_core.export.onnx import run
from nmt_core.export.parity import compare
from nmt_core.models.build import build_model
from nmt_core.search.beam import beam_search
from nmt_core.search.onnx_step import SET_FILES, OnnxStepper
from nmt_core.search.torch_step import TorchStepper
from nmt_core.stages.stage import Job, Resources, SilentReporter, restrict
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.tokenizer import Tokenizer
from nmt_core.translator import Translator

LINES = ["the cat sees a dog.", "a big house", "now", "the dog runs to it and sees a small cat", "나는 학생 이다"]
SOURCES = [np.random.default_rng(seed).integers(4, 100, 3 + seed % 9).tolist() for seed in range(40)]
CELLS = {"GRU": RnnConfig(hidden_size=12, alignment_size=10, maxout_size=8)}
CELLS["LSTM"] = CELLS["GRU"].model_copy(update={"cell": "lstm"})


@pytest.mark.parametrize("cell", CELLS)
def test_a_recurrent_model_becomes_a_bundle_that_translates_as_it_does(
    cell: str, tiny_tokenizer_file: Path, tmp_path: Path
) -> None:
    tokenizer, rnn = Tokenizer(tiny_tokenizer_file), CELLS[cell]
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    config = ModelConfig(architecture="rnn", d_model=9, rnn=rnn, tied_embeddings="none", **layers)
    torch.manual_seed(3)
    model = build_model(config, tokenizer.vocab_size, 2_048).eval().requires_grad_(False)
    for weight in model.parameters():
        weight.normal_(std=0.5)
    for name in ("average", "split", "out"):
        (tmp_path / name).mkdir()
    save_model(model, str(tmp_path / "average" / "model.safetensors"))
    for file in ("dev.parquet", "train-00000.parquet"):
        polars.DataFrame({"source": LINES, "target": LINES}).write_parquet(tmp_path / "split" / file)
    (tmp_path / "split" / "splits.json").write_text(json.dumps({"dev": "dev.parquet", "tests": {}}))
    export = ExportConfig(max_bleu_loss=100)  # BLEU of random weights is 0
    pipeline = PipelineConfig(name="tiny", corpus=CorpusConfig(toy=ToyCorpusConfig()), model=config, export=export)
    inputs = {name: Artifact(name, "0" * 32, tmp_path / name) for name in ("average", "split")}
    inputs["tokenizer"] = Artifact("tokenizer", "0" * 32, tiny_tokenizer_file.parent)
    stage = restrict(pipeline, STAGES["export"].sections)
    report = run(stage, inputs, tmp_path / "out", Job(SilentReporter(), Resources(threads=1)))

    assert 0 < report.max_difference < 1e-4
    assert report.identical_beams == report.compared_sentences == len(LINES)
    assert report.not_published.keys() == {"int8"}
    assert "int8 graphs are made for Transformers only" in report.not_published["int8"]
    sets = {f"{precision}/{name}" for precision in ("fp16", "fp32") for name in SET_FILES}
    assert set(report.bytes) == {"config.json", "profile.json", "spm.model", "fp32/attention.onnx", *sets}
    bundle = read_bundle(tmp_path / "out")
    assert (bundle.architecture, bundle.rnn, bundle.num_heads) == ("rnn", rnn, None)
    assert bundle.precisions == ("fp32", "fp16")

    search = SearchConfig(beam_size=3, max_length_offset=4)
    expected = beam_search(TorchStepper(model), tokenizer.encode(LINES), search)
    texts = [" ".join(text.split()) for text in tokenizer.decode([hypothesis.ids for hypothesis in expected])]
    assert [one.text for one in Translator.load(tmp_path / "out", search).translate(LINES)] == texts
    in_fp16 = compare(TorchStepper(model), OnnxStepper(tmp_path / "out/fp16", 100), SOURCES, search)
    assert 1e-5 < in_fp16.max_difference < 0.02, "what rounding to half precision explains"
    assert in_fp16.identical >= 0.9 * len(SOURCES)
    weights = (tmp_path / "out/fp32/weights.bin").stat().st_size
    whole = sum(weight.numel() for weight in model.parameters())
    assert weights < 4 * whole + 4_096 * len(list(model.parameters())), "no matrix is there twice"


def test_a_bundle_of_an_earlier_version_is_read(tiny_bundle: Path, tmp_path: Path) -> None:
    """The metadata names no architecture, because there was only one."""
    shutil.copytree(tiny_bundle, tmp_path / "old")
    described = json.loads((tiny_bundle / "config.json").read_text())
    old = {name: value for name, value in described.items() if name not in ("architecture", "rnn")}
    (tmp_path / "old" / "config.json").write_text(json.dumps(old))
    assert read_bundle(tmp_path / "old") == read_bundle(tiny_bundle)
    lines = [translation.text for translation in Translator.load(tiny_bundle).translate(LINES)]
    assert [translation.text for translation in Translator.load(tmp_path / "old").translate(LINES)] == lines
