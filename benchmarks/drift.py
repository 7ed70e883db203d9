"""Measure how many planted shifts of text are found, how many false alarms there are, and what profiles cost.

    python benchmarks/drift.py BUNDLE CORPORA

BUNDLE is an exported model from English, for its tokenizer and for the cost of a job. CORPORA is a folder with the text
of `SETS`. From each set of English text, 20,000 lines are profiled as training text, and jobs of 2,000 lines are drawn
from the others: 100 as they are, and one for each shift of `nmt_core`'s tests of drift in all lines, in 30% and in 10%
of them. Prints tables, and exits with 1 if a shift of all lines is missed, if more than one job in 100 raises a false
alarm, or if a profile costs more than 2% of the CPU time of translation.
"""

import argparse
import gzip
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from nmt_core.drift.comparison import compare
from nmt_core.drift.profile import Profile, profile_of, sampled
from nmt_core.translator import Translator

SETS = {
    "multi30k": "multi30k/train.en.gz",
    "debian-l10n": "debian-l10n.en-de/train.en.gz",
    "tatoeba": "tatoeba.de-en/train.en.gz",
}
TRAINING_LINES = 20_000
JOB_LINES = 2_000
JOBS = 100
MOST_FALSE = 1
MOST_COST = 0.02
_MOST_LINES = 200_000
_TIMED = 2_000
_NAMES = ("Aoife O'Sullivan", "Marek Zieliński", "Nguyễn Thị Hạnh", "Jean-Luc Guérin", "Siobhán Ní Bhriain")
_CHAT = ("lol", "omg", "u there", "idk tbh", "brb", "thx", "gonna b late", "np", "k", "wyd")

Shift = Callable[[random.Random, str], str]


def read(file: Path) -> list[str]:
    """Return the lines of a packed file that hold text."""
    lines = gzip.decompress(file.read_bytes()).decode().rstrip("\n").split("\n")
    return [line for line in lines if line.strip()]


