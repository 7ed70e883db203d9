"""Code that is packed with a registered model: the modules of `nmt_core` that its translator needs, and no others.

The package is renamed after its content, for example to `nmt_core_3f9a1c07b2d4`. So each model of a process runs the
code that it was registered with, beside models of other versions and beside an installed `nmt_core`.
"""

import ast
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import nmt_core

_ROOT = Path(nmt_core.__file__).parent.parent
_OURS = nmt_core.__name__
_FIRST_MODULES = ("nmt_core.translator", "nmt_core.execution.cpus")
_MODEL = Path(__file__).with_name("pyfunc_model.py")
_DIGITS = 12  # of the hash in the name of the package


class PackedCode(NamedTuple):
    """Code of a registered model, in a folder."""

    package: Path
    """Folder of the package, which is named after its content."""
    model: Path
    """File of the model, which imports that package."""


def pack_code(folder: Path) -> PackedCode:
    """Copy `pyfunc_model.py`, the modules of `nmt_core` that it needs, and the modules that these import.

    Imports of `nmt_core` name the copy. Nothing else is changed.

    Args:
        folder: folder to write to. It is made where it does not exist.

    Returns:
        The package and the file of the model.
    """
    texts = {file.relative_to(_ROOT): file.read_text(encoding="utf-8") for file in _files_of(*_FIRST_MODULES)}
    name = f"{_OURS}_{_hash(texts)}"
    for path, text in texts.items():
        copy = folder / name / path.relative_to(_OURS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_renamed(text, name), encoding="utf-8")
    model = folder / _MODEL.name
    model.write_text(_renamed(_MODEL.read_text(encoding="utf-8"), name), encoding="utf-8")
    return PackedCode(folder / name, model)


def _hash(texts: Mapping[Path, str]) -> str:
    """Return the first digits of a hash of all files, with their paths."""
    digest = hashlib.sha256()
    for path, text in texts.items():
        for part in (path.as_posix(), text):
            digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:_DIGITS]


@cache
def _renamed(text: str, package: str) -> str:
    """Return the text of a module in which every `from nmt_core... import` names another package.

    Raises:
        ValueError: the module imports `nmt_core` in the form `import nmt_core`, which binds a name that it uses.
    """
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and any(name.name.partition(".")[0] == _OURS for name in node.names):
            raise ValueError(f"line {node.lineno}: {ast.unparse(node)}: write `from {_OURS}... import ...`")
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == _OURS:
            line = lines[node.lineno - 1]
            start = node.col_offset
            lines[node.lineno - 1] = line[:start] + line[start:].replace(f"from {_OURS}", f"from {package}", 1)
    return "".join(lines)


def _files_of(*modules: str) -> list[Path]:
    """Return the files of modules and of all modules that they import, directly or not, sorted.

    Imports are parsed and not executed, so that an import inside a function counts as well.
    """
    files, pending = set[Path](), [*modules]
    while pending:
        name = pending.pop()
        file = _file_of(name)
        if file and file not in files:
            files.add(file)
            imported = _imports_in(file.read_text(encoding="utf-8"))
            pending += [name.rpartition(".")[0], *imported]  # Python imports the package first
    return sorted(files)


def _file_of(module: str) -> Path | None:
    """Return the file of a module, or None for a name inside a module and for modules of other packages."""
    if module.partition(".")[0] != _OURS:
        return None
    path = _ROOT.joinpath(*module.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


@cache
def _imports_in(text: str) -> list[str]:
    """Return imported names that may be modules. The project has no relative imports."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    return names
