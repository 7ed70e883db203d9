"""The code in a registered model is sufficient, contains no more, and is separate from other versions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import nmt_core
from flows.registry import packed_code
from flows.registry.packed_code import PackedCode, pack_code

BLOCKED = ["torch", "polars", "pyarrow", "filelock", "prefect", "mlflow", "yaml", "nmt_core", "flows"]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> PackedCode:
    """Packed code, in a folder with nothing else."""
    return pack_code(tmp_path_factory.mktemp("packed"))


def modules_of(package: Path) -> list[str]:
    files = (file.relative_to(package.parent).with_suffix("") for file in sorted(package.rglob("*.py")))
    return [".".join(file.parts).removesuffix(".__init__") for file in files]


def test_every_packed_module_can_be_imported_where_nothing_else_is(packed: PackedCode) -> None:
    package = packed.package
    code = f"""
import importlib, json, sys
sys.path.insert(0, {str(package.parent)!r})
sys.modules.update(dict.fromkeys({BLOCKED!r}))
for name in {modules_of(package)!r}:
    importlib.import_module(name)
ours = {{n: m.__file__ for n, m in sys.modules.items() if m and n.startswith("nmt_core")}}
print(json.dumps(ours))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=package, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    assert sorted(loaded) == sorted(modules_of(package))
    assert all(Path(file).is_relative_to(package) for file in loaded.values())


def test_the_files_equal_this_package_except_for_its_name(packed: PackedCode) -> None:
    source, name = Path(nmt_core.__file__).parent, packed.package.name
    for file in packed.package.rglob("*.py"):
        original = (source / file.relative_to(packed.package)).read_text(encoding="utf-8")
        assert file.read_text(encoding="utf-8").replace(f"from {name}", "from nmt_core") == original
    assert f"from {name}.translator import" in packed.model.read_text(encoding="utf-8")


def test_a_name_belongs_to_one_content(packed: PackedCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pack_code(tmp_path / "again").package.name == packed.package.name
    files = packed_code._files_of(*packed_code._FIRST_MODULES)
    monkeypatch.setattr(packed_code, "_files_of", lambda *modules: files[:-1])
    assert pack_code(tmp_path / "other").package.name != packed.package.name


def test_a_form_of_import_that_cannot_be_renamed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"line 2: import nmt_core\.errors: write `from nmt_core"):
        packed_code._renamed("import os\nimport nmt_core.errors\n", "nmt_core_1")
    text = 'def f():\n    from nmt_core.a import b  # from nmt_core\n    return "from nmt_core"\n'
    assert packed_code._renamed(text, "other") == text.replace("from nmt_core.a", "from other.a")


def test_nothing_travels_that_the_model_does_not_load(packed: PackedCode) -> None:
    name = packed.package.name
    path = f"import json, sys; sys.path.insert(0, {str(packed.package.parent)!r})"
    code = f"{path}; import {name}.translator, {name}.execution.cpus; print(json.dumps([*sys.modules]))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], cwd=packed.package.parent, text=True))
    assert set(modules_of(packed.package)) == {each for each in loaded if each.partition(".")[0] == name}
