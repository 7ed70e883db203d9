"""A tokenizer, a model and a bundle small enough to make in seconds; the weights are random, but always the same."""

import shutil
from pathlib import Path

import pytest
import sentencepiece
import torch

from nmt_core.config import CorpusConfig, ModelConfig, PipelineConfig, ToyCorpusConfig
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import EOS_ID, SPM_FILE, Tokenizer

TINY = ModelConfig(d_model=32, d_ff=64, num_heads=4, encoder_layers=2, decoder_layers=2, tied_embeddings="none")

torch.set_num_threads(1)  # tests run side by side


@pytest.fixture(scope="session")
def tiny_tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    words = ["the", "cat", "dog", "sees", "a", "big", "small", "house", "and", "runs", "to", "it", "now"]
    words += ["나는", "학생", "이다", "를", "본다"]
    lines = [f"{a} {b} {words[(i * j) % len(words)]}." for i, a in enumerate(words) for j, b in enumerate(words)]
    text = folder / "text.txt"
    text.write_text("\n".join(lines), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.Train(
        input=str(text),
        model_prefix=str(folder / "spm"),
        vocab_size=100,
        model_type="bpe",
        character_coverage=1.0,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    return folder / SPM_FILE


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_tokenizer_file: Path) -> Tokenizer:
    return Tokenizer(tiny_tokenizer_file)


def make_model(config: ModelConfig, vocab_size: int, seed: int = 1, max_positions: int = 2_048) -> Transformer:
    """Random weights with opinions: an untrained model finds every token almost equally probable."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Transformer(config, vocab_size, max_positions)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter, std=0.1)
        model.output.weight.data *= 3
        model.output.weight.data[EOS_ID] *= 3  # so that some targets end and others do not
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="session")
def tiny_model(tiny_tokenizer: Tokenizer) -> Transformer:
    return make_model(TINY, tiny_tokenizer.vocab_size)


@pytest.fixture(scope="session")
def tiny_bundle(tiny_model: Transformer, tiny_tokenizer_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from nmt_core.export.onnx import describe_bundle, export_encoder, export_step

    folder = tmp_path_factory.mktemp("bundle")
    export_encoder(tiny_model, folder / "encoder.onnx")
    export_step(tiny_model, folder / "step.onnx")
    shutil.copyfile(tiny_tokenizer_file, folder / SPM_FILE)
    config = PipelineConfig(name="tiny", corpus=CorpusConfig(toy=ToyCorpusConfig()))
    description = describe_bundle(folder, config, tiny_model)
    (folder / "config.json").write_text(description.model_dump_json())
    return folder
