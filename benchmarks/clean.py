"""Measure the whole stage `clean` on synthetic noisy text: pairs per second, memory and disk, by size and by workers.

    .venv/bin/python benchmarks/clean.py [--pairs N ...] [--workers N ...] [--language-id on|off]
        [--shard-pairs N] [--folder FOLDER]

The program makes the text (`noisy.py`, with dev and test sets of 2,000 pairs for decontamination) and downloads it into
a store. It then runs the stage through the stage runner in a child process, once for each number of pairs and of
workers. The configuration is the default one, except for the options above. `--language-id off` turns language
identification off. Every process has one thread.

- Seconds count the stage: reading, cleaning, writing, and hashing what was written.
- Memory counts the child and all its descendants. It is read every second, or less often if reading takes long, so that
  it costs at most a hundredth of a processor. The table shows the peak of the sum of the proportional set sizes (PSS: a
  page that n processes share counts 1/n in each), also for each phase of the stage (judging shards, comparing their
  keys, writing the result), and the peak of the sum of the resident set sizes (RSS).
- Disk is the peak of what the stage has written and not yet removed.

The text needs about 70 bytes of disk for a pair, and the stage about 250. Everything is removed at the end. The files
must be the same for any number of workers. If they are not, the benchmark fails.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import noisy
import psutil

from nmt_core.config import CleanConfig, PipelineConfig

_SHORTEST_INTERVAL = 1.0
_INTERVAL_BY_LOOK = 100  # a look takes 0.1 s where there is much memory, from processors that the workers want
_HELD_OUT_PAIRS = 2_000
_ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}


@dataclass
class Peaks:
    """The most that was in use at any look, in bytes."""

    pss: int = 0
    rss: int = 0
    disk: int = 0
    phases: dict[str, int] = field(default_factory=dict)
    """PSS by phase of the stage, in their order."""


@dataclass(frozen=True)
class Measured:
    """One run of the stage."""

    pairs: int
    workers: int
    kept: int
    seconds: float
    cpu_seconds: float
    peaks: Peaks
    files: dict[str, str]
    """sha256 of each Parquet file."""


def main() -> None:
    """Measure, and print rows of the table in docs/reference/benchmarks-record.md."""
    parser = argparse.ArgumentParser(description="The stage clean: pairs per second, memory and disk.")
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000], help="sizes (1,000,000)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1], help="numbers of worker processes (1)")
    parser.add_argument("--language-id", choices=("on", "off"), default="on")
    parser.add_argument(
        "--shard-pairs", type=int, default=CleanConfig().shard_pairs, help="the option `clean.shard_pairs`"
    )
    parser.add_argument(
        "--folder", type=Path, help="where to work, on a disk with room (the system's temporary folder)"
    )
    arguments = parser.parse_args()
    for pairs in arguments.pairs:
        with tempfile.TemporaryDirectory(prefix="bench-clean-", dir=arguments.folder) as name:
            folder = Path(name)
            config = _prepared(folder, pairs, arguments.language_id == "on", arguments.shard_pairs)
            measured = [_measured(folder, config, pairs, workers) for workers in arguments.workers]
        for one in measured:
            _print(one, measured[0], arguments.language_id)
        if any(one.files != measured[0].files for one in measured):
            sys.exit("different numbers of workers made different files")


def _prepared(folder: Path, pairs: int, identify: bool, shard_pairs: int) -> Path:
    """Make the text and download it. Return the file of the configuration."""
    corpora: dict[str, list[dict[str, str]]] = {}
    for seed, (role, size) in enumerate({"train": pairs, "dev": _HELD_OUT_PAIRS, "test": _HELD_OUT_PAIRS}.items()):
        source, target = (folder / f"{role}.{language}.zst" for language in ("en", "de"))
        noisy.write(size, (source, target), seed + 1)
        corpora[role] = [{"name": f"noisy-{role}", "source": str(source), "target": str(target)}]
    config = PipelineConfig.model_validate(
        {
            "name": "bench",
            "languages": {"source": "en", "target": "de"},
            "corpus": corpora,
            "clean": {"shard_pairs": shard_pairs} | ({} if identify else {"min_language_probability": 0}),
        }
    )
    file = folder / "config.json"
    file.write_text(config.model_dump_json(), encoding="utf-8")
    _finish(_start("download", file, folder, 1))
    for text in folder.glob("*.zst"):
        text.unlink()
    return file


def _measured(folder: Path, config: Path, pairs: int, workers: int) -> Measured:
    cpu_before = _cpu_seconds_of_children()
    (folder / "phase").unlink(missing_ok=True)
    child = _start("clean", config, folder, workers)
    peaks = Peaks()
    while child.poll() is None:
        start = time.monotonic()
        with suppress(psutil.NoSuchProcess):
            _look_at_memory(psutil.Process(child.pid), peaks, _text_of(folder / "phase"))
        peaks.disk = max(peaks.disk, _bytes_in(folder / "clean"))
        look = time.monotonic() - start
        with suppress(subprocess.TimeoutExpired):
            child.wait(max(_SHORTEST_INTERVAL, _INTERVAL_BY_LOOK * look))
    finished = _finish(child)
    return Measured(
        pairs=pairs,
        workers=workers,
        kept=finished["kept"],
        seconds=finished["seconds"],
        cpu_seconds=_cpu_seconds_of_children() - cpu_before,
        peaks=peaks,
        files=finished["files"],
    )


def _start(stage: str, config: Path, folder: Path, workers: int) -> "subprocess.Popen[bytes]":
    program = Path(__file__).with_name("clean_stage.py")
    command = [sys.executable, str(program), stage, str(config), str(folder), str(workers)]
    return subprocess.Popen(command, env=os.environ | _ONE_THREAD, stdout=subprocess.PIPE)


def _finish(child: "subprocess.Popen[bytes]") -> Any:
    """Return the last line that a child printed, as JSON, or None if it printed nothing."""
    printed, _ = child.communicate()
    if child.returncode:
        sys.exit(f"the stage ended with {child.returncode}")
    return json.loads(printed.splitlines()[-1]) if printed else None


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _look_at_memory(process: psutil.Process, peaks: Peaks, phase: str) -> None:
    pss = rss = 0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            memory = one.memory_full_info()
            pss += memory.pss
            rss += memory.rss
    peaks.pss, peaks.rss = max(peaks.pss, pss), max(peaks.rss, rss)
    if phase:
        peaks.phases[phase] = max(peaks.phases.get(phase, 0), pss)


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(parent, name).stat().st_blocks * 512
    return total


def _cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _print(one: Measured, first: Measured, language_id: str) -> None:
    faster = "" if one is first else f", {first.seconds / one.seconds:.2f} times as fast as {first.workers}"
    peaks = one.peaks
    phases = ", ".join(f"{phase} {pss / 1e9:.2f}" for phase, pss in peaks.phases.items())
    print(
        f"| The whole stage `clean`, {one.pairs / 1e6:g} M synthetic pairs, language identification {language_id}, "
        f"workers: {one.workers} | `benchmarks/clean.py` | {one.pairs / one.seconds:,.0f} pairs per second{faster}, "
        f"{one.pairs / one.cpu_seconds:,.0f} per CPU-second; {one.kept / one.pairs:.1%} kept; peak memory "
        f"{peaks.pss / 1e9:.2f} GB PSS ({phases}; {peaks.rss / 1e9:.2f} GB RSS), disk {peaks.disk / 1e9:.2f} GB |",
        flush=True,
    )


if __name__ == "__main__":
    main()
