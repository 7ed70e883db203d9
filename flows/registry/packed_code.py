"""Code that is packed with a registered model: the modules of `nmt_core` that its translator needs, and no others."""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import nmt_core

_ROOT = Path(nmt_core.__file__).parent.parent
_FIRST_MODULES = ("nmt_core.translator", "nmt_core.execution.cpus")


def pack_code(folder: Path) -> Path:
    """Copy `nmt_core.translator`, the count of CPUs, and the modules of the package that they import.

    Args:
        folder: Folder to make. Its subfolder `nmt_core` is the package.

    Returns:
        Folder of the package.
    """
    for file in _files_of(*_FIRST_MODULES):
        copy = folder / file.relative_to(_ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return folder / nmt_core.__name__


def _files_of(*modules: str) -> list[Path]:
    """Return the files of modules and of all modules that they import, directly or not, sorted.

    Imports are parsed and not executed, so that an import inside a function counts as well.
    """
    found, wanted = set[Path](), [*modules]
    while wanted:
        name = wanted.pop()
        file = _file_of(name)
        if file and file not in found:
            found.add(file)
            wanted += [name.rpartition(".")[0], *_imports_of(file)]  # Python imports the package first
    return sorted(found)


def _file_of(module: str) -> Path | None:
    """Return the file of a module, or None for a name inside a module and for modules of other packages."""
    if module.partition(".")[0] != nmt_core.__name__:
        return None
    path = _ROOT.joinpath(*module.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def _imports_of(file: Path) -> Iterator[str]:
    """Yield imported names that may be modules. The project has no relative imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
