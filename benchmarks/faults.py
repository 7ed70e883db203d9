"""Measure how many bad translations `nmt translate` marks, how many good ones, and what that costs.

    python benchmarks/faults.py CORPORA

CORPORA is a folder with the held-out text of four corpora (see `SETS`). References count as good translations. Bad ones
are planted: a reference is cut, repeated, replaced by its source or by a sentence of another language, or loses a
number, a tag or a placeholder. Prints a table of what was found, and exits with 1 if a bound is missed.
"""

import argparse
import gzip
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from nmt_core.config import LanguagesConfig
from nmt_core.jobs.checks import Checker

SETS = {
    "debian-l10n.en-de": ("en", "de", "debian-l10n.en-de/test.{}.gz"),
    "debian-l10n.en-ko": ("en", "ko", "debian-l10n.en-ko/test.{}.gz"),
    "multi30k": ("en", "de", "multi30k/test_2016_flickr.{}.gz"),
    "tatoeba.de-en": ("de", "en", "tatoeba.de-en/test.{}.gz"),
}
PLANTED = 2_000
LEAST_FOUND = 0.95
MOST_FLAGGED = 0.01
_FOREIGN = "multi30k/dev.fr.gz"
_LONG = 60
"""Fewest characters of a reference that is cut."""

Pair = tuple[str, str]


def read(file: Path) -> list[str]:
    """Return the lines of a packed file."""
    return gzip.decompress(file.read_bytes()).decode().rstrip("\n").split("\n")


def planters(draw: random.Random, foreign: list[str]) -> dict[str, Callable[[Pair], Pair | None]]:
    """Return a function for each fault. It spoils a translation, or returns None if the pair is unfit for it."""

    def too_short(pair: Pair) -> Pair | None:
        return (pair[0], pair[1][: len(pair[1]) // 5]) if min(map(len, pair)) >= _LONG else None

    def too_long(pair: Pair) -> Pair | None:
        return (pair[0], f"{pair[1]} {' '.join(draw.sample(foreign, 8))}") if len(pair[0]) >= _LONG / 2 else None

    def repeats(pair: Pair) -> Pair | None:
        words = pair[1].split()
        place = draw.randrange(len(words))
        return pair[0], " ".join([*words[:place], *[words[place]] * 14, *words[place:]])

    def copied(pair: Pair) -> Pair | None:
        return (pair[0], pair[0]) if len(pair[0].split()) >= 3 else None

    def wrong_language(pair: Pair) -> Pair | None:
        return pair[0], draw.choice(foreign)

    def numbers(pair: Pair) -> Pair | None:
        strings = re.findall(r"\d+", pair[1])
        if not strings or sorted(re.findall(r"\d", pair[0])) != sorted(re.findall(r"\d", pair[1])):
            return None
        number = draw.choice(strings)
        return pair[0], pair[1].replace(number, draw.choice(["", str(int(number) + 1)]), 1)

    def placeholders(pair: Pair) -> Pair | None:
        strings = re.findall(r"%[sd]|\{\w*\}", pair[1])
        return (pair[0], pair[1].replace(draw.choice(strings), "", 1)) if strings else None

    def tags(pair: Pair) -> Pair | None:
        return f"{pair[0]} <b>{pair[0][:5]}</b>", pair[1]

    return {
        "too_short": too_short,
        "too_long": too_long,
        "repeats": repeats,
        "copied": copied,
        "wrong_language": wrong_language,
        "numbers_differ": numbers,
        "placeholders_differ": placeholders,
        "tags_differ": tags,
    }


def planted(
    corpora: dict[str, tuple[LanguagesConfig, list[Pair]]], foreign: list[str]
) -> Iterator[tuple[str, str, Pair]]:
    """Yield the corpus, the fault and the pair of `PLANTED` bad translations, of each kind about equally many."""
    draw = random.Random(1)
    every = [(name, pair) for name, (_, pairs) in corpora.items() for pair in pairs]
    kinds = planters(draw, foreign)
    for number in range(PLANTED):
        kind = list(kinds)[number % len(kinds)]
        spoilt = None
        while not spoilt:
            name, pair = draw.choice(every)
            spoilt = kinds[kind](pair)
            if spoilt == pair:  # such as a copy of a source that is its own translation
                spoilt = None
        yield name, kind, spoilt


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpora", type=Path)
    folder = parser.parse_args().corpora
    corpora = {
        name: (
            LanguagesConfig(source=source, target=target),
            list(zip(*(read(folder / file.format(side)) for side in (source, target)), strict=True)),
        )
        for name, (source, target, file) in SETS.items()
    }
    is_met = True
    for name, (languages, pairs) in corpora.items():
        start = time.process_time()
        faults = Checker(languages).faults(*zip(*pairs, strict=True))
        seconds = time.process_time() - start
        counts = {fault: faults.count(fault) for fault in sorted({fault for fault in faults if fault})}
        share = sum(counts.values()) / len(pairs)
        is_met &= share <= MOST_FLAGGED
        print(f"{name}: {share:.2%} of {len(pairs):,} references, {len(pairs) / seconds:,.0f} pairs/CPU-s {counts}")
    rows = list(planted(corpora, read(folder / _FOREIGN)))
    results_by_kind: dict[str, list[tuple[str, bool]]] = {}
    for name, (languages, _) in corpora.items():
        own = [(kind, pair) for corpus, kind, pair in rows if corpus == name]
        for (kind, _), fault in zip(
            own, Checker(languages).faults(*zip(*(pair for _, pair in own), strict=True)), strict=True
        ):
            results_by_kind.setdefault(kind, []).append((fault or "", fault is not None))
    for kind, results in results_by_kind.items():
        print(f"{kind}: {sum(is_found for _, is_found in results)} of {len(results)}")
    share = sum(is_found for results in results_by_kind.values() for _, is_found in results) / PLANTED
    print(f"found {share:.2%} of {PLANTED:,} planted")
    return 0 if is_met and share >= LEAST_FOUND else 1


if __name__ == "__main__":
    sys.exit(main())
