"""Make a bundle with the current code, of a model as it was trained, or of that model grown to a larger size.

    .venv/bin/python benchmarks/translate_grow.py BUNDLE WEIGHTS FOLDER --dev dev.en.gz dev.de.gz [--base] \
        [--text train.en.gz train.de.gz]

A base model takes days to train without a GPU, and a random one translates nothing: its translations end at no sensible
length, and no rounding harms it. A grown model gives the translations of the small one at the cost of a large one. Each
value is repeated: in the residual stream (norms see the same mean and deviation), within heads, over heads, and inside
the feed-forward layer. Weights that multiply repeated values are divided by the number of repetitions. Layers that are
added change almost nothing, and pieces that are added are almost impossible. Positions cannot be repeated, because they
are computed: they are the positions of the small width, repeated, which the file of weights notes for the others.

FOLDER gets `average/model.safetensors` and `export/`, the bundle, by the stage `export` itself, which calibrates and
compares on the dev text. A model to grow has one matrix for its three embeddings. With `--text`, training text, the
bundle has a shortlist. Added pieces are in no text, so the lists are shorter than with a real vocabulary of this
size. `--frequent` makes up for that.
"""

import argparse
import copy
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_model
from sentencepiece import sentencepiece_model_pb2
from translate_models import POSITIONS_KEY, Array, Weights

from nmt_core.config import PRECISIONS, CorpusConfig, ExportConfig, ModelConfig, PipelineConfig, ToyCorpusConfig
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx_kernels import OnnxKernels
from nmt_core.models.build import build_model
from nmt_core.tokenizer.tokenizer import SPM_FILE, Tokenizers, tokenizer_files

BASE_PIECES = 32_000
_ADDED = 1e-5
"""Deviation of the weights with which an added layer writes into the residual stream, whose values are about 1."""
_IMPOSSIBLE = 100.0
"""The logit of an added piece is minus this, whatever the state."""
_TOLERANCE = 1e-3
"""Tolerance of the export's comparison, in nats. Equal values have equal roundings, which add up."""


