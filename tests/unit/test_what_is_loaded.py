"""No file that is loaded can run code, and no secret is in a file. What ruff's rules (S) check is left to them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.reach import imports_of

import nmt_core

ROOT = Path(nmt_core.__file__).parent.parent
FILES = sorted([*ROOT.glob("nmt_core/**/*.py"), *ROOT.glob("flows/**/*.py")])
MAY_PICKLE = {
    "nmt_core/execution/child.py",  # orders and answers on the pipe between a process and its own children
    "nmt_core/train/reading.py",  # knows the names that an index of a checkpoint may hold, and refuses all others
}
PICKLING = {"cloudpickle", "dill", "joblib", "shelve", "marshal"}
SECRET = re.compile(
    r"AKIA[0-9A-Z]{16}|hf_[A-Za-z]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:{$]+:[^@\s{$]{6,}@"
)


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    """Return every call with its dotted name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def says(call: ast.Call, keyword: str, value: object) -> bool:
    found = {word.arg: word.value for word in call.keywords}.get(keyword)
    return isinstance(found, ast.Constant) and found.value is value


def test_nothing_is_unpickled() -> None:
    """Ruff finds `pickle` itself, and requires a reason for it. This test finds pickles under other names."""
    imported = {(name(file), module.partition(".")[0]) for file in FILES for module in imports_of(file)}
    assert [file for file, library in imported if library in PICKLING] == []
    assert {file for file, library in imported if library == "pickle"} == MAY_PICKLE
    loads = [(file, function, call) for file in FILES for function, call in calls(file)]
    assert len(loads) > 10_000
    assert [name(file) for file, function, call in loads if unpickles(function, call)] == []


def unpickles(function: str, call: ast.Call) -> bool:
    """Return True if a call may run code that is in the data that it loads."""
    return (
        (function == "torch.load" and not says(call, "weights_only", True))
        or (function in {"numpy.load", "np.load"} and says(call, "allow_pickle", True))
        or function in {"yaml.load", "yaml.unsafe_load", "yaml.full_load"}
    )


def test_archives_are_opened_in_one_place() -> None:
    """`formats` bounds the size of archives and refuses paths that lead out of them.

    No other package unpacks anything.
    """
    elsewhere = [file for file in FILES if "corpus/formats" not in str(file)]
    unpacking = (".extractall", ".unpack_archive")
    assert [name(file) for file in elsewhere if any(call.endswith(unpacking) for call, _ in calls(file))] == []


def test_no_secret_is_written_down() -> None:
    kinds = {".py", ".yaml", ".yml", ".md", ".toml", ".json", ".sql", ".example", "", ".sbatch"}
    folders = ("nmt_core", "flows", "infra", ".ci")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in kinds]
    files += [file for file in ROOT.glob("*") if file.suffix in kinds]
    seen = 0
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            seen += 1
            assert not SECRET.search(file.read_text(encoding="utf-8")), file
    assert seen > 100
    for example in ("https://user:hunter22@host/", "postgresql://nmt:secret1@db/", "AKIAABCDEFGHIJKLMNOP"):
        assert SECRET.search(example)
