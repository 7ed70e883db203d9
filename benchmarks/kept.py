"""Measure what a home costs that has been used for years: seconds of commands beside much that is kept.

    .venv/bin/python benchmarks/kept.py plan [--artifacts 2000 10000] [--times 3]
    .venv/bin/python benchmarks/kept.py rerun [--models 1500] [--runs 2000] [--times 3]
    .venv/bin/python benchmarks/kept.py text [--gigabytes 2] [--times 3]

- `plan`: `nmt plan quickstart` in an empty home, and beside this many artifacts of other recipes.
- `rerun`: `nmt run`, all of it reused, in a home with nothing else, and in a copy of it with this many registered
  models and earlier runs, in turn.
- `text`: `nmt plan` of a recipe with this much local text, the first time and again, with the bytes that the process
  has read.

Each ends with 1 if a goal is missed: 3 s for 10,000 artifacts, 1.2 times for the rerun, and no second reading of the
text. The first two goals are in CPU-seconds, so that other work on the machine does not decide.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kept_homes
from orchestration import recipe
from rerun import rerun

_SECONDS_FOR_A_PLAN = 3.0
_TIMES_FOR_A_RERUN = 1.2
_BYTES_READ_AGAIN = 64 << 20  # what a process reads of its own code, at most
_READ = """
import sys
from pathlib import Path
from flows.cli.app import main
try:
    main()
finally:
    print(Path("/proc/self/io").read_text().split()[1], file=sys.stderr)
"""


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description="Seconds of commands beside much that is kept.")
    parser.add_argument("what", choices=("plan", "rerun", "text"))
    parser.add_argument("--artifacts", type=int, nargs="+", default=[2_000, 10_000], help="how many (2000 10000)")
    parser.add_argument("--models", type=int, default=1_500, help="registered models (1500)")
    parser.add_argument("--runs", type=int, default=2_000, help="earlier runs (2000)")
    parser.add_argument("--gigabytes", type=float, default=2.0, help="of text (2)")
    parser.add_argument("--times", type=int, default=3, help="how many commands of each kind (3)")
    parser.add_argument("--folder", type=Path, help="an empty folder for the homes, which are kept there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nmt-kept-") as folder:
        home = (arguments.folder or Path(folder)).absolute() / "home"
        home.mkdir(parents=True)
        missed = {"plan": plans, "rerun": reruns, "text": texts}[arguments.what](home, arguments)
    if missed:
        sys.exit(missed)


def plans(home: Path, arguments: argparse.Namespace) -> str:
    """Time `nmt plan` beside more and more artifacts."""
    missed = ""
    for count in [0, *sorted(arguments.artifacts)]:
        kept_homes.fill_with_artifacts(home, count)
        times = [timed(home, "plan", "quickstart") for _ in range(arguments.times)]
        seconds = statistics.median(wall for wall, _ in times)
        print(f"nmt plan beside {count:,} artifacts: {seconds:.2f} s, {cpu(times):.2f} CPU-seconds", flush=True)
        if count <= 10_000 and cpu(times) > _SECONDS_FOR_A_PLAN:
            missed = f"{cpu(times):.2f} s beside {count:,} artifacts: more than {_SECONDS_FOR_A_PLAN}"
    return missed


def reruns(home: Path, arguments: argparse.Namespace) -> str:
    """Time `nmt run`, all of it reused, in an empty home and in a full one."""
    timed(home, "run", *recipe())
    full = home.with_name("full")
    shutil.copytree(home, full)
    kept_homes.fill_with_runs(full, arguments.models, arguments.runs)
    print(f"empty: {kept_homes.counts(home)}\nfull: {kept_homes.counts(full)}", flush=True)
    times_by_home: dict[Path, list[tuple[float, float]]] = {home: [], full: []}
    for _ in range(arguments.times):
        for place, times in times_by_home.items():
            before = children()
            seconds = rerun(recipe(), place)
            times.append((seconds, children() - before))
            print(f"  {place.name}: {times[-1][0]:.2f} s, {times[-1][1]:.2f} CPU-seconds", flush=True)
    ratios = [statistics.median(run[part] for run in times_by_home[full]) for part in (0, 1)]
    ratios = [one / statistics.median(run[part] for run in times_by_home[home]) for part, one in enumerate(ratios)]
    print(f"a full home takes {ratios[0]:.2f} times as long as an empty one, {ratios[1]:.2f} times the CPU-seconds")
    return f"{ratios[1]:.2f} times: more than {_TIMES_FOR_A_RERUN}" if ratios[1] > _TIMES_FOR_A_RERUN else ""


def texts(home: Path, arguments: argparse.Namespace) -> str:
    """Time `nmt plan` with text of this machine."""
    names = ("train.en", "train.ko", "dev.en", "dev.ko", "test.en", "test.ko")
    size = int(arguments.gigabytes * 2**30)
    for name in names:
        with (home / name).open("wb") as file:
            file.truncate(size // 2 if name.startswith("train") else 100)  # a hash takes as long for nothing but zeros
        os.utime(home / name, (1_700_000_000, 1_700_000_000))
    sections = [f"corpus.{part}=[{{name: {part}, source: {part}.en, target: {part}.ko}}]" for part in ("train", "dev")]
    sections += ["corpus.test=[{name: news, source: test.en, target: test.ko}]", "corpus.toy=null"]
    options = [word for section in sections for word in ("--set", section)]
    read = []
    for number in range(arguments.times):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", _READ, "plan", "quickstart", *options],
            cwd=home,
            env=os.environ | {"NMT_HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"nmt plan ended with {done.returncode}:\n{done.stderr}")
        read.append(int(done.stderr.split()[-1]))
        seconds = time.perf_counter() - start
        print(f"nmt plan, time {number + 1}: {seconds:.2f} s, {read[-1] / 2**30:.2f} GiB read", flush=True)
    return f"{read[-1]:,} bytes were read again" if max(read[1:]) > _BYTES_READ_AGAIN else ""


def timed(home: Path, *words: str) -> tuple[float, float]:
    """Run a command, and return its wall-clock and CPU seconds."""
    before, start = children(), time.perf_counter()
    command = [str(Path(sys.executable).with_name("nmt")), *words]
    done = subprocess.run(
        command, env=os.environ | {"NMT_HOME": str(home)}, cwd=home, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return time.perf_counter() - start, children() - before


def cpu(times: list[tuple[float, float]]) -> float:
    """Return the median of the CPU seconds."""
    return statistics.median(seconds for _, seconds in times)


def children() -> float:
    """Return the CPU seconds of all processes that this one has started and seen end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
