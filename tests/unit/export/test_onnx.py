"""The stage: weights and tokenizer in, a bundle that translates as PyTorch does out."""

import json
from pathlib import Path

import onnx
import polars
import pytest
from safetensors.torch import save_model

from nmt_core.artifacts import Artifact
from nmt_core.config import (
    CorpusConfig,
    ExportConfig,
    LanguagesConfig,
    ModelConfig,
    PipelineConfig,
    SearchConfig,
    ToyCorpusConfig,
)
from nmt_core.errors import ModelError, StageError
from nmt_core.export.onnx import ExportReport, export_encoder, run
from nmt_core.models.transformer import Transformer
from nmt_core.search.beam import beam_search
from nmt_core.search.torch_step import TorchStepper
from nmt_core.stage import Job, Resources, SilentReporter, restrict
from nmt_core.stages import STAGES
from nmt_core.tokenizer.tokenizer import Tokenizer
from nmt_core.translator import Translator

PRE_NORM = ModelConfig(d_model=32, d_ff=48, num_heads=2, encoder_layers=1, decoder_layers=3, norm="pre")
SMALLEST = ModelConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1)
LINES = ["the cat sees a dog.", "a big house", "now", "the dog runs to it and sees a small cat", "나는 학생 이다"]


def random_model(config: ModelConfig, vocab_size: int) -> Transformer:
    model = Transformer(config, vocab_size, 2_048).eval().requires_grad_(False)
    model.output.weight.data *= 2
    return model


def run_stage(
    model: Transformer, config: ModelConfig, tokenizer_file: Path, folder: Path, **export: float
) -> ExportReport:
    for name in ("average", "split", "out"):
        (folder / name).mkdir()
    save_model(model, str(folder / "average" / "model.safetensors"), metadata={"vocab_size": str(model.vocab_size)})
    polars.DataFrame({"source": LINES, "target": LINES}).write_parquet(folder / "split" / "dev.parquet")
    (folder / "split" / "splits.json").write_text(json.dumps({"dev": "dev.parquet", "tests": {}}))
    pipeline = PipelineConfig(
        name="tiny",
        languages=LanguagesConfig(source="en", target="ko"),
        corpus=CorpusConfig(toy=ToyCorpusConfig()),
        model=config,
        export=ExportConfig(**export),
    )
    inputs = {name: Artifact(name, "0" * 32, folder / name) for name in ("average", "split")}
    inputs["tokenizer"] = Artifact("tokenizer", "0" * 32, tokenizer_file.parent)
    pipeline = restrict(pipeline, STAGES["export"].sections)
    return run(pipeline, inputs, folder / "out", Job(SilentReporter(), Resources(threads=1)))


def test_weights_become_a_bundle_that_translates_as_they_do(
    tiny_tokenizer_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tokenizer = Tokenizer(tiny_tokenizer_file)
    model = random_model(PRE_NORM, tokenizer.vocab_size)
    report = run_stage(model, PRE_NORM, tiny_tokenizer_file, tmp_path)
    assert capfd.readouterr() == ("", "")
    out = tmp_path / "out"
    assert sorted(report.bytes) == ["config.json", "encoder.onnx", "spm.model", "step.onnx"]
    assert report.bytes["step.onnx"] == (out / "step.onnx").stat().st_size
    assert 0 < report.max_difference < 1e-4
    assert report.identical_beams == report.compared_sentences == len(LINES)
    search = SearchConfig(beam_size=3, max_length_offset=4)
    expected = beam_search(TorchStepper(model), tokenizer.encode(LINES), search)
    translations = Translator.load(out, search).translate(LINES)
    assert [one.text for one in translations] == tokenizer.decode([hypothesis.ids for hypothesis in expected])
    description = json.loads((out / "config.json").read_text())
    assert description["languages"] == {"source": "en", "target": "ko"}
    assert description["special_ids"] == {"pad": 0, "unk": 1, "bos": 2, "eos": 3}
    assert (description["vocab_size"], description["max_positions"], description["format"]) == (100, 2_048, 1)


def test_no_matrix_is_stored_twice_in_a_graph(tiny_bundle: Path) -> None:
    for name in ("encoder.onnx", "step.onnx"):
        weights = [one.raw_data for one in onnx.load(tiny_bundle / name).graph.initializer if len(one.raw_data) > 1_024]
        assert len(weights) == len(set(weights))
        assert (tiny_bundle / name).stat().st_size < sum(map(len, weights)) + 300_000


def test_a_graph_tells_nothing_of_the_machine_that_exported_it(tiny_bundle: Path) -> None:
    for name in ("encoder.onnx", "step.onnx"):
        assert b".py" not in (tiny_bundle / name).read_bytes()


def test_the_same_weights_make_the_same_file(tiny_model: Transformer, tiny_bundle: Path, tmp_path: Path) -> None:
    export_encoder(tiny_model, tmp_path / "encoder.onnx")
    assert (tmp_path / "encoder.onnx").read_bytes() == (tiny_bundle / "encoder.onnx").read_bytes()


def test_the_stage_fails_where_the_runtimes_differ(tiny_tokenizer_file: Path, tmp_path: Path) -> None:
    model = random_model(SMALLEST, Tokenizer(tiny_tokenizer_file).vocab_size)
    with pytest.raises(StageError, match=r"export\.parity_tolerance=1e-30 is allowed"):
        run_stage(model, SMALLEST, tiny_tokenizer_file, tmp_path, parity_tolerance=1e-30)


def test_weights_of_another_model_are_refused(tiny_tokenizer_file: Path, tmp_path: Path) -> None:
    model = random_model(SMALLEST, 90)
    with pytest.raises(ModelError, match=r"model\.safetensors: not the weights of this model with 100 pieces"):
        run_stage(model, SMALLEST, tiny_tokenizer_file, tmp_path)
