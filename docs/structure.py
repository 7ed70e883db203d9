"""Measure the structure of the code: packages, arrows between them, and what it costs to import them.

    .venv/bin/python docs/structure.py

An *arrow* is a pair of packages of which one imports the other, however many of its modules do. A module that lies
beside the packages counts as one. The *floor* of an import is the shortest of ten, each in a new process.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
IMPORTS = {
    "nmt_core": "import nmt_core",
    "nmt_core.Translator": "from nmt_core import Translator",
    "flows.cli.app": "import flows.cli.app",
}
TIMES = 10

Arrows = set[tuple[str, str]]


def main() -> None:
    """Print the table."""
    graph = grimp.build_graph("nmt_core", "flows")
    print("| What | Number |\n| --- | ---: |")
    for root in ("nmt_core", "flows"):
        modules = [module for module in graph.modules if module.startswith(f"{root}.")]
        packages = [module for module in modules if graph.find_children(module)]
        children = graph.find_children(root)
        inner = {(a, b) for a, b in arrows(graph, root, root) if a != b}
        print(f"| `{root}`: modules | {len(modules)} |")
        print(f"| `{root}`: packages, all; on top | {len(packages)}; {len(children & set(packages))} |")
        print(f"| `{root}`: modules on top | {len(children - set(packages))} |")
        print(f"| `{root}`: arrows on top | {len(inner)} |")
        print(f"| `{root}`: arrows upwards | {len(upwards(root, inner))} |")
    print(f"| arrows from `flows` to `nmt_core` | {len(arrows(graph, 'flows', 'nmt_core'))} |")
    for name, code in IMPORTS.items():
        print(f"| floor of `{name}`, ms | {floor(code):.0f} |")
    page = (ROOT / "docs/concepts/code.md").read_text(encoding="utf-8")
    print(f"| files of one sentence pair | {len(set(re.findall(r'`(nmt_core/[a-z0-9_/]+[.]py)`', page)))} |")
    print(f"| words of the README | {len((ROOT / 'README.md').read_text(encoding='utf-8').split())} |")


def arrows(graph: grimp.ImportGraph, importer: str, imported: str) -> Arrows:
    """Return the arrows from the packages on top of one root package to the ones of another."""
    return {
        (".".join(module.split(".")[:2]), ".".join(other.split(".")[:2]))
        for module in graph.modules
        if module.startswith(f"{importer}.")
        for other in graph.find_modules_directly_imported_by(module)
        if other.startswith(f"{imported}.")
    }


def upwards(root: str, inner: Arrows) -> Arrows:
    """Return the arrows to a layer that pyproject.toml puts above the layer that they come from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(
        one["layers"] for one in project["tool"]["importlinter"]["contracts"] if one.get("containers") == [root]
    )
    height = {f"{root}.{name.strip()}": -place for place, layer in enumerate(layers) for name in layer.split(":")}
    return {(a, b) for a, b in inner if height[b] > height[a]}


def floor(code: str) -> float:
    """Return the fewest milliseconds that an import takes."""
    timed = f"import time; start = time.perf_counter(); {code}; print(1_000 * (time.perf_counter() - start))"
    return min(
        float(subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout)
        for _ in range(TIMES)
    )


if __name__ == "__main__":
    main()
