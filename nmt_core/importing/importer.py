"""Import a model: convert it, compare its graphs with PyTorch, and write a bundle with weights for fine-tuning."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml
from safetensors.torch import save_model

from nmt_core.bundle.folder import BUNDLE_FILE, SEARCH_FILE
from nmt_core.config import CorpusConfig, ExportConfig, LanguagesConfig, PipelineConfig, ToyCorpusConfig
from nmt_core.errors import ConfigError, DataError, ModelError
from nmt_core.export.dev import Dev, spread
from nmt_core.export.gates import Gates
from nmt_core.export.onnx import describe_bundle, write_graphs
from nmt_core.export.parity import Parity
from nmt_core.importing.foreign import ForeignModel, transformer_of
from nmt_core.importing.hugging_face import CONFIG_FILE, read_folder
from nmt_core.importing.marian import read_npz
from nmt_core.search.torch_step import TorchStepper
from nmt_core.stages.stage import Reporter
from nmt_core.tokenizer.tokenizer import SOURCE_SPM_FILE, SPM_FILE, TARGET_SPM_FILE, Tokenizers
from nmt_core.train.weights import MODEL_FILE, Label
from nmt_core.translator import Translator

RECIPE_FILE = "fine-tuning.yaml"
"""File with the sections of a recipe that trains the model further."""


@dataclass(frozen=True)
class Imported:
    """Result of an import."""

    folder: Path
    languages: LanguagesConfig
    parameters: int
    parity: Parity
    bleu: dict[str, float]
    """BLEU of the text by precision. Without references, against the translations in fp32."""
    costs: list[str]
    """Line for each thing that the gates left out of the bundle, with the reason."""


def read_model(address: Path, languages: tuple[str, str] = ("", "")) -> ForeignModel:
    """Read a model of another program.

    Args:
        address: folder of `transformers`, or `model.npz` of Marian or its folder.
        languages: source and target language. Empty means those that the files name.

    Raises:
        ModelError: there is no model, or it is damaged.
        ConfigError: the model cannot be expressed.
    """
    if (address / CONFIG_FILE).is_file():
        return read_folder(address, languages)
    if address.suffix == ".npz" or any(address.glob("*.npz")):
        return read_npz(address, languages)
    if not address.exists():
        raise ModelError(
            f"{address}: no such file or folder: nothing is fetched here; download the model first, for example by "
            "`hf download OWNER/NAME --local-dir FOLDER`, and name the folder"
        )
    raise ModelError(f"{address}: has neither {CONFIG_FILE} nor a .npz: name the folder of a model, or a model.npz")


def import_model(
    foreign: ForeignModel, out: Path, text: Dev, options: ExportConfig, threads: int, reporter: Reporter
) -> Imported:
    """Write a bundle, which appears in one step when all of it is there.

    Args:
        foreign: the model.
        out: folder to make. It may exist if it is empty.
        text: sentences to compare, calibrate and measure with, and their translations. If it has none, the precisions
            are measured against the translations in fp32.
        options: the gates, and the precisions to make.
        threads: number of CPU threads to use.
        reporter: receiver of the progress.

    Raises:
        ConfigError: the folder is not empty.
        DataError: the text is empty.
        ModelError: the files of the model do not belong together.
        StageError: ONNX Runtime and PyTorch differ.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out}: exists already: name a new folder")
    if not any(text.sources):
        raise DataError("the text to compare with is empty: name a file with sentences of the source language")
    draft = out.parent / f".{out.name}.{os.getpid()}"
    draft.mkdir(parents=True)
    try:
        imported = _write(foreign, draft, text, options, threads, reporter)
        draft.rename(out)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return Imported(out, foreign.languages, *imported)


def _write(
    foreign: ForeignModel, out: Path, text: Dev, options: ExportConfig, threads: int, reporter: Reporter
) -> tuple[int, Parity, dict[str, float], list[str]]:
    files = (SPM_FILE,) if foreign.is_joint else (SOURCE_SPM_FILE, TARGET_SPM_FILE)
    for name, vocabulary in zip(files, (foreign.source, foreign.target), strict=False):
        (out / name).write_bytes(vocabulary.model)
    foreign.starts.write(out)
    tokenizers, model = Tokenizers.load(out), transformer_of(foreign)
    config = PipelineConfig(
        name="import",
        languages=foreign.languages,
        corpus=CorpusConfig(toy=ToyCorpusConfig()),  # a recipe has text, which nothing here reads
        model=foreign.config,
        export=options,
        search=foreign.search,
    )
    gates = Gates(model, tokenizers, text, config, threads)
    if not text.references:
        gates.dev = Dev(text.sources, _own_translations(gates, text, options, threads))
    parity = write_graphs(gates, model, options, out, reporter)
    costs = gates.costs()
    bundle = describe_bundle(out, config, model)
    (out / BUNDLE_FILE).write_text(bundle.model_dump_json(indent=1) + "\n", encoding="utf-8")
    (out / SEARCH_FILE).write_text(foreign.search.model_dump_json(indent=1) + "\n", encoding="utf-8")
    save_model(model, str(out / MODEL_FILE), metadata=Label.of(foreign.config, out).metadata())
    (out / RECIPE_FILE).write_text(_recipe(foreign), encoding="utf-8")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return parameters, parity, gates.bleu, costs


def _own_translations(gates: Gates, text: Dev, options: ExportConfig, threads: int) -> list[str]:
    """Return the translations in PyTorch of the sentences that each precision translates. Others are empty."""
    translator = Translator(TorchStepper(gates.model), gates.tokenizers, gates.search, threads)
    places = spread(options.quality_sentences, len(text.sources))
    found = translator.translate([text.sources[place] for place in places])
    references = [""] * len(text.sources)
    for place, translation in zip(places, found, strict=True):
        references[place] = translation.text
    return references


def _recipe(foreign: ForeignModel) -> str:
    """Return the sections of a recipe that trains the model further, as YAML. Paths are relative to the bundle."""
    sections = {
        "languages": foreign.languages.model_dump(mode="json", exclude_defaults=True),
        "tokenizer": {"start_from": "FOLDER"},
        "model": foreign.config.model_dump(mode="json", exclude_defaults=True),
        "train": {"start_from": "FOLDER"},
        "search": foreign.search.model_dump(mode="json", exclude_defaults=True),
    }
    if not foreign.is_joint:
        sections["tokenizer"]["vocabularies"] = "separate"
    return (
        "# Sections of a recipe that trains this model further. FOLDER is the folder of this file.\n"
        + yaml.safe_dump(sections, sort_keys=False)
    )
