"""The code that travels with a registered model is enough, and no more than that."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import nmt_core
from flows.registry.packed_code import pack_code

BLOCKED = ["torch", "polars", "pyarrow", "filelock", "prefect", "mlflow", "yaml"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packed package, in a folder with nothing else."""
    return pack_code(tmp_path_factory.mktemp("packed"))


def modules_of(package: Path) -> list[str]:
    files = (file.relative_to(package.parent).with_suffix("") for file in sorted(package.rglob("*.py")))
    return [".".join(file.parts).removesuffix(".__init__") for file in files]


def test_every_packed_module_can_be_imported_where_nothing_else_is(package: Path) -> None:
    code = f"""
import importlib, json, sys
sys.path.insert(0, {str(package.parent)!r})
sys.modules.update(dict.fromkeys({BLOCKED!r}))
for name in {modules_of(package)!r}:
    importlib.import_module(name)
print(json.dumps({{n: m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] in ("nmt_core", "flows")}}))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=package, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    assert sorted(loaded) == sorted(modules_of(package))
    assert all(Path(file).is_relative_to(package) for file in loaded.values())


def test_the_files_are_those_of_this_package(package: Path) -> None:
    source = Path(nmt_core.__file__).parent
    for file in package.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert file.read_bytes() == (source / file.relative_to(package)).read_bytes()


def test_nothing_travels_that_the_model_does_not_load(package: Path) -> None:
    code = "import json, sys, nmt_core.translator, nmt_core.execution.cpus; print(json.dumps([*sys.modules]))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], cwd=package.parent, text=True))
    assert set(modules_of(package)) == {name for name in loaded if name.partition(".")[0] == nmt_core.__name__}
