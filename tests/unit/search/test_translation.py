"""A line is assembled from the translations of its parts."""

import itertools
import random

import pytest

from nmt_core.search.translation import Alternative, Translation, whole


def part(drawn: random.Random, number: int, choices: int) -> Translation:
    scores = sorted((-drawn.random() for _ in range(choices)), reverse=True)
    others = tuple(Alternative(f"{number}.{place}", score, None, 3) for place, score in enumerate(scores) if place)
    return Translation(f"{number}.0", scores[0], "ok", drawn.randint(1, 9), others)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_combinations_are_the_best_of_all(seed: int) -> None:
    drawn = random.Random(seed)
    parts = [part(drawn, number, drawn.randint(1, 3)) for number in range(5)]

    def loss(picks: tuple[Alternative, ...]) -> float:
        return sum((one.score - pick.score) * max(one.tokens, 1) for one, pick in zip(parts, picks, strict=True))

    every = sorted(itertools.product(*(one.choices for one in parts)), key=loss)
    for n_best in (1, 2, 5, 64):
        found = whole([[one] for one in parts], " ", n_best=n_best)
        texts = {one.text for one in found.choices}
        assert texts == {" ".join(pick.text for pick in picks) for picks in every[:n_best]}


def test_a_line_of_many_parts_has_alternatives_within_little_memory() -> None:
    """With a combination of all numbers for each part, 100,000 parts would take 80 GB."""
    parts = [part(random.Random(number), number, 2) for number in range(100_000)]
    assert len(whole([[one] for one in parts], " ", n_best=4).alternatives) == 3
