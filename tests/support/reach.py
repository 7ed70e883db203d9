"""The test files that changed files reach, by imports: what `make quick` runs.

    python -m support.reach [--since REVISION] [--seconds CPU_SECONDS]

A test file reaches a module that it imports, or that a module which it reaches imports, wherever in it the import
stands. Files that import a changed module themselves come first, then those that reach it in two steps, and so on,
as far as their CPU-seconds (`costs.py`) fit into the given ones. A file that takes long by itself is left out. What
fixtures of `conftest.py` import does not count, for that is almost everything: `make test` runs all.
"""

import argparse
import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from support.costs import read_costs

ROOT = Path(__file__).parents[2]
MARKED = ("tests/faults/", "tests/integration/ui/", "tests/integration/stack/")
"""Folders that `make test` does not run either."""
_SECONDS = 40.0  # fixtures that many files share are not in their costs: with them, two cores take about a minute
_UNKNOWN = 1.0  # CPU-seconds of a file that has not been measured
_MOST_OF_ONE = 15.0  # a file runs in one process, and what it shares with other files, and makes if alone, costs more


def module_of(file: Path) -> str:
    """Return the name of a module by its file."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(file: Path) -> Iterator[str]:
    """Return the modules that a file imports, anywhere in it, and names in them."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            # `from nmt_core.corpus import toy` imports a module, `from nmt_core.corpus.toy import generate` a name.
            yield from (f"{node.module}.{name.name}" for name in node.names)


def importers(files: Iterable[Path]) -> dict[str, set[str]]:
    """Return the files that import each module, by the module's name."""
    files = list(files)
    modules = {module_of(file) for file in files}
    found: dict[str, set[str]] = defaultdict(set)
    for file in files:
        for name in imports_of(file):
            module = name if name in modules else name.rpartition(".")[0]
            if module in modules:
                found[module].add(str(file.relative_to(ROOT)))
    return found


def reached(changed: Iterable[str]) -> Iterator[str]:
    """Yield the test files that changed files reach, the nearest first."""
    files = sorted(path for top in ("nmt_core", "flows", "tests") for path in ROOT.glob(f"{top}/**/*.py"))
    importing = importers(files)
    seen: set[str] = set()
    nearest = sorted(set(changed))
    while nearest:
        seen.update(nearest)
        yield from (file for file in nearest if Path(file).name.startswith("test_") and not file.startswith(MARKED))
        modules = [module_of(ROOT / file) for file in nearest if file.endswith(".py")]
        nearest = sorted({file for module in modules for file in importing[module]} - seen)


def changed_files(since: str) -> list[str]:
    """Return existing files that differ from a revision, or that Git does not know yet."""
    commands = (["git", "diff", "--name-only", since], ["git", "ls-files", "--others", "--exclude-standard"])
    lines = [
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout for command in commands
    ]
    return [line for line in "".join(lines).splitlines() if (ROOT / line).is_file()]


def chosen(files: Iterable[str], seconds: float) -> tuple[list[str], int]:
    """Return the files whose costs fit into this many CPU-seconds, and how many do not fit."""
    costs, fitting, left_out = read_costs(), [], 0
    for file in files:
        cost = costs.get(file, _UNKNOWN)
        if cost <= min(seconds, _MOST_OF_ONE):
            seconds -= cost
            fitting.append(file)
        else:
            left_out += 1
    return fitting, left_out


def main() -> None:
    """Print the test files to run, and on stderr the files that were left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", default="HEAD", help="revision to compare with (default: HEAD)")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="CPU-seconds to spend (default: 40)")
    options = parser.parse_args()
    changed = changed_files(options.since)
    files, left_out = chosen(reached(changed), options.seconds)
    print(
        f"{len(changed)} files differ from {options.since}: {len(files)} test files, {left_out} left out",
        file=sys.stderr,
    )
    print("\n".join(files))


if __name__ == "__main__":
    main()