def main() -> None:
    """Make the bundle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, help="any bundle of the model: its tokenizer, languages and heads count")
    parser.add_argument("weights", type=Path, help="the averaged weights")
    parser.add_argument("folder", type=Path, help="where to write")
    parser.add_argument("--dev", type=Path, nargs=2, help="text to calibrate on and to compare on")
    parser.add_argument(
        "--unchecked", action="store_true", help="only write the graphs: needs no dev text and no polars"
    )
    parser.add_argument("--lines", type=int, help="number of first lines of the dev text (all): large models take long")
    parser.add_argument("--text", type=Path, nargs=2, help="training text, to make a shortlist from")
    parser.add_argument("--frequent", type=int, help="most frequent pieces of the shortlist (as usual)")
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS, help="fp32 and others (all)")
    parser.add_argument("--base", action="store_true", help="grow the model to the size of Transformer base")
    options = parser.parse_args()
    if not options.dev and not options.unchecked:
        parser.error("give --dev, or --unchecked")
    for name in ("average", "split", "tokenizer", "export"):
        (options.folder / name).mkdir(parents=True)
    described = json.loads((options.bundle / "config.json").read_text(encoding="utf-8"))
    weights = Weights(options.weights)
    config = ModelConfig(**weights.sizes(described["num_heads"]))
    for name in tokenizer_files(options.bundle):
        shutil.copyfile(options.bundle / name, options.folder / "tokenizer" / name)
    file = options.folder / "average" / "model.safetensors"
    if options.base:
        larger = ModelConfig(norm=config.norm)
        arrays, metadata = grown(weights, config, larger, BASE_PIECES)
        save_file(arrays, file, metadata)
        add_pieces(options.folder / "tokenizer" / SPM_FILE, BASE_PIECES)
        config = larger
    else:
        shutil.copyfile(options.weights, file)
    positions = Weights(file).positions
    computed = "nmt_core.models.transformer.sinusoidal_positions"
    with patch(computed, lambda length, width: torch.from_numpy(positions(length))):
        if options.unchecked:
            _export_unchecked(options.folder, described, config, options.precisions)
            return
        _write_dev(options.folder / "split", options.dev, options.lines)
        values: dict[str, Any] = {"parity_tolerance": _TOLERANCE, "precisions": options.precisions}
        train = options.folder / "split" / "train-00000.parquet"
        _write_pairs(train, options.text or options.dev, None if options.text else options.lines)
        if options.text:
            values["shortlist"] = True
            values |= {"shortlist_frequent": options.frequent} if options.frequent else {}
        _export(options.folder, described, config, ExportConfig(**values))


def grown(
    weights: Weights, small: ModelConfig, large: ModelConfig, pieces: int
) -> tuple[dict[str, Array], dict[str, str]]:
    """Arrays of a model that computes the same in a larger size, and their metadata.

    Args:
        weights: of a model with one matrix for three embeddings.
        small: its sizes.
        large: sizes that are multiples of those, the width an even one; layers may be added.
        pieces: of the larger vocabulary.
    """
    growth = _Growth(small, large)
    arrays: dict[str, Array] = {}
    for stack, old, new in (
        ("encoder", small.encoder_layers, large.encoder_layers),
        ("decoder", small.decoder_layers, large.decoder_layers),
    ):
        for number in range(new):
            for name, array in weights.arrays.items():
                if name.startswith(f"{stack}.{min(number, old - 1)}."):
                    copy = f"{stack}.{number}.{name.split('.', 2)[2]}"
                    arrays[copy] = growth.array(name, array, is_added=number >= old)
        if small.norm == "post" and new > old:
            # Of values that are normalised already a norm makes the same, if it neither scales nor moves them: what the
            # last norm did is done by the last one that is added.
            last, added = (f"{stack}.{number}.feed_forward_frame.norm" for number in (old - 1, new - 1))
            for part, value in (("weight", 1.0), ("bias", 0.0)):
                arrays[f"{added}.{part}"] = arrays[f"{last}.{part}"]
                arrays[f"{last}.{part}"] = np.full_like(arrays[f"{last}.{part}"], value)
    norms = {name: growth.repeated(array) for name, array in weights.arrays.items() if "_norm." in name}
    arrays |= norms
    # Repeated, the product of a state and an embedding is as many times as large as the embeddings are divided by.
    last_norm = "decoder_norm" if norms else f"decoder.{large.decoder_layers - 1}.feed_forward_frame.norm"
    for part in ("weight", "bias"):
        arrays[f"{last_norm}.{part}"] = arrays[f"{last_norm}.{part}"] / np.float32(growth.width**0.5)
    # Where all that is repeated sums to nothing, a constant that only added pieces see.
    mark = np.tile(np.array([1, -1], np.float32), large.d_model // 2)
    arrays[f"{last_norm}.bias"] = arrays[f"{last_norm}.bias"] + mark
    kept = growth.repeated(weights["output.weight"]) / np.float32(growth.width**0.5)
    more = np.tile(-_IMPOSSIBLE / large.d_model * mark, (pieces - len(kept), 1))
    arrays["output.weight"] = np.concatenate([kept, more]).astype(np.float32)
    metadata = dict.fromkeys(("source_embedding.weight", "target_embedding.weight"), "output.weight")
    return arrays, metadata | {POSITIONS_KEY: f"{small.d_model}"}


class _Growth:
    """Mapping from the arrays of one size to the arrays of another."""

    def __init__(self, small: ModelConfig, large: ModelConfig) -> None:
        self.width = large.d_model // small.d_model
        self.inner = large.d_ff // small.d_ff
        self.small, self.large = small, large
        self.draw = np.random.default_rng(1)

    def repeated(self, array: Array) -> Array:
        """Along the residual stream, which is the last axis."""
        return array.repeat(self.width, axis=-1)

    def heads(self, array: Array) -> Array:
        """Rows that are heads: each value within a head is repeated, then the heads are."""
        width = self.small.d_model // self.small.num_heads
        within = self.large.d_model // self.large.num_heads // width
        split = array.reshape(-1, self.small.num_heads, width, *array.shape[1:]).repeat(within, axis=2)
        more = self.large.num_heads // self.small.num_heads
        return split.repeat(more, axis=1).reshape(-1, *array.shape[1:])

    def array(self, name: str, array: Array, *, is_added: bool) -> Array:
        """Return the array of a layer. The array of an added layer is made up."""
        part = name.split(".", 2)[2]
        if "norm" in part:
            return (
                np.full(self.large.d_model, part.endswith("weight"), np.float32) if is_added else self.repeated(array)
            )
        linear = self._linear(part, array)
        if not is_added:
            return linear
        into_stream = part.endswith(("output.weight", "outer.weight"))
        deviation = _ADDED if into_stream else linear.shape[-1] ** -0.5
        return self.draw.normal(0, deviation if linear.ndim > 1 else 0, linear.shape).astype(np.float32)

    def _linear(self, part: str, array: Array) -> Array:
        if part == "feed_forward.inner.weight":
            return self.repeated(array).repeat(self.inner, axis=0) / np.float32(self.width)
        if part == "feed_forward.inner.bias":
            return array.repeat(self.inner)
        if part == "feed_forward.outer.weight":
            return array.repeat(self.width, axis=0).repeat(self.inner, axis=1) / np.float32(self.inner)
        if part == "feed_forward.outer.bias":
            return array.repeat(self.width)
        if part.endswith("attention.output.weight"):
            return self.heads(array.T.copy()).T.repeat(self.width, axis=0) / np.float32(self.width)
        projected = self.heads(self.repeated(array)) / np.float32(self.width)
        if "query" in part:
            # Scores sum over more equal products than the root of the width, which divides them, grows.
            within = (self.large.d_model // self.large.num_heads) / (self.small.d_model // self.small.num_heads)
            projected[: self.large.d_model] /= np.float32(within**0.5)
        return projected


def add_pieces(file: Path, pieces: int) -> None:
    """Fill a SentencePiece model up with pieces that it never uses."""
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(file.read_bytes())
    lowest = min(piece.score for piece in model.pieces)
    for number in range(len(model.pieces), pieces):
        model.pieces.add(piece=f"<added {number}>", score=lowest, type=model.SentencePiece.UNUSED)
    model.trainer_spec.vocab_size = pieces
    file.write_bytes(model.SerializeToString())


def _write_dev(folder: Path, files: tuple[Path, Path], lines: int | None) -> None:
    """Write the dev text as the stage `split` does."""
    _write_pairs(folder / "dev.parquet", files, lines)
    (folder / "splits.json").write_text(json.dumps({"dev": "dev.parquet", "tests": {}}))


def _write_pairs(file: Path, sides: tuple[Path, Path], lines: int | None = None) -> None:
    import polars

    source, target = (polars.scan_lines(side).slice(0, lines).collect().to_series() for side in sides)
    polars.DataFrame({"source": source, "target": target}).write_parquet(file)


def _export_unchecked(folder: Path, described: dict[str, Any], model: ModelConfig, precisions: Sequence[str]) -> None:
    """Write the graphs of fp32 and fp16 without comparing them with PyTorch."""
    bundle = folder / "export"
    tokenizers = Tokenizers.load(folder / "tokenizer")
    for name in tokenizer_files(folder / "tokenizer"):
        shutil.copyfile(folder / "tokenizer" / name, bundle / name)
    built = build_model(model, tokenizers.target.vocab_size, described["max_positions"], tokenizers.source_vocab_size)
    load_model(built, folder / "average" / "model.safetensors")
    built.eval().requires_grad_(False)
    for precision in precisions:
        kernels = OnnxKernels(copy.deepcopy(built).half() if precision == "fp16" else built)
        export_graphs(kernels, bundle / precision)
    names = ("d_model", "num_heads", "encoder_layers", "decoder_layers")
    described |= {name: getattr(model, name) for name in names}
    described |= {"vocab_size": tokenizers.target.vocab_size, "precisions": list(precisions)}
    files = sorted(file for file in bundle.rglob("*") if file.is_file())
    hashes = {file.relative_to(bundle).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    (bundle / "config.json").write_text(json.dumps(described | {"sha256": hashes}))


def _export(folder: Path, described: dict[str, object], model: ModelConfig, export: ExportConfig) -> None:
    """The stage `export`, as a run of the pipeline does it."""
    from nmt_core.stages.stage import Job, Resources, SilentReporter, restrict
    from nmt_core.stages.table import STAGES
    from nmt_core.store.artifacts import Artifact

    clean = {name: described[name] for name in ("unicode_form", "punctuation") if name in described}
    config = PipelineConfig.model_validate(
        {
            "name": "bench",
            "languages": described["languages"],
            "corpus": CorpusConfig(toy=ToyCorpusConfig()),
            "clean": clean,
            "model": model,
            "export": export,
        }
    )
    stage = next(stage for stage in STAGES.values() if stage.name == "export")
    inputs = {name: Artifact(name, "0" * 32, folder / name) for name in stage.needs}
    report = stage.load()(
        restrict(config, stage.sections), inputs, folder / "export", Job(SilentReporter(), Resources(threads=2))
    )
    print(report.model_dump_json(indent=1))
    Tokenizers.load(folder / "export")


if __name__ == "__main__":
    main()
