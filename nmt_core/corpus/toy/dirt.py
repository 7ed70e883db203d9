"""Make the dirt that the toy corpus plants among its training rows, so that every cleaning filter has work."""

import random

from nmt_core.corpus.toy import lexicon as lx
from nmt_core.corpus.toy.grammar import Source
from nmt_core.corpus.toy.phrases import Pair

_RUN_ON_WORDS = 200
_LONG_SOURCE_WORDS = 9

FOREIGN = (
    "{name} trinkt jeden Morgen eine Tasse Kaffee.",
    "{name} wohnt in einem kleinen Haus am Fluss.",
    "Gestern hat {name} ein interessantes Buch gelesen.",
    "{name} geht heute mit dem Hund in den Park.",
    "{name} mange une pomme dans le jardin.",
    "Hier, {name} est venu avec un ami de la ville.",
    "{name} habite dans une petite maison blanche.",
    "Demain, {name} va lire un livre dans le train.",
    "{name} come una manzana todos los domingos.",
    "Ayer {name} compró un coche muy caro.",
    "{name} vive en una casa grande con su hermano.",
    "{name} lee un libro en la biblioteca.",
    "{name} сегодня читает книгу в саду.",
    "Вчера {name} купил большую машину.",
    "{name} живёт в маленьком доме у реки.",
    "{name} каждый день пьёт чай на кухне.",
)


def wrong_language(source: Source, rng: random.Random, index: int) -> Pair:
    """Return a pair with a target in a third language. Every fourth pair has its sides swapped instead."""
    english, korean = source.fresh()
    if index % 4 == 3:
        return korean, english  # the two sides swapped: the source is Korean
    name, _ = rng.choice(lx.NAMES)
    return english, rng.choice(FOREIGN).format(name=name)


def broken_encoding(source: Source, rng: random.Random, index: int) -> Pair:
    """Return a pair whose Korean was read as cp1252, or lost every other character."""
    english, korean = source.fresh()
    if index % 2:
        # Not latin-1: cp1252 maps no byte to a control character that would split the line in two.
        return english, korean.encode("utf-8").decode("cp1252", errors="replace")
    lost = rng.randrange(2)
    return english, "".join(
        c if c in " ,.?" or i % 2 != lost else "\ufffd" for i, c in enumerate(korean[:-1])
    ) + "\ufffd"


def length_outlier(source: Source, rng: random.Random, clean: list[Pair], index: int) -> Pair:
    """Return a long English sentence with one Korean word, or a pair with many sentences on one side."""
    if index % 2:
        english, korean = source.fresh(lambda pair: len(pair[0].split()) >= _LONG_SOURCE_WORDS)
        return english, korean.split()[0] + korean[-1]
    english, korean = source.fresh()
    side, parts, words = index // 2 % 2, [], 0
    while words < _RUN_ON_WORDS:
        parts.append(rng.choice(clean)[side])
        words += len(parts[-1].split())
    return (english, " ".join(parts)) if side else (" ".join(parts), korean)


def leak(pair: Pair, index: int) -> Pair:
    """Return a held-out pair unchanged, or changed only in case, final mark or spaces."""
    english, korean = pair
    disguises = (
        pair,
        (english.lower(), korean),
        (english[:-1], korean[:-1]),
        (english.replace(" ", "  "), korean.replace(" ", "  ")),
    )
    return disguises[index % len(disguises)]
