"""The table of `make coverage`."""

from typing import Any

import pytest
from support.covered import by_package, percent, table


def report(**covered: int) -> dict[str, Any]:
    """Return what `coverage json` writes for files with 8 lines and 2 branches each."""
    summary = {"num_statements": 8, "num_branches": 2, "covered_branches": 1}
    return {
        "files": {
            f"{name.replace('__', '/')}.py": {"summary": summary | {"covered_lines": lines}}
            for name, lines in covered.items()
        }
    }


def test_files_count_for_their_package_and_for_all() -> None:
    packages = by_package(report(flows__a=8, flows__b=4, nmt_core__search__beam=0))
    assert {name: percent(counts) for name, counts in packages.items()} == {
        "all": pytest.approx(50),
        "flows": 70,
        "nmt_core/search": 10,
    }
    assert percent(by_package({"files": {}}).get("all", {"num_statements": 0, "num_branches": 0})) == 100


def test_a_row_shows_what_a_package_has_lost() -> None:
    before = by_package(report(flows__a=8))
    now = by_package(report(flows__a=7, new__b=8))
    assert table(now, before) == [" 85.0%   -5.0  all", " 80.0%  -10.0  flows", " 90.0%         new"]
