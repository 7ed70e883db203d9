"""Functions from outside of the package are found, checked, and have a version."""

import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from pydantic import ValidationError

from nmt_core.config import CleanConfig, LanguagesConfig, PipelineConfig, ScoreRule
from nmt_core.corpus import clean
from nmt_core.corpus.cleaning import scorers
from nmt_core.corpus.cleaning.filters import judge
from nmt_core.corpus.cleaning.thresholds import rules_for
from nmt_core.errors import ConfigError

PAIRS = pl.DataFrame({"source": ["a", "b"], "target": ["c", "d"]})
PACKAGE = """
import polars as pl

def score(pairs):
    return pl.Series([0.5] * pairs.height)

def drop(pairs):
    return pairs["source"] == "a"

def listed(pairs):
    return [1.0, 2.0]

number = 3
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a package as pip installs it: a module, and a folder that names its entry points."""
    name = f"scorers_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(PACKAGE, encoding="utf-8")
    info = tmp_path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    points = f"[nmt_pipeline.scorers]\nhalf-{name} = {name}:score\n[nmt_pipeline.filters]\nno-a-{name} = {name}:drop\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_entry_points_are_found_by_group(package: str) -> None:
    assert scorers.find("scorers", f"half-{package}")(PAIRS).to_list() == [0.5, 0.5]
    assert scorers.find("filters", f"no-a-{package}")(PAIRS).to_list() == [True, False]
    with pytest.raises(ConfigError, match=rf"clean\.filters: 'half-{package}': .*\(installed: no-a-{package}\)"):
        scorers.find("filters", f"half-{package}")


def test_functions_are_found_by_module(package: str) -> None:
    assert scorers.find("scorers", f"{package}:score")(PAIRS).to_list() == [0.5, 0.5]


@pytest.mark.parametrize("name", ["no-such-scorer", "no_such_module:score", "nmt_core.errors:score", ":score", "json:"])
def test_names_that_are_not_known(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"clean\.scores: '{name}': .*: (install|correct)"):
        scorers.find("scorers", name)


def test_what_is_no_function(package: str) -> None:
    with pytest.raises(ConfigError, match=r":number': is a int, not a function: name another"):
        scorers.find("scorers", f"{package}:number")


def test_what_is_no_series(package: str) -> None:
    with pytest.raises(ConfigError, match=r":listed': returned a list: it must return a polars Series with a number"):
        scorers.find("scorers", f"{package}:listed")(PAIRS)


def test_a_changed_function_has_another_version(package: str, tmp_path: Path) -> None:
    def identity() -> object:
        options = {"scores": [{"scorer": f"{package}:score"}], "filters": [f"{package}:drop"]}
        return clean.identity(PipelineConfig.model_validate({"name": "t", "corpus": {"toy": {}}, "clean": options}))

    before = identity()
    assert identity() == before
    with (tmp_path / f"{package}.py").open("a", encoding="utf-8") as file:
        file.write("# Another threshold.\n")
    assert identity() != before


@pytest.mark.parametrize("name", ["no_such_module:score", "no.such.module:score", ":score", "sys:score"])
def test_what_has_no_file_has_no_version(name: str) -> None:
    assert scorers.version("scorers", name) == ""


def test_an_entry_point_has_the_version_of_its_package(package: str) -> None:
    assert scorers.version("scorers", f"half-{package}") == "1.0"


Program = Callable[[str], ScoreRule]
LENGTHS = """
for line in sys.stdin:
    source, target = line.rstrip("\\n").split("\\t")
    print(len(source) / len(target))
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A rule whose scorer is a Python program."""

    def write(text: str) -> ScoreRule:
        path = tmp_path / "a program.py"
        path.write_text(f"import sys\n{text}", encoding="utf-8")
        return ScoreRule(scorer="lengths", command=f"{sys.executable} '{path}' --score_only - -", min_score=1.0)

    return write


def test_a_program_scores_each_pair(program: Program) -> None:
    pairs = pl.DataFrame({"source": ["ab", "é", "\u3042"], "target": ["c", "dd", "d"]})

    assert scorers.scorer_of(program(LENGTHS))(pairs).to_list() == [2.0, 0.5, 1.0]
    assert scorers.scorer_of(program("sys.exit(9)"))(pairs.clear()).to_list() == []  # not even started


