"""Measure `nmt run` when everything is made already: the seconds of each run, the best and the median.

    .venv/bin/python benchmarks/rerun.py [RECIPE] [--home NMT_HOME] [--times N] [--set section.key=value ...]

The recipe must have been run to the end before. A stage that is not reused is an error, because the figure would mean
nothing.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    """Run, print, fail if a run had something to do."""
    parser = argparse.ArgumentParser(description="Seconds of `nmt run` when everything is made already.")
    parser.add_argument("recipe", nargs="?", default="quickstart", help="name or file of the recipe (quickstart)")
    parser.add_argument("--home", type=Path, default=Path(".nmt"), help="NMT_HOME (.nmt)")
    parser.add_argument("--times", type=int, default=5, help="how many runs (5)")
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="section.key=value, as of nmt run")
    arguments = parser.parse_args()
    if arguments.times < 1:
        parser.error("--times must be 1 or more")
    overrides = [part for override in arguments.overrides for part in ("--set", override)]
    seconds = []
    for number in range(arguments.times):
        seconds.append(rerun([arguments.recipe, *overrides], arguments.home))
        print(f"run {number + 1}: {seconds[-1]:.2f} s", flush=True)
    print(f"best {min(seconds):.2f} s, median {statistics.median(seconds):.2f} s")


def rerun(arguments: list[str], home: Path) -> float:
    """Seconds from the start of the process to its end."""
    nmt = Path(sys.executable).with_name("nmt")
    environment = os.environ | {"NMT_HOME": str(home.absolute())}
    start = time.perf_counter()
    done = subprocess.run(
        [nmt, "run", *arguments, "--json"], env=environment, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"nmt run ended with {done.returncode}:\n{done.stderr}")
    stages = json.loads(done.stdout.splitlines()[-1])["stages"]
    if made := [stage["name"] for stage in stages if not stage["reused"]]:
        sys.exit(f"not reused, but made now: {', '.join(made)}: this run measured nothing; start again")
    return seconds


if __name__ == "__main__":
    main()
