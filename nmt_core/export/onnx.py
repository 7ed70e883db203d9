"""The averaged model as a bundle that needs no PyTorch: two ONNX graphs, the tokenizer and a description.

Letters in names of tensors: B sentences, R rows, S source positions, T target positions, H heads, D width of a head,
V vocabulary.
"""

import json
import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import polars
import torch
from safetensors import SafetensorError
from safetensors.torch import load_model
from torch import nn

from nmt_core.config import ExportConfig, ModelConfig, PipelineConfig, SearchConfig
from nmt_core.errors import ModelError
from nmt_core.export.parity import Parity, check_parity
from nmt_core.models.incremental import EncoderGraph, StepGraph
from nmt_core.models.transformer import Transformer
from nmt_core.search.onnx_step import (
    ENCODER_FILE,
    STEP_FILE,
    OnnxStepper,
    cross_names,
    open_graph,
    past_names,
    present_names,
)
from nmt_core.search.torch_step import TorchStepper
from nmt_core.stage import Inputs, Job, StageReport
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer, Tokenizers, tokenizer_files
from nmt_core.train.weights import MODEL_FILE
from nmt_core.translator import BUNDLE_FILE, BundleConfig, sha256_of

MAX_POSITIONS = 2_048
"""Positions are computed, so a model has as many as its export writes down."""


class ExportReport(StageReport):
    """Parity with PyTorch and the size of the bundle; items are parameters, tied ones counted once."""

    max_difference: float
    """Largest difference of log-probabilities between PyTorch and ONNX Runtime, in nats."""
    identical_beams: int
    """Held-out sentences that both translated into the same tokens; all, or the stage would have failed."""
    compared_sentences: int
    """Held-out sentences that both translated."""
    bytes: dict[str, int]
    """Size of each file of the bundle."""


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> ExportReport:
    """Stage `export`: weights and tokenizer to a bundle that translates as PyTorch does.

    Raises:
        StageError: ONNX Runtime and PyTorch differ by more than `export.parity_tolerance`, or in any translation.
        ModelError: the weights do not fit `model` or the tokenizer.
    """
    folder = inputs["tokenizer"].path
    tokenizers = Tokenizers.load(folder)
    model = load_weights(inputs["average"].path / MODEL_FILE, config.model, tokenizers)
    job.reporter.progress(0, 3, "exporting the graphs")
    export_encoder(model, out / ENCODER_FILE)
    export_step(model, out / STEP_FILE)
    for name in tokenizer_files(folder):
        shutil.copyfile(folder / name, out / name)
    bundle = describe_bundle(out, config, model)
    (out / BUNDLE_FILE).write_text(bundle.model_dump_json(indent=1) + "\n", encoding="utf-8")
    job.reporter.progress(1, 3, "comparing with PyTorch")
    sources = _held_out_sources(inputs["split"].path, tokenizers.source, config.export)
    parity = _compare(model, out, sources, config.export, job)
    job.reporter.progress(3, 3, f"largest difference {parity.max_difference:.1e}")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return ExportReport(
        items_in=parameters,
        items_out=parameters,
        unit="parameters",
        max_difference=parity.max_difference,
        identical_beams=parity.identical,
        compared_sentences=parity.sentences,
        bytes={file.name: file.stat().st_size for file in sorted(out.iterdir())},
    )


def load_weights(file: Path, config: ModelConfig, tokenizers: Tokenizers) -> Transformer:
    """The model in evaluation mode, from a file that `safetensors.torch.save_model` wrote.

    Raises:
        ModelError: the file is missing, or holds other tensors than such a model has.
    """
    vocab_size = tokenizers.target.vocab_size
    model = Transformer(config, vocab_size, MAX_POSITIONS, tokenizers.source_vocab_size)
    try:
        load_model(model, file)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"{file}: not the weights of this model with {vocab_size:,} pieces ({error}): average the checkpoints of "
            "the same recipe again"
        ) from None
    return model.eval().requires_grad_(False)


def export_encoder(model: Transformer, file: Path) -> None:
    """Write the graph of `EncoderGraph`: source [B, S] to cross_key_i and cross_value_i, each [B, H, S, D]."""
    source_BS = torch.full((2, 3), EOS_ID)
    _export(
        EncoderGraph(model),
        (source_BS,),
        file,
        dynamic_shapes=({0: "sentences", 1: "source_positions"},),
        input_names=["source"],
        output_names=cross_names(len(model.decoder)),
    )


