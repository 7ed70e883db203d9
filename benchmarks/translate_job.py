"""Measure the memory of a translation job, for inputs of any size.

    benchmarks/translate_job.py BUNDLE --lines 1000000 10000000 [--folder FOLDER] [--threads 2]

BUNDLE is the folder of an exported model. The smallest one will do, because the job is measured and not the model. For
each number of lines, a file of short lines is made and translated in its own process. The figure is the resident memory
of that process (RSS, of /proc): when the model is loaded and the first chunks are done, at its peak from then on, and
its growth from the first to the last tenth of the chunks. Nothing is subtracted.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import psutil

from nmt_core.bundle.folder import sha256_of
from nmt_core.config import SearchConfig
from nmt_core.jobs.folder import JobFolder
from nmt_core.jobs.inputs import find_inputs
from nmt_core.jobs.order import JobRequest, ModelVersion, Order
from nmt_core.jobs.run import Means, run_job

_WORDS = ("a", "to", "it", "the", "now", "I", "cat", "is")
_LINES_AT_ONCE = 100_000


def make_text(file: Path, lines: int) -> None:
    """Write lines of one or two short words. One line in eight is empty."""
    with file.open("w") as opened:
        for first in range(0, lines, _LINES_AT_ONCE):
            numbers = range(first, min(first + _LINES_AT_ONCE, lines))
            opened.write("".join(f"{_WORDS[n * n % 8]}\n" if n % 8 else "\n" for n in numbers))


def translate(
    bundle: str, source: str, target: str, threads: int, results: "multiprocessing.Queue[dict[str, float]]"
) -> None:
    """Do the job in this process, and tell what it took."""
    process = psutil.Process(os.getpid())
    rss: dict[str, list[float]] = {"reading": [], "translating": [], "writing": []}

    def watch(done: float, total: float, note: str) -> None:
        phase = "reading" if not total else "writing" if note == "writing the output" else "translating"
        rss[phase].append(process.memory_info().rss / 1e6)

    order = Order(
        model=ModelVersion(name="bench", version="1", sha256=sha256_of(Path(bundle, "config.json"))),
        search=SearchConfig(beam_size=1, max_length_offset=1),
        inputs=find_inputs(source).files,
        target=target,
    )
    start = time.monotonic()
    outcome = run_job(JobRequest("bench"), order, JobFolder(f"{target}.job"), Means(bundle, threads, progress=watch))
    chunks = rss["translating"]
    tenth = max(len(chunks) // 10, 1)
    results.put(
        {
            "lines": outcome.done.lines,
            "seconds": time.monotonic() - start,
            "lines/s": outcome.done.lines / (time.monotonic() - start),
            "MB reading, at most": max(rss["reading"]),
            "MB, first tenth of the chunks": sum(chunks[:tenth]) / tenth,
            "MB, last tenth": sum(chunks[-tenth:]) / tenth,
            "MB, at most": max(max(values) for values in rss.values()),
            "MB, end": process.memory_info().rss / 1e6,
        }
    )


def main() -> None:
    """Measure each number of lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--lines", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--folder", default=None, help="where to put the text: a disk with room for it three times")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for lines in options.lines:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            source, target = Path(folder, "in.txt"), Path(folder, "out.parquet")
            make_text(source, lines)
            results: multiprocessing.Queue[dict[str, float]] = context.Queue()
            arguments = (options.bundle, str(source), str(target), options.threads, results)
            process = context.Process(target=translate, args=arguments)
            process.start()
            figures = results.get()
            process.join()
            print(", ".join(f"{name} {value:,.0f}" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
