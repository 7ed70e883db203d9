"""Give a change of a pair its means: random numbers of its own, the languages, and the pairs that follow."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmt_core.text.inline import INLINE

Pair = tuple[str, str]
"""Source and target of a pair."""


@dataclass(frozen=True)
class Draw:
    """Means of a change, in addition to the pair."""

    random: random.Random
    """Random numbers of this pair. They depend on the seed and on the place of the pair, and on nothing else."""
    languages: Pair
    """ISO 639 codes of the source and of the target, perhaps with a script or a region."""
    strength: float = 1.0
    """Factor of the usual number of changes in a sentence."""
    others: Sequence[Pair] = ()
    """Pairs that follow in the text."""

    def times(self, places: int, share: float) -> int:
        """Return the number of places to change, at least one if there is any.

        Args:
            places: number of places that could be changed.
            share: usual share of them.
        """
        expected = places * min(1.0, share * self.strength)
        whole = int(expected)
        return min(places, max(1, whole + (self.random.random() < expected - whole)))


Changing = Callable[[Pair, Draw], Pair]
"""Change of a pair. It returns an equal pair if there is nothing to change."""


def outside_of_kept(text: str, change: Callable[[str], str]) -> str:
    """Change all of a text except addresses, tags and placeholders."""
    parts, end = [], 0
    for kept in INLINE.finditer(text):
        parts += [change(text[end : kept.start()]), kept[0]]
        end = kept.end()
    return "".join([*parts, change(text[end:])])


def free_places(text: str, is_place: Callable[[int], bool]) -> list[int]:
    """Return the places of a text that satisfy a condition and lie in no address, tag or placeholder."""
    kept = {place for match in INLINE.finditer(text) for place in range(*match.span())}
    return [place for place in range(len(text)) if place not in kept and is_place(place)]


def language_of(code: str) -> str:
    """Return the language of a code such as pt_BR or zh-Hant."""
    return re.split("[-_]", code)[0]
