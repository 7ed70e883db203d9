from pathlib import Path

import polars as pl
import pytest

from nmt_core.corpus import scorers
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
    """A package as pip installs it: a module, and a folder that names its entry points."""
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