def export_step(model: Transformer, file: Path) -> None:
    """Write the graph of `StepGraph`; its docstring gives the shapes, `search/onnx_step.py` the names."""
    layers, heads = len(model.decoder), model.config.num_heads
    width = model.config.d_model // heads
    # Sizes that differ from each other and from 1: the exporter takes equal ones for one and the same.
    sentences, rows, past_rows, source_positions, past_positions, candidates = 3, 6, 4, 5, 7, 8
    cross = [torch.zeros(sentences, heads, source_positions, width) for _ in cross_names(layers)]
    past = [torch.zeros(past_rows, heads, past_positions, width) for _ in past_names(layers)]
    arguments = (
        torch.full((rows,), EOS_ID),
        torch.zeros(rows, dtype=torch.int64),
        torch.ones(sentences, source_positions, dtype=torch.bool),
        torch.zeros(candidates, dtype=torch.int64),
        cross,
        past,
    )
    _export(
        StepGraph(model),
        arguments,
        file,
        dynamic_shapes=(
            {0: "rows"},
            {0: "rows"},
            {0: "sentences", 1: "source_positions"},
            {0: "candidates"},
            [{0: "sentences", 2: "source_positions"} for _ in cross],
            [{0: "past_rows", 2: "past_positions"} for _ in past],
        ),
        input_names=["tokens", "parents", "source_mask", "candidates", *cross_names(layers), *past_names(layers)],
        output_names=["log_probs", "ids", *present_names(layers)],
    )


def _export(graph: nn.Module, arguments: tuple[Any, ...], file: Path, **shapes_and_names: Any) -> None:
    with _quiet():
        program = torch.onnx.export(graph.eval(), arguments, dynamo=True, verbose=False, **shapes_and_names)
    assert program is not None  # only the old exporter returns nothing
    exported = program.model_proto
    graph_proto = exported.graph
    for part in (graph_proto, *graph_proto.node, *graph_proto.value_info, *graph_proto.input, *graph_proto.output):
        part.ClearField("metadata_props")  # traces of this machine's source files, a tenth of a small graph
    onnx.save_model(exported, file)  # one file: a bundle has no parts that its hashes do not cover


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns of torchvision, which nothing here uses, and of PyTorch's own deprecated calls."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def describe_bundle(folder: Path, config: PipelineConfig, model: Transformer) -> BundleConfig:
    """What `config.json` says of a folder that holds the other files."""
    return BundleConfig(
        languages=config.languages,
        unicode_form=config.clean.unicode_form,
        punctuation=config.clean.punctuation,
        vocab_size=model.vocab_size,
        source_vocab_size=model.source_vocab_size,
        special_ids={"pad": PAD_ID, "unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID},
        d_model=model.config.d_model,
        num_heads=model.config.num_heads,
        encoder_layers=model.config.encoder_layers,
        decoder_layers=model.config.decoder_layers,
        max_positions=len(model.positions_LM),
        sha256={name: sha256_of(folder / name) for name in (ENCODER_FILE, STEP_FILE, *tokenizer_files(folder))},
    )


def _held_out_sources(split: Path, tokenizer: Tokenizer, config: ExportConfig) -> list[list[int]]:
    """Ids of the first sentences of the dev set, cut where a search would cut them."""
    dev = json.loads((split / "splits.json").read_text(encoding="utf-8"))["dev"]
    dev_lines = polars.read_parquet(split / dev, columns=["source"], glob=False)["source"]
    lines = dev_lines.head(config.parity_sentences).to_list()
    return [ids[: SearchConfig().max_source_tokens] for ids in tokenizer.encode(lines)]


def _compare(model: Transformer, folder: Path, sources: list[list[int]], config: ExportConfig, job: Job) -> Parity:
    threads = torch.get_num_threads()
    torch.set_num_threads(job.resources.threads)
    try:
        onnx = OnnxStepper(open_graph(folder / ENCODER_FILE), open_graph(folder / STEP_FILE), model.vocab_size)
        return check_parity(TorchStepper(model), onnx, sources, config)
    finally:
        torch.set_num_threads(threads)
