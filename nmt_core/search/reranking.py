"""Reranking of whole lines: a judge orders the candidates of many lines at once.

Fernandes et al. 2022, "Quality-Aware Decoding for Neural Machine Translation", rank the best translations of a beam, or
samples, by metrics that need no reference.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from nmt_core.errors import NmtError
from nmt_core.search.translation import Translation

Rank = Callable[[Sequence[tuple[str, str]]], Sequence[float]]
"""Judge: takes pairs of a source line and a candidate, and returns a number for each, of which the highest is best. It
raises `NmtError` if it cannot judge. Several threads may call it."""


def reranked(lines: Sequence[str], found: Sequence[Translation], rank: Rank, n_best: int) -> list[Translation]:
    """Return the translations with their choices in the order of a judge, who is called at most once.

    Lines whose candidates are all the same text are not judged. Equally good candidates keep their order. If the judge
    fails, the choices stay as they are, and `Translation.judge_problem` is the reason.

    Args:
        lines: source lines.
        found: translation of each line, with its other candidates as alternatives.
        rank: the judge.
        n_best: number of choices to keep.
    """
    texts = [list(dict.fromkeys(choice.text for choice in one.choices)) for one in found]
    pairs = [(line, text) for line, own in zip(lines, texts, strict=True) if len(own) > 1 for text in own]
    problem = ""
    numbers: Sequence[float] = ()
    try:
        numbers = rank(pairs) if pairs else ()
    except NmtError as error:
        problem = str(error)
    left = iter(numbers)
    results = []
    for one, own in zip(found, texts, strict=True):
        order = list(range(len(one.choices)))
        if len(own) > 1 and not problem:
            value = {text: next(left) for text in own}
            order.sort(key=lambda place, choices=one.choices, value=value: -value[choices[place].text])  # type: ignore[misc]
        chosen = one.in_order(order[:n_best])
        results.append(replace(chosen, judge_problem=problem) if len(own) > 1 and problem else chosen)
    return results
