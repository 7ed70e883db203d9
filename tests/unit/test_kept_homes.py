"""Homes that the benchmark fills are valid, so that it measures what a home of years would do."""

import sys
from pathlib import Path

from nmt_core.store.artifacts import Store

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import kept_homes


def test_artifacts_that_were_put_into_a_home_are_whole(tmp_path: Path) -> None:
    kept_homes.fill_with_artifacts(tmp_path, 5)
    kept_homes.fill_with_artifacts(tmp_path, 20)
    found = list(Store(tmp_path / "artifacts").published())
    assert len(found) == 20
    assert [artifact.damage(thorough=True) for artifact in found] == [None] * 20
    assert len({artifact.stage for artifact in found}) == 9
