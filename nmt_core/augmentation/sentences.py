"""Make one pair of several, or take a part of a pair with several sentences."""

from nmt_core.augmentation.draw import Draw, Pair
from nmt_core.search.sentences import sentences_of
from nmt_core.text.unspaced import UNSPACED_OR_WIDE

_MOST_MERGED = 3


def merge(pair: Pair, draw: Draw) -> Pair:
    """Append the next pair or the next two, in order, on both sides."""
    count = draw.random.randint(2, _MOST_MERGED) - 1
    for other in draw.others[:count]:
        source, target = (_joined(text, more) for text, more in zip(pair, other, strict=True))
        pair = source, target
    return pair


def split(pair: Pair, draw: Draw) -> Pair:
    """Take one sentence of a pair whose sides have the same number of sentences, more than one."""
    sides = [sentences_of(text, code) for text, code in zip(pair, draw.languages, strict=True)]
    if len(sides[0]) != len(sides[1]) or len(sides[0]) < 2:
        return pair
    place = draw.random.randrange(len(sides[0]))
    return sides[0][place].strip(), sides[1][place].strip()


def _joined(text: str, more: str) -> str:
    """Join two sentences, with a space unless their script has none."""
    is_unspaced = UNSPACED_OR_WIDE.match(text[-1:]) and UNSPACED_OR_WIDE.match(more[:1])
    return f"{text}{'' if is_unspaced else ' '}{more}"