def typos(draw: random.Random, line: str) -> str:
    """Return the line with two letters swapped in a third of its words."""
    words = line.split()
    for place in draw.sample(range(len(words)), max(1, len(words) // 3)):
        word = words[place]
        at = draw.randrange(max(len(word) - 1, 1))
        words[place] = word[:at] + word[at : at + 2][::-1] + word[at + 2 :]
    return " ".join(words)


def wrapped(draw: random.Random, line: str) -> str:
    """Return the line with a tag around one of its words."""
    words = line.split()
    place = draw.randrange(len(words))
    words[place] = f'<b class="x">{words[place]}</b>'
    return " ".join(words)


def inserted(*choices: str) -> Shift:
    """Return the shift that inserts one of these texts between two words."""

    def shift(draw: random.Random, line: str) -> str:
        words = line.split()
        words.insert(draw.randrange(len(words) + 1), draw.choice(choices))
        return " ".join(words)

    return shift


def without_punctuation(draw: random.Random, line: str) -> str:
    """Return the line with letters, digits and spaces alone."""
    return "".join(character for character in line if character.isalnum() or character == " ").strip() or line


def numbers(draw: random.Random, line: str) -> str:
    """Return the line with two numbers in it."""
    first, second = f"{draw.randrange(10_000):,}", f"{draw.random() * 100:.2f}"
    return inserted(second)(draw, inserted(first)(draw, line))


def ocr(draw: random.Random, line: str) -> str:
    """Return the line as a bad scan reads."""
    return "".join({"l": "1", "o": "0", "e": "c", "m": "rn"}.get(c, c) if draw.random() < 0.4 else c for c in line)


CHANGES: Mapping[str, Shift] = {
    "upper case": lambda draw, line: line.upper(),
    "lower case": lambda draw, line: line.lower(),
    "title case": lambda draw, line: line.title(),
    "typos": typos,
    "no punctuation": without_punctuation,
    "doubled marks": lambda draw, line: line.rstrip(".!? ") + draw.choice(["!!!", "???", "...", "?!"]),
    "longer, two more clauses": lambda draw, line: f"{line.rstrip('.')}, and then {line.lower()}"[: 4 * len(line)],
    "shorter, first third": lambda draw, line: " ".join(line.split()[: max(1, len(line.split()) // 3)]),
    "sentences doubled": lambda draw, line: f"{line} {line}",
    "words doubled": lambda draw, line: " ".join(word for word in line.split() for _ in range(2)),
    "emoji": lambda draw, line: f"{line} {draw.choice('😀🎉👍🔥❤😂')}",
    "tags": wrapped,
    "placeholders": inserted("{name}", "%(count)d", "${user}"),
    "addresses": inserted("https://example.org/a?b=1", "mail@example.com"),
    "numbers": numbers,
    "names": inserted(*_NAMES),
    "scanned": ocr,
    "no spaces": lambda draw, line: line.replace(" ", ""),
    "chat": lambda draw, line: f"{draw.choice(_CHAT)} {' '.join(line.lower().split()[:4])}".rstrip("."),
    "single words": lambda draw, line: draw.choice(line.split()),
    "indented list": lambda draw, line: f"- {line.rstrip('.')};",
}
"""Shifts that change a line."""
REPLACED = {
    "captions": "multi30k/train.en.gz",
    "software": "debian-l10n.en-de/test.en.gz",
    "everyday sentences": "tatoeba.de-en/train.en.gz",
    "news": "testsets/newstest2014.de-en.de.gz",
    "German": "multi30k/train.de.gz",
    "French": "multi30k/train.fr.gz",
    "Czech": "multi30k/train.cs.gz",
    "Korean": "debian-l10n.en-ko/test.ko.gz",
}
"""Shifts that replace the text by another."""
_SAME = {("multi30k", "captions"), ("debian-l10n", "software"), ("tatoeba", "everyday sentences")}
SHARES = (1.0, 0.3, 0.1)


def planted(lines: list[str], change: Shift | list[str], share: float, draw: random.Random) -> list[str]:
    """Return lines of which a share is changed, or replaced by lines of another text."""
    chosen = [draw.random() < share for _ in lines]
    if isinstance(change, list):
        others = iter(draw.choices(change, k=len(lines)))
        return [next(others) if is_changed else line for line, is_changed in zip(lines, chosen, strict=True)]
    return [change(draw, line) if is_changed else line for line, is_changed in zip(lines, chosen, strict=True)]


class Watched:
    """Text of a set, with the profile of its training part.

    Args:
        name: name of the set.
        corpora: folder with all text.
        translator: model whose tokenizer is used.
    """

    def __init__(self, name: str, corpora: Path, translator: Translator) -> None:
        lines = read(corpora / SETS[name])[:_MOST_LINES]
        random.Random(1).shuffle(lines)
        self.name, self._translator = name, translator
        self.training = self.profile(lines[:TRAINING_LINES])
        self.jobs = lines[TRAINING_LINES:]

    def profile(self, lines: list[str]) -> Profile:
        """Return the profile of lines."""
        return profile_of(lines, self._translator.tokenizers.source, self._translator.spelling)

    def job(self, number: int) -> list[str]:
        """Return the lines of a job, drawn from the text that is not profiled as training text."""
        return random.Random(number).sample(self.jobs, JOB_LINES)

    def measures(self, number: int, lines: list[str]) -> list[str]:
        """Return the measures of a job that drift, profiled as a job of this size is."""
        drift = compare(self.profile(sampled(lines, number, len(lines))), self.training, "training text")
        return [difference.measure for difference in drift.drifting]


def find_shifts(watched: Watched, corpora: Path) -> tuple[int, int]:
    """Print which shifts are found, and return how many of all lines are found, and of how many."""
    shifts: dict[str, Shift | list[str]] = dict(CHANGES)
    shifts |= {name: read(corpora / file) for name, file in REPLACED.items() if (watched.name, name) not in _SAME}
    found = 0
    print(f"\n| Shift of {watched.name} | {' | '.join(f'in {share:.0%}' for share in SHARES)} | Measures |")
    print(f"| --- |{' --- |' * len(SHARES)} --- |")
    for number, (name, change) in enumerate(shifts.items()):
        results = []
        for share in SHARES:
            draw = random.Random(number)
            results.append(watched.measures(number, planted(watched.job(number), change, share, draw)))
        found += bool(results[0])
        marks = " | ".join("found" if result else "-" for result in results)
        print(f"| {name} | {marks} | {', '.join(results[0][:4])} |", flush=True)
    return found, len(shifts)


def false_alarms(watched: Watched) -> int:
    """Return the number of jobs of the same text that drift."""
    return sum(bool(watched.measures(number, watched.job(number))) for number in range(JOBS))


def cost(watched: Watched, translator: Translator) -> float:
    """Return the CPU time of a job's profile over the time of its translation."""
    lines = watched.job(0)[:_TIMED]
    translator.translate(lines[:8])
    started = time.process_time()
    translator.translate(lines)
    translated = time.process_time()
    watched.profile(sampled(lines, 0, len(lines)))
    return (time.process_time() - translated) / (translated - started)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("corpora", type=Path)
    arguments = parser.parse_args()
    translator = Translator.load(arguments.bundle)
    is_good, rows = True, []
    for name in SETS:
        watched = Watched(name, arguments.corpora, translator)
        found, shifts = find_shifts(watched, arguments.corpora)
        alarms = false_alarms(watched)
        rows.append(f"| {name} | {found} of {shifts} | {alarms} of {JOBS} |")
        is_good &= found == shifts and alarms <= MOST_FALSE
    print("\n| Text | Shifts found | False alarms |\n| --- | --- | --- |")
    print("\n".join(rows))
    watched = Watched("multi30k", arguments.corpora, translator)
    for search in ({}, {"beam_size": 1}):
        share = cost(watched, translator.with_search(**search))
        print(f"profile of {_TIMED:,} lines, beam {search.get('beam_size', translator.search.beam_size)}: {share:.2%}")
        is_good &= share <= MOST_COST
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
