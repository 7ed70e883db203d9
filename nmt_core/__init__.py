"""Neural machine translation as a plain library: one package for each step on the path of the data.

The names in `__all__` are the public interface. Each is imported when it is first used, so that a program that only
translates loads no PyTorch:

    from nmt_core import Translator

    translator = Translator.load("models:/quickstart@champion")
    print(translator.translate("a red house").text)

The path of the data:

    corpora -> download -> clean -> split -> tokenizer -> encode -> train -> average -> export -> evaluate

A recipe may add two stages after `split`: `synthesise`, in which trained models make more text, and `augment`, which
makes rough copies of the text.

Every arrow is an artifact: an immutable folder, named by the fingerprint of its inputs and its configuration (`store`).
Every word between arrows is a stage: one function of one shape (`stages/stage.py`), listed in `stages/table.py`.
`flows` adds Prefect, MLflow and the model registry. No module in here imports either.

Layers, lowest first. A module imports from its own layer's package and from layers before it; `make check` enforces
the order, which pyproject.toml declares:

    errors                error classes, and how messages are written
    config                options of recipes, without anything slow
    text                  characters: repair of wrongly decoded text, widths, scripts without spaces, chrF
    scoring, spelling     BLEU, chrF and TER; casing and punctuation of a language pair
    pages                 self-contained HTML pages
    execution, store      processes and pools; artifacts, manifests and files
    recipes, formats      YAML recipes; corpus files of any format
    documents             documents of which the text is translated and all else stays
    stages                the shape of a stage, and the table of all stages
    corpus                download, clean, split
    tokenizer             subword vocabularies
    batches               token ids, their alignment, and the plan of batches
    models                the Transformer and recurrent models, in PyTorch
    terms                 glossaries: terms in a text, and the pieces that spell their translations
    search                beam search, sampling and constraints, on PyTorch or ONNX graphs
    augmentation          rough and marked copies of training text
    bundle                the folder that `export` writes, on disk and in memory
    drift                 profiles of text, and how two of them differ
    translator            translation with a bundle: onnxruntime and sentencepiece, without torch, Prefect or MLflow
    judges                programs and services that judge or translate, and the files that they use
    train                 training with torchrun, checkpoints and averaging
    evaluate              scores, test sets and the gate
    export                ONNX graphs
    advice, jobs, explain, importing  a recipe that fits given text; large files; one sentence followed through a
                          model; models of other programs
    synthesis             training text that trained models make
"""

import importlib
import os
from typing import Any

# ONNX Runtime reads this when it is imported; without it, each session sends telemetry to Microsoft. This line runs
# before any other of ours: in the command line, in training processes and in registered models, which bring nmt_core.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_PUBLIC = {
    "PipelineConfig": ".config",
    "STAGES": ".stages.table",
    "Stage": ".stages.stage",
    "Store": ".store.artifacts",
    "Translation": ".search.translation",
    "Translator": ".translator",
    "load_recipe": ".recipes.recipe",
    "run_stage": ".stages.stage",
}
"""Module of each public name, relative to this package, which has another name where it is packed with a registered
model. `__init__.pyi` lists the same names for type checkers."""

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
