"""Measure how many terms of a glossary are kept, and what that does to BLEU and speed.

    python benchmarks/terms.py BUNDLE --source test.en --reference test.de --train train.en train.de [--set KEY=VALUE]

The glossary is made of the references: words of a source and of its reference that the training text aligns (by their
Dice coefficient), each source word with all its translations in the references. A source word is left out if one of its
lines has a reference without any of them. The same lines are translated without a glossary, with one whose terms do not
occur, and with that one, in turns. `--exchanged` measures the share that is kept of translations that the model
would not choose. BLEU then means nothing, and is no reason to fail. Exits with 1 if less than 0.97 of the terms are
kept, or if BLEU falls.
"""

import argparse
import gzip
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sacrebleu import corpus_bleu

from nmt_core.bundle.folder import read_search
from nmt_core.config.faults import search_with
from nmt_core.spelling import AS_IT_IS
from nmt_core.terms.glossary import Term, TermFinder, missing
from nmt_core.translator import Translation, Translator

LEAST_KEPT = 0.97
_LEAST_DICE = 0.3
_FEWEST_LETTERS = 2
_TERMS_A_LINE = 2
_WORD = re.compile(r"[^\W\d_]+")


def main() -> int:
    """Measure, print, and return the exit code."""
    options = _options()
    sources, references = (read(file)[: options.lines] for file in (options.source, options.reference))
    glossary = glossary_of(sources, references, lexicon_of(*map(read, options.train)))
    if options.exchanged:
        glossary = dict(zip(glossary, [*list(glossary.values())[1:], next(iter(glossary.values()))], strict=True))
    search = search_with(read_search(options.bundle), dict(pair.split("=", 1) for pair in options.set))
    free = Translator.load(options.bundle, search)
    unused = {f"zzz{source}": target for source, target in glossary.items()}
    translators = {
        "without": free,
        "terms that do not occur": free.with_glossary(unused),
        "with": free.with_glossary(glossary),
    }
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    translations_by_name: dict[str, list[Translation]] = {}
    for _ in range(options.times):
        for name, translator in translators.items():
            start = time.process_time()
            translations_by_name[name] = translator.translate(sources)
            seconds[name].append(time.process_time() - start)
    finder = translators["with"]._finder
    assert finder
    places = [finder.find(line) for line in sources]
    total = sum(map(len, places))
    print(f"{len(sources)} lines, {len(glossary)} terms, which occur {total} times; {search.method} {search.beam_size}")
    shares, bleu = {}, {}
    for name, translations in translations_by_name.items():
        texts = [one.text for one in translations]
        lost = sum(missing(own, text) for own, text in zip(places, texts, strict=True))
        shares[name] = 1 - lost / total
        bleu[name] = corpus_bleu(texts, [references]).score
        ratio = statistics.median(seconds["without"]) / statistics.median(seconds[name])
        print(f"{name}: kept {shares[name]:.4f}, BLEU {bleu[name]:.2f}, speed {ratio:.2f} of without")
    changed = sum(
        one.text != other.text
        for one, other in zip(translations_by_name["without"], translations_by_name["with"], strict=True)
    )
    same = [one.text for one in translations_by_name["without"]] == [
        one.text for one in translations_by_name["terms that do not occur"]
    ]
    print(f"{changed} lines changed; the same texts where no term occurs: {same}")
    is_no_worse = options.exchanged or bleu["with"] >= bleu["without"]
    return 0 if same and shares["with"] >= LEAST_KEPT and is_no_worse else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--train", type=Path, nargs=2, required=True)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--exchanged", action="store_true", help="give each term the translation of another one")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="options of the search")
    return parser.parse_args()


def read(file: Path) -> list[str]:
    """Return the lines of a file, packed or not."""
    content = file.read_bytes()
    text = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    return text.decode().rstrip("\n").split("\n")


def words_of(line: str) -> set[str]:
    """Return the words of a line that may be terms."""
    return {word for word in _WORD.findall(line) if len(word) >= _FEWEST_LETTERS}


def lexicon_of(sources: list[str], targets: list[str]) -> dict[tuple[str, str], float]:
    """Return the Dice coefficient of each pair of words that are often in the same pair of lines."""
    both: Counter[tuple[str, str]] = Counter()
    counts: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for source, target in zip(sources, targets, strict=True):
        sides = words_of(source), words_of(target)
        for count, words in zip(counts, sides, strict=True):
            count.update(words)
        both.update((one, other) for one in sides[0] for other in sides[1])
    dice = {pair: 2 * count / (counts[0][pair[0]] + counts[1][pair[1]]) for pair, count in both.items() if count > 1}
    return {pair: value for pair, value in dice.items() if value >= _LEAST_DICE}


def glossary_of(
    sources: list[str], references: list[str], lexicon: dict[tuple[str, str], float]
) -> dict[str, str | None]:
    """Return a glossary of at most `_TERMS_A_LINE` new terms of each line."""
    targets: dict[str, dict[str, None]] = {}
    for source, reference in zip(sources, references, strict=True):
        for one, other in list(_pairs(source, reference, lexicon))[:_TERMS_A_LINE]:
            targets.setdefault(one.casefold(), {})[other] = None
    finder = TermFinder([Term(source, tuple(own)) for source, own in targets.items()], AS_IT_IS)
    for source, reference in zip(sources, references, strict=True):
        for one in finder.find(source):
            if missing([one], reference):
                targets.pop(source[one.start : one.end].casefold(), None)
    return {source: " | ".join(own) for source, own in targets.items()}


def _pairs(source: str, reference: str, lexicon: dict[tuple[str, str], float]) -> Iterator[tuple[str, str]]:
    """Yield pairs of words of a line that fit each other best."""
    likely = sorted(
        (-lexicon[one, other], one, other)
        for one in words_of(source)
        for other in words_of(reference)
        if (one, other) in lexicon
    )
    taken: set[str] = set()
    for _, one, other in likely:
        if one not in taken and other not in taken:
            taken |= {one, other}
            yield one, other


if __name__ == "__main__":
    sys.exit(main())