def test_a_programs_scores_drop_pairs_as_a_functions_do(program: Program) -> None:
    pairs = pl.DataFrame({"source": ["A dog runs here.", "Dog."], "target": ["Ein Hund.", "Ein Hund."]})
    keyed = pairs.with_columns(source_key=pl.lit(1), target_key=pl.lit(2), fault=pl.lit(None, pl.String))
    config = CleanConfig(scores=(program(LENGTHS),), min_language_probability=0, max_length_ratio=9)

    judged = judge(
        keyed.with_columns(fault_value="fault").lazy(), rules_for(config, LanguagesConfig(source="en", target="de"), "")
    ).collect()

    assert judged["reason"].to_list() == [None, "score:lengths"]
    assert judged["value"].to_list() == [None, "0.4444"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "print('loading', file=sys.stderr); sys.exit('no model there')",
            r"exit code 1 \(no model there\): run it by hand",
        ),
        ("import os; os.kill(os.getpid(), 9)", r"exit code -9: run it by hand"),
        ("print(1)", r"wrote 1 line for 2 pairs: it must write one number"),
        ("print('1\\n2\\n3')", r"wrote 3 lines for 2 pairs"),
        ("print('1\\nhigh')", r"wrote 'high' as line 2: it must write one number"),
        ("print('1\\n')", r"wrote '' as line 2"),
        ("sys.stdin.close(); print('1\\n2'); sys.exit(3)", r"exit code 3"),
    ],
)
def test_a_program_that_does_not_do_its_work(program: Program, text: str, message: str) -> None:
    with pytest.raises(
        ConfigError, match=r"clean\.scores: 'lengths': `.*a program\.py' --score_only - -`: .*" + message
    ):
        scorers.scorer_of(program(text))(PAIRS)


def test_a_program_that_is_not_there() -> None:
    rule = ScoreRule(scorer="x", command="no-such-program --score_only")

    with pytest.raises(
        ConfigError, match=r"`no-such-program --score_only`: cannot be started \(No such file.*: install"
    ):
        scorers.scorer_of(rule)(PAIRS)


@pytest.mark.parametrize("command", [" ", "python 'x"])
def test_a_command_that_is_none(command: str) -> None:
    with pytest.raises(ValidationError, match=r"names no program|No closing quotation"):
        ScoreRule(scorer="x", command=command)


def test_the_command_line_decides_the_result() -> None:
    def identity(command: str) -> object:
        options = {"scores": [{"scorer": "x", "command": command}]}
        return clean.identity(PipelineConfig.model_validate({"name": "t", "corpus": {"toy": {}}, "clean": options}))

    assert identity("score --model a") != identity("score --model b")


def identity_of(command: str) -> object:
    sections = {"name": "x", "corpus": {"toy": {}}, "clean": {"scores": [{"scorer": "x", "command": command}]}}
    return clean.identity(PipelineConfig.model_validate(sections))


@pytest.mark.parametrize(
    "command", ["{file}", "{file} --score_only - -", "python3 {file}", "env python3 -u {file}", "cat --model={file}"]
)
def test_a_program_that_is_changed_changes_the_result(tmp_path: Path, command: str) -> None:
    file = tmp_path / "score one.sh"
    file.write_text("#!/bin/sh\necho 1\n")
    file.chmod(0o755)
    words = command.format(file=f"'{file}'")
    before = identity_of(words)
    assert identity_of(words) == before
    file.write_text("#!/bin/sh\necho 2\n")
    assert identity_of(words) != before


def test_a_program_that_is_found_on_the_path_counts_without_the_interpreter_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Console scripts name the Python of their environment, which differs between machines."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program = tmp_path / "score-pairs"
    found = []
    for text in ("#!/here/python\nrun()\n", "#!/there/python\nrun()\n", "#!/here/python\nrun(2)\n", "\x7fELF"):
        program.write_text(text)
        program.chmod(0o755)
        found.append(identity_of("score-pairs - -"))
    assert found[0] == found[1]
    assert found[0] != found[2] != found[3] != found[0]


def test_words_that_are_no_files_and_interpreters_change_nothing() -> None:
    assert scorers.files_of(f"{sys.executable} -m no_such_module - - --of=1 /tmp {'x' * 5_000} 'a\\0b'") == {}
    assert scorers.files_of("no-such-program -q") == scorers.files_of("") == scorers.files_of("'") == {}
    assert "programs" not in str(identity_of("no-such-program -q"))
