"""Compare decisions of the gate of precisions on trained models: by the difference alone, and by the paired test.

    .venv/bin/python benchmarks/precisions.py [--recipes FILE ...] [--sets 4] [--updates 1500] [--pairs 20000]

Trains the models of some recipes, or five small ones on the generated text of the quickstart, which differ in seed and
width. Each model is exported. It translates several sets of held-out sentences, which are parts of the dev set, in
fp32, in int8, and in int8 with its cache in fp32. The sets show how far a difference moves by chance: a gate that
decides by chance says "no" on one set and "yes" on another. A row is printed for each model and set: BLEU in fp32, the
difference from it with its interval, and both decisions.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt_core.config import ExportConfig, PipelineConfig
from nmt_core.export.dev import Dev
from nmt_core.export.gates import FP32_CACHE, INT8_CACHE, Gates, onnx_kernels
from nmt_core.export.graphs import export_graphs
from nmt_core.export.losses import too_much
from nmt_core.export.onnx import load_weights
from nmt_core.recipes.recipe import load_recipe
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.train.weights import MODEL_FILE

_MODELS = ((1, 64), (2, 64), (3, 96), (4, 128), (5, 128))
"""Seed and width."""


def _toys(options: argparse.Namespace) -> Iterator[tuple[str, str, list[str]]]:
    """Return a name, a recipe and its changes for each of the small models."""
    for seed, width in _MODELS[: options.models]:
        values = {
            "corpus.toy.pairs": options.pairs,
            "corpus.toy.held_out": options.sentences * options.sets,
            "split.dev_pairs": options.sentences * options.sets,
            "model.d_model": width,
            "model.d_ff": 2 * width,
            "train.seed": seed,
            "train.max_updates": options.updates,
        }
        yield f"seed {seed}, {width} wide", "quickstart", [f"{name}={value}" for name, value in values.items()]


def _trained(home: Path, recipe: str, changes: Sequence[str]) -> dict[str, Path]:
    """Run a recipe up to `average`, and return the folders of the artifacts by stage."""
    settings = [part for change in changes for part in ("--set", change)]
    nmt = str(Path(sys.executable).with_name("nmt"))
    command = [nmt, "run", recipe, *settings, "--until", "average", "--json"]
    environment = os.environ | {"NMT_HOME": str(home)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    stages = json.loads(done.stdout.splitlines()[-1])["stages"]
    return {stage["name"]: Path(stage["artifact"]) for stage in stages}


def _sets(dev: Dev, count: int) -> list[Dev]:
    """Return the dev set in this many parts, each with sentences from everywhere in it."""
    return [Dev(dev.sources[part::count], dev.references[part::count]) for part in range(count)]


def _judged(made: dict[str, Path], config: PipelineConfig, count: int) -> list[str]:
    """Return a row for each part of the dev set."""
    tokenizers = Tokenizers.load(made["tokenizer"])
    model = load_weights(made["average"] / MODEL_FILE, config.model, tokenizers)
    whole, rows = Dev.read(made["split"]), []
    first = Gates(model, tokenizers, whole, config, threads=os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as folder:
        for degree in (INT8_CACHE, FP32_CACHE):
            (Path(folder) / degree).mkdir()
            export_graphs(onnx_kernels(model), Path(folder) / degree / "fp32")
            export_graphs(first.kernels("int8", degree), Path(folder) / degree / "int8")
        for number, part in enumerate(_sets(whole, count)):
            gates = Gates(model, tokenizers, part, config, threads=os.cpu_count() or 1)
            for degree in (INT8_CACHE, FP32_CACHE):
                gates.measure(Path(folder) / degree, "fp32")
                gates.refuse(Path(folder) / degree, "int8", degree)
                name = "int8" if "int8" in gates.changes else f"int8, {degree}"
                rows.append(_row(number, degree, gates, name, config.export))
                gates.changes.clear()
    return rows


def _row(number: int, degree: str, gates: Gates, name: str, config: ExportConfig) -> str:
    change = gates.changes[name]
    alone = "refused" if change.difference < -config.max_bleu_loss else "published"
    paired = "refused" if too_much(change, config) else "published"
    rates = f"{gates.tokens_per_second['fp32']:,.0f} | {gates.tokens_per_second[name]:,.0f}"
    return f"| {number} | {degree} | {gates.bleu['fp32']:.2f} | {change} | {alone} | {paired} | {rates} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recipes", nargs="+", default=[], help="whose models to train, in place of the five")
    parser.add_argument("--updates", type=int, default=1_500)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--sets", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=1_000, help="of a set")
    parser.add_argument("--models", type=int, default=len(_MODELS), help="how many of the five")
    parser.add_argument("--home", type=Path, help="where to train, and find again what was trained")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        home = options.home or Path(folder)
        print("| model | set | cache | BLEU fp32 | int8 | by the difference | by the test | tokens/s fp32 | int8 |")
        print("|---|---|---|---|---|---|---|---|---|")
        recipes = [(Path(recipe).stem, recipe, list[str]()) for recipe in options.recipes]
        for name, recipe, changes in recipes or _toys(options):
            made = _trained(home, recipe, changes)
            for row in _judged(made, load_recipe(recipe, changes), options.sets):
                print(f"| {name} {row}", flush=True)


if __name__ == "__main__":
    main()
