"""Nothing that is loaded can run code: no pickle, no unsafe YAML, no shell; and no secret is in a file."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import nmt_core

ROOT = Path(nmt_core.__file__).parent.parent
FILES = sorted([*ROOT.glob("nmt_core/**/*.py"), *ROOT.glob("flows/**/*.py")])
IDS = [str(file.relative_to(ROOT)) for file in FILES]
# Orders and answers on the pipe between a process and the children that it started itself; see the module.
BETWEEN_OUR_OWN_PROCESSES = {"nmt_core/worker.py"}
# An unpickler that knows the names that an index of a checkpoint may hold, and refuses all others; see the module.
BY_A_LIST_OF_NAMES = "nmt_core/train/reading.py"
PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
SECRET = re.compile(
    r"AKIA[0-9A-Z]{16}|hf_[A-Za-z]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:{$]+:[^@\s{$]{6,}@"
)


def calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call by its dotted name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def says(call: ast.Call, keyword: str, value: object) -> bool:
    found = {word.arg: word.value for word in call.keywords}.get(keyword)
    return isinstance(found, ast.Constant) and found.value is value


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_nothing_is_unpickled(file: Path) -> None:
    name_of_file = str(file.relative_to(ROOT))
    if name_of_file in BETWEEN_OUR_OWN_PROCESSES:
        return
    pickles = PICKLES - {"pickle"} if name_of_file == BY_A_LIST_OF_NAMES else PICKLES
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [name.name for name in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {name.partition(".")[0] for name in names} & pickles, f"line {getattr(node, 'lineno', 0)}"
    for name, call in calls(file):
        assert name not in {"pickle.load", "pickle.loads", "pickle.Unpickler"}, f"line {call.lineno}"
        assert name != "torch.load" or says(call, "weights_only", True), f"line {call.lineno}"
        assert name not in {"numpy.load", "np.load"} or not says(call, "allow_pickle", True), f"line {call.lineno}"
        assert name not in {"yaml.load", "yaml.unsafe_load", "yaml.full_load"}, f"line {call.lineno}: yaml.safe_load"


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_no_shell_sees_a_word_of_the_user(file: Path) -> None:
    for name, call in calls(file):
        assert name not in {"eval", "exec", "os.system", "os.popen"}, f"line {call.lineno}"
        assert not says(call, "shell", True), f"line {call.lineno}"


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_archives_are_opened_in_one_place(file: Path) -> None:
    """`corpus/formats` bounds their size and refuses paths that lead out of them; nobody else unpacks anything."""
    if "corpus/formats" in str(file):
        return
    for name, call in calls(file):
        assert not name.endswith((".extractall", ".unpack_archive")), f"line {call.lineno}"


def test_what_we_start_listens_on_the_loopback() -> None:
    """Whoever wants more says so: in infra/, where everything that listens asks for a password."""
    for file in FILES:
        assert "0.0.0.0" not in file.read_text(encoding="utf-8"), file


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
