"""Lines and branches that the tests have reached, a row for each package. `make coverage` prints the table.

    python -m support.covered COVERAGE.json [EARLIER.json]

The file is written by `coverage json`. With an earlier one, each row also shows how far the package has risen or
fallen.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_COUNTED = ("covered_lines", "covered_branches", "num_statements", "num_branches")


def by_package(report: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """Add up the counts of the files of each package, and of all of them."""
    packages: dict[str, Counter[str]] = {}
    for file, found in report["files"].items():
        counts = {name: found["summary"][name] for name in _COUNTED}
        for package in (str(Path(file).parent), "all"):
            packages.setdefault(package, Counter()).update(counts)
    return dict(sorted(packages.items()))


def percent(counts: Mapping[str, int]) -> float:
    """Return the share of lines and branches that were reached, as `coverage report` counts it."""
    whole = counts["num_statements"] + counts["num_branches"]
    return 100 * (counts["covered_lines"] + counts["covered_branches"]) / whole if whole else 100.0


def table(now: Mapping[str, Counter[str]], before: Mapping[str, Counter[str]]) -> list[str]:
    """Return a row for each package: its name, its share in percent, and the difference from before."""
    rows = []
    for package, counts in now.items():
        change = f"{percent(counts) - percent(before[package]):+6.1f}" if package in before else ""
        rows.append(f"{percent(counts):5.1f}% {change:>6}  {package}")
    return rows


def main() -> None:
    """Print the table of a report."""
    now, *before = (by_package(json.loads(Path(file).read_text())) for file in sys.argv[1:])
    print("\n".join(table(now, before[0] if before else {})))


if __name__ == "__main__":
    main()
