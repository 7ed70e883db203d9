"""Imports point only to the left in the order of layers that `nmt_core/__init__.py` gives, and heavy ones stay out."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.reach import imports_of, module_of

import nmt_core

ROOT = Path(nmt_core.__file__).parent.parent
FILES = sorted([*ROOT.glob("nmt_core/**/*.py"), *ROOT.glob("flows/**/*.py")])
BESIDE_THE_PATH = {
    "recipe": {"config", "errors"},
    "knobs": {"config"},
    "bundle": {"config", "errors", "spelling", "tokenizer", "search"},
    "translator": {"bundle", "config", "errors", "spelling", "tokenizer", "search"},
}


def layers() -> dict[str, int]:
    """Number of each layer, from the left, as the package's docstring lists them."""
    text = " ".join((nmt_core.__doc__ or "").split())
    listed = re.search(r"a test says so: ([a-z_, >-]+flows)", text)
    assert listed
    groups = [group.split(",") for group in listed[1].split("->")]
    return {name.strip(): number for number, group in enumerate(groups) for name in group}


LAYERS = layers()


def layer_of(module: str) -> str | None:
    """`nmt_core.corpus.toy` belongs to `corpus`, `flows.cli` to `flows`, the package itself to none."""
    first, _, rest = module.partition(".")
    return first if first == "flows" else rest.split(".")[0] or None


def test_the_layers_are_those_of_the_package() -> None:
    folders = {path.name for path in (ROOT / "nmt_core").iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    modules = {path.stem for path in (ROOT / "nmt_core").glob("*.py")} - {"__init__"}
    assert folders | modules | {"flows"} == LAYERS.keys() | BESIDE_THE_PATH.keys()


def may_import(own: str, imported: str) -> bool:
    """Whether a module of a layer may import another module of ours."""
    other = layer_of(imported)
    if own in BESIDE_THE_PATH:
        return other in BESIDE_THE_PATH[own]
    if other in BESIDE_THE_PATH:
        # A recipe gives a configuration and the translator is what is shipped: both are for the right end.
        return LAYERS[own] > LAYERS["search"]
    return other is not None and LAYERS[other] <= LAYERS[own]


def test_imports_point_only_to_the_left() -> None:
    ours = [(file, layer, name) for file in FILES if (layer := layer_of(module_of(file))) for name in imports_of(file)]
    wrong = [
        f"{module_of(file)} imports {name}"
        for file, layer, name in ours
        if name.startswith(("nmt_core.", "flows.")) and not may_import(layer, name)
    ]
    assert len(ours) > len(FILES)
    assert wrong == []


def test_the_library_knows_neither_prefect_nor_mlflow() -> None:
    library = [file for file in FILES if "flows" not in file.parts]
    roots = {module_of(file): {name.split(".")[0] for name in imports_of(file)} for file in library}
    assert {module: found for module, names in roots.items() if (found := names & {"prefect", "mlflow", "flows"})} == {}


def import_without(module: str, blocked: set[str]) -> str:
    """Import a module in a process where others cannot be imported; what was said on the way to failure."""
    code = f"import sys; sys.modules.update(dict.fromkeys({sorted(blocked)!r})); import {module}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize(
    ("module", "blocked"),
    [
        ("nmt_core.config", {"torch", "polars", "pyarrow", "numpy", "filelock", "prefect", "mlflow"}),
        ("nmt_core.stages", {"torch", "polars", "pyarrow", "numpy", "onnxruntime", "prefect", "mlflow"}),
        ("nmt_core.translator", {"torch", "polars", "pyarrow", "filelock", "prefect", "mlflow", "yaml"}),
        ("nmt_core.tokenizer.tokenizer", {"torch", "polars", "pyarrow", "filelock", "prefect", "mlflow"}),
        ("nmt_core.train.launch", {"torch", "prefect", "mlflow"}),
    ],
)
def test_a_module_needs_no_more_than_it_should(module: str, blocked: set[str]) -> None:
    assert import_without(module, blocked) == ""


def test_blocking_a_module_works() -> None:
    assert "import of torch halted" in import_without("nmt_core.models.transformer", {"torch"})
